"""Import this in a script of this folder: `tacit.load_dataset` then finds the papers' data sets, such as Adult."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import papers.data  # noqa: F401
