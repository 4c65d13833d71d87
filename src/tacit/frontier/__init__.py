"""The frontier: whole curves of utility against leakage in one run, and the choice of a point on them."""

from tacit.callable_module import make_callable
from tacit.frontier.curve import Frontier
from tacit.frontier.trace import frontier

__all__ = ["Frontier", "frontier"]

make_callable(__name__, frontier)
