"""What Gaussian noise on a clipped code guarantees by itself, whatever the data and the attacker."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


def local_dp(sigma: float, diameter: float = 2.0, delta: float = 1e-5) -> dict[str, float]:
    """Epsilon of Gaussian noise between any two points of a ball, at this delta: the exact (analytic) value.

    It holds for one release of a record, as long as the noise's key stays secret.

    P(A) <= e^eps P'(A) + delta holds where Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D) <= delta.

    Examples
    --------
    >>> round(local_dp(2.0)["epsilon"], 2)
    4.38
    """
    ratio = diameter / sigma

    def excess(epsilon: float) -> float:
        second = np.exp(epsilon + norm.logcdf(-ratio / 2 - epsilon / ratio))
        return float(norm.cdf(ratio / 2 - epsilon / ratio) - second - delta)

    if excess(0.0) <= 0:
        return {"epsilon": 0.0, "delta": delta}
    high = ratio * ratio / 2 + ratio * np.sqrt(2 * np.log(1 / delta))
    return {"epsilon": float(brentq(excess, 0.0, high)), "delta": delta}
