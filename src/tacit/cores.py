"""How many cores a piece of work takes, and how other processes are started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["cores", "environment", "safe_path", "threads"]


def cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """What OMP_NUM_THREADS says; without it half of the cores that nobody uses.

    Threads that share a piece of work wait for each other many times a second, and one that has no core stops all of
    them: `tacit fit` of 10,000 rows beside four busy processes on two cores took 72 s with one thread, 355 s with two.

    Examples
    --------
    >>> 1 <= threads() <= max(cores(), threads())
    True
    """
    told = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # OpenMP takes a list: the first is ours
    if told.isdigit() and int(told) > 0:
        return int(told)
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, int((cores() - busy) / 2))


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable inside the block, for child processes too, and restore it afterwards."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def safe_path() -> contextlib.AbstractContextManager[None]:
    """Start processes that run no file of the current folder as a module, as `python -c` and `python -m` do."""
    return environment("PYTHONSAFEPATH", "1")
