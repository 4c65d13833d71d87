"""Run the papers' experiments: `papers/<name>/reproduce.py` says what, this package runs, keeps and tells."""

from tacit.reproduce.papers import Paper, find_papers, load_paper
from tacit.reproduce.run import Run
from tacit.reproduce.tables import write_readme, write_summary

__all__ = ["Paper", "Run", "find_papers", "load_paper", "write_readme", "write_summary"]
