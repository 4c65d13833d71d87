"""The data sets of the papers. Importing this lets `tacit.load_dataset` find them.

`tables`, `hospital`, `faces` and `signals` load what lies below TACIT_DATA, and read what the publishers hand out.
"""

from papers.data import faces, hospital, signals, tables
from papers.data.registry import REGISTRY, Known, locate, prepare, require

__all__ = ["REGISTRY", "Known", "faces", "hospital", "locate", "prepare", "require", "signals", "tables"]
