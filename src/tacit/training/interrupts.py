"""What Ctrl-C does to a training. Apart from the loop, since those who ask need no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

WHOLE: ContextVar[bool] = ContextVar("whole", default=False)


@contextmanager
def whole_trainings() -> Iterator[None]:
    """In here Ctrl-C ends a training with KeyboardInterrupt, not with its best state so far.

    For trainings that are one of many: a half-trained point of a frontier, or fold, must not pass for a whole one.
    """
    token = WHOLE.set(True)
    try:
        yield
    finally:
        WHOLE.reset(token)
