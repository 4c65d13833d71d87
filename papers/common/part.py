"""One piece of an experiment's work, and what is kept of it."""

from __future__ import annotations

import inspect
import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from tacit.auditing.looks import new_project


@dataclass(frozen=True)
class Work:
    """A function and what it is given."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def stamp(self) -> str:
        """Tells whether a part kept from before is the part asked for now."""
        told = [
            {k: v for k, v in a.items() if k not in ("title", "seeds", "needs")} if isinstance(a, Mapping) else a
            for a in self.arguments
        ]
        text = json.dumps(told, sort_keys=True, default=str) + inspect.getsource(inspect.unwrap(self.function))
        return sha256(text.encode()).hexdigest()[:12]


def finished(work: Work) -> dict[str, Any]:
    """The work's result as plain data, the seconds it took, the machine and the code it took them on, and its stamp."""
    began = time.perf_counter()
    with warnings.catch_warnings(), new_project():
        warnings.simplefilter("ignore")  # an experiment that is about a warning records it itself
        value = work.function(*work.arguments)
    seconds = round(time.perf_counter() - began, 2)
    plain = json.loads(json.dumps(value, default=_plain))
    return {"value": plain, "seconds": seconds, "stamp": work.stamp, "machine": machine(), "code": commit()}


def commit() -> str | None:
    """The commit that is checked out, with a + where files differ from it: a stamp knows the part's own text alone."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.strip() or None


# what makes a processor add up as another, older one does: a second machine where there is only one
ARITHMETIC = ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR")


def machine() -> str:
    """The processor, its number of cores, the arithmetic asked of it and, where there is one, the GPU."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    told = f"{model}, {os.cpu_count()} cores, {os.environ.get('OMP_NUM_THREADS', 'all')} thread"
    told += "".join(f", {name}={os.environ[name]}" for name in ARITHMETIC if name in os.environ)
    return f"{told}, beside {torch.cuda.get_device_name()}" if torch.cuda.is_available() else told


def _plain(value: Any) -> Any:
    """Numpy's numbers and arrays as JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
