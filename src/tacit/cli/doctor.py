"""`tacit doctor`: what is missing on this machine, and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from rich.table import Table

import tacit
from tacit.cores import cores, threads
from tacit.errors import installed
from tacit.report.screen import Console
from tacit.serve.browser import present

# what it is for, the library that shows whether it is here, and how it is got
EXTRAS = (
    ("release bundles", "onnxruntime", "pip install tacit"),
    ("tables: fit, audit, release", "sklearn", "pip install tacit"),
    ("fast boosted trees", "lightgbm", "pip install tacit"),
    ("networks: eigan, minimax, sensors, images", "torch", "pip install 'tacit[train]'"),
    ("photos", "PIL", "pip install 'tacit[deep]'"),
    ("figures as files", "matplotlib", "pip install 'tacit[figures]'"),
    ("a service: tacit serve", "fastapi", "pip install 'tacit[serve]'"),
    ("federations across machines", "flwr", "pip install 'tacit[federated]'"),
    ("differentially private fits", "dp_accounting", "pip install 'tacit[privacy]'"),
    ("signatures", "cryptography", "pip install 'tacit[sign]'"),
    ("Excel files", "openpyxl", "pip install 'tacit[excel]'"),
    ("DuckDB files", "duckdb", "pip install 'tacit[sql]'"),
)
NAMES = {"sklearn": "scikit-learn", "PIL": "pillow", "dp_accounting": "dp-accounting"}


def doctor() -> None:
    """Show what is missing on this machine, and how to get it.

    Example: tacit doctor
    """
    console = Console()
    python = platform.python_version()
    console.print(
        f"Tacit {tacit.__version__}, Python {python}, {platform.system()} {platform.machine()}", highlight=False
    )
    shown = Table(box=None, pad_edge=False)
    for head in ("for", "here", "how to get it"):
        shown.add_column(head, overflow="fold")
    for what, module, get in EXTRAS:
        name = NAMES.get(module, module)
        if installed(module):
            shown.add_row(what, f"[green]{name} {importlib.metadata.version(name)}[/green]", "")
        else:
            shown.add_row(what, f"[yellow]no {name}[/yellow]", get.replace("[", r"\["))
    here = present()
    shown.add_row("filters in the browser", "[green]yes[/green]" if here else "[yellow]no runtime[/yellow]",
                  "" if here else "python -m tacit.serve.browser (needs npm)")  # fmt: skip
    console.print(shown)
    for line in _machine():
        console.print(line, highlight=False, markup=False)


def _machine() -> list[str]:
    """Cores, memory of GPUs, threads and folders, each with what to do."""
    lines = [f"Cores: {cores()}; work takes {threads()} (half of the free ones; OMP_NUM_THREADS sets another)"]
    if "torch" in sys.modules or installed("torch"):
        import torch  # only where it is there

        gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none; networks learn on the processor"
        lines.append(f"GPU: {gpu}")
    folder = os.environ.get("TACIT_DATA")
    if not folder:
        lines.append("TACIT_DATA is not set: the papers' data sets are looked for in the cache alone")
    elif not Path(folder).is_dir():
        lines.append(f"TACIT_DATA is {folder}, which is no folder: make it, or name another")
    else:
        lines.append(f"TACIT_DATA: {folder}, {len(list(Path(folder).iterdir()))} entries")
    return lines
