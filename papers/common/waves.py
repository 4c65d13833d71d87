"""The parts of an experiment, side by side: `tacit reproduce ... --jobs 16`.

An experiment asks for its parts as it goes. A first pass notes which are missing, up to the line that needs one of
them; these are worked out in processes, and the next pass gets further. The last pass finds all of them there.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from papers.common.part import Work, finished

_WORK: Mapping[str, Work] = {}  # what the processes find: they are forked, so that nothing has to be sent to them


class Wanted:
    """Stands for a value that is not there yet: whatever uses it fails, and the pass ends there."""

    def __str__(self) -> str:  # also what another part's stamp is made of
        raise LookupError("not there yet")


def done(work: Mapping[str, Work], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part with what it gave, in the order in which they end."""
    global _WORK
    _WORK = work
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=context) as pool:
        waiting = {pool.submit(_one, key): key for key in work}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _one(key: str) -> dict[str, Any]:
    return finished(_WORK[key])
