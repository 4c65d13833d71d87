"""How long work says where it stands, and what Ctrl-C does to it, in one way for all of the library."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# called with what is being done, how much of it is done, and out of how much; None where that is not known
Callback = Callable[[str, int | None, int | None], None]


def silent(what: str, done: int | None = None, total: int | None = None) -> None:
    """Say nothing."""


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
