"""Sections 3.6 and 4 of Malekzadeh et al. (2019), "Mobile sensor data anonymization", on the paper's own data.

Table 2 tells the full runs of `motionsense.py` (its protocols are described there); the figures run here,
those that need a trained network at reduced size on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

from papers.common.run import Run

from . import other_secrets
from .networks import fig7, fig12, fig15
from .signals import fig10, fig11, fig13, fig14
from .table2 import table2

EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "table2": table2,
    "fig7": fig7,
    "fig10": fig10,
    "fig11": fig11,
    "fig12": fig12,
    "fig13": fig13,
    "fig14": fig14,
    "fig15": fig15,
    "gender": other_secrets.gender,
    "together": other_secrets.with_identity,
    "weight": other_secrets.weight,
    "undeclared": other_secrets.undeclared,
    "undeclared-rows": other_secrets.undeclared,
    "age": other_secrets.age,
    "refine": other_secrets.refine,
}
