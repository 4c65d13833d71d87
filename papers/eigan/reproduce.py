"""The experiments of "Can we Generalize and Distribute Private Representation Learning?" (EIGAN), in its order.

Every release is measured twice, as the paper does and by an audit: see `protocol.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from papers.common.run import Run

from .age import age
from .curves import fig3, fig16, table3
from .dimensions import fig6, fig17
from .distributed import fig7, fig8, fig9, fig21
from .importance import fig4
from .synthetic import fig5, synthetic
from .tables import table1, table1_faces, table2
from .titanic_wide import titanic_wide
from .uploads import uploads

EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "table1": table1,
    "table1_faces": table1_faces,
    "table2": table2,
    "table3": table3,
    "titanic_wide": titanic_wide,
    "synthetic": synthetic,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig16": fig16,
    "fig17": fig17,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig21": fig21,
    "uploads": uploads,
    "age": age,
}
