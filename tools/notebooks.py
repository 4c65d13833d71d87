"""Write the notebooks of `examples/` from here, so that they can be read in a diff: python tools/notebooks.py

Run them afterwards with `jupyter nbconvert --execute --inplace examples/*.ipynb`, which fills in what they show.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples"
TABLE = [
    "# Release a table\n\nA made-up table of people. Keep *income*, hide *sex*, and get the table back.",
    """import numpy as np
import pandas as pd

import tacit

rng = np.random.default_rng(0)
n = 3000
sex = rng.choice(["f", "m"], n)
job = np.where(rng.random(n) < .7, np.where(sex == "f", "nurse", "driver"), "clerk")
age = rng.integers(18, 70, n)
income = np.where(age + rng.normal(0, 8, n) > 45, "high", "low")
people = pd.DataFrame({"age": age, "job": job, "hours": rng.integers(10, 50, n), "income": income, "sex": sex})
X, y, sensitive = people[["age", "job", "hours"]], people[["income"]], people[["sex"]]
data = tacit.Dataset(X, y, sensitive, units="rows", name="people")
train, attack, test = data.split((.5, .2, .3), random_state=0)
data""",
    "`job` tells the sex of most people. A **coupling** replaces few values until it no longer does. It looks at the "
    "sensitive column, so it is given that at release too.",
    """f = tacit.CouplingFilter(random_state=0)
f.fit(train.X, train.y, sensitive_features=train.sensitive)
released = f.transform(test.X, sensitive_features=test.sensitive, y=test.y)
pd.concat([test.X.head(6), released.head(6).add_suffix(" released")], axis=1)""",
    "Attackers are trained afresh on released rows that the filter never saw. The light is *amber* at best: this was "
    "measured, not proved.",
    """report = tacit.audit(f, attack, test, random_state=0)
report""",
    "The same for the raw rows, to see what the filter did:",
    """raw = tacit.audit(None, attack, test, random_state=0, options=tacit.AuditOptions(name="raw rows"))
raw.verdict("sex")""",
    "A gate for a pipeline raises where a limit is not kept.",
    """try:
    raw.require(leakage={"sex": .60})
except tacit.TacitError as error:
    print(error)""",
]
CURVE = [
    "# The curve, and a point on it\n\nHow much utility does privacy cost? A **frontier** traces it, every point "
    "attacked afresh.",
    """import matplotlib.pyplot  # so that a notebook shows figures

import tacit

data = tacit.load_dataset("digits")                                  # keep odd/even, hide which digit
train, attack, test = data.split((.4, .3, .3), random_state=0)
f = tacit.CodebookFilter(16, random_state=0)
front = tacit.frontier(f, train, attack, test, values=4, seeds=1, attackers="logistic")
front""",
    "Certificates hold for all points together, so that any choice is valid.",
    """best = front.choose(max_leakage={"digit": .40}, certified=True)
print(best.report_)
best""",
    "The figure is an ordinary matplotlib object:",
    """figure = front.figure()
figure.axes[0].set_title("parity against digit")
figure""",
]
OWN = [
    "# Your own filter, encoder and attacker\n\nFive lines each.",
    "**An encoder**: a function of two widths that gives a torch module.",
    """from torch import nn

import tacit

data = tacit.load_dataset("quadrants", n=1500, random_state=0)
train, attack, test = data.split((.5, .2, .3), random_state=0)


def encoder(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Linear(16, n_out))


f = tacit.EIGAN(n_components=2, encoder=encoder, epochs=5, random_state=0)
f.fit(train.X, train.y, sensitive_features=train.sensitive)""",
    "**An attacker**: any classifier of scikit-learn, beside ours.",
    """from sklearn.naive_bayes import GaussianNB

report = tacit.audit(f, attack, test, attackers=["logistic", GaussianNB()], measurements="no-baseline")
{name: round(m.value, 3) for name, m in report.leakage["shape"].attackers.items()}""",
    "**A filter**: two methods. `check_filter` runs the contract that our own filters keep.",
    """import numpy as np

from tacit.filters.base import Filter, Knob
from tacit.filters.mechanism import Mechanism
from tacit.filters.base import release_by_folds
from tacit.testing import check_filter


class Rounded(Filter):
    \"\"\"The first column, rounded.\"\"\"

    knob = Knob("steps", utility_rises=True, values=(1, 2, 4))

    def __init__(self, steps=2, *, random_state=None):
        self.steps, self.random_state = steps, random_state

    def _learn(self, problem):
        steps = self.steps
        return Mechanism(lambda X: np.round(X.reshape(len(X), -1)[:, :1] * steps) / steps, width=1)

    def _out_of_fold(self, problem, drawn):
        return release_by_folds(problem, lambda part: self._learn(part).code)


print(len(check_filter(Rounded, sklearn=False)), "rules kept")""",
]


def cell(text: str, code: bool, number: int) -> dict:
    told = {"cell_type": "code" if code else "markdown", "id": f"cell-{number}", "metadata": {}}
    return (
        told | {"source": text.splitlines(keepends=True)} | ({"execution_count": None, "outputs": []} if code else {})
    )


def notebook(texts: list[str]) -> dict:
    """Words and code in turn; what begins like code is code."""
    starts = ("import", "from", "f =", "report", "raw", "try", "best", "figure")
    cells = [cell(text, text.startswith(starts), i) for i, text in enumerate(texts)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    for name, texts in {"table": TABLE, "curve": CURVE, "own": OWN}.items():
        (FOLDER / f"{name}.ipynb").write_text(json.dumps(notebook(texts), indent=1) + "\n", encoding="utf-8")
