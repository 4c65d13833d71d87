"""How long work says where it stands, in one way for all of the library."""

from collections.abc import Callable

# called with what is being done, how much of it is done, and out of how much; None where that is not known
Callback = Callable[[str, int | None, int | None], None]


def silent(what: str, done: int | None = None, total: int | None = None) -> None:
    """Say nothing."""
