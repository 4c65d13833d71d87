"""Every method on every table, by one protocol, so that the cells can be compared.

The filter has half of the rows, attackers trained afresh on its release a fifth, the test the rest (by unit). Each
method stands at one setting, chosen on no data at all: a point of its curve, not the curve. Images are taken as rows
of pixels. What needs windows or images (DPFE, the anonymizing autoencoder, the task mask) has tables of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

import tacit
from papers.common.principal import principal
from papers.common.run import Run, honest
from tacit import baselines
from tacit.records.dataset import Dataset

# target, secret
DATA = {
    "adult": ("income", "sex"), "titanic": ("Survived", "Sex"), "mimic_demo": ("HOSPITAL_EXPIRE_FLAG", "GENDER"),
    "diabetes": ("progression", "sex"), "digits": ("parity", "digit"), "mnist": ("parity", "digit"),
    "uci_har": ("activity", "subject"), "emodb": ("emotion", "speaker"), "genki": ("smile", "gender"),
    "cmu_faces": ("sunglasses", "person"),
}  # fmt: skip
METHODS: dict[str, Callable[[int], Any]] = {
    "label-only": lambda seed: floor(seed),
    "raw data": lambda seed: None,
    "PCA, d=10": lambda seed: PCA(10, random_state=seed),
    "autoencoder, d=8": lambda seed: baselines.Autoencoder(8, random_state=seed),
    "Laplace, epsilon 20": lambda seed: baselines.LaplaceMechanism(20.0),
    "LEACE": lambda seed: baselines.LinearEraser(),
    "discriminability mask": lambda seed: baselines.DiscriminabilityMask(),
    "PPLS": lambda seed: baselines.PrivatePLS(),
    "Linear-ARL": lambda seed: baselines.LinearARL(),
    "Kernel-ARL": lambda seed: baselines.KernelARL(n_features=300, random_state=seed),
    "Bertran": lambda seed: baselines.VariationalObfuscator(random_state=seed),
    "minimax, d=5": lambda seed: tacit.MinimaxFilter(5, random_state=seed),
    "EIGAN, l=8": lambda seed: tacit.EIGAN(8, random_state=seed),
    "EIGAN, l=4, noise .3": lambda seed: tacit.EIGAN(4, noise=0.3, random_state=seed),
    "codebook": lambda seed: tacit.CodebookFilter(leakage_weight=1.0, random_state=seed),
    "codebook, closed": lambda seed: tacit.CodebookFilter(leakage_weight=0.1, solver="closed", random_state=seed),
}


def everywhere(run: Run) -> None:
    """One cell for each method and each table: what it keeps, and what the best fresh attacker reads."""
    s = run.settings
    found = {
        data: {name: run.part(f"{data}: {name}", cell, data, name, s) for name in s.get("methods", METHODS)}
        for data in s["data"]
    }
    for data, cells in found.items():
        target, secret = DATA[data]
        for name, audit in cells.items():
            if "refused" in audit:
                run.note(f"{data}, {name}: {audit['refused']}")
                continue
            kept, leak = audit["utility"][target], audit["leakage"][secret]
            run.row(f"{data}, {name}", f"{target}, accuracy", None, kept["value"],
                    interval=(kept["low"], kept["high"]), guessing=kept["guessing"])  # fmt: skip
            run.row(f"{data}, {name}", f"{secret}, balanced", None, None, leak["value"], (leak["low"], leak["high"]),
                    leak["by"], leak["guessing"])  # fmt: skip
            run.audited(name, data, audit, floor=as_floor(cells["label-only"]), compared=True)
    run.figure("everywhere", draw(found))


def floor(seed: int) -> Any:
    """Label-only as the floor has it: it leaves nobody's hands, so it need not be coarsened for its training people."""
    label = baselines.LabelOnly(random_state=seed)
    label.min_people = 1
    return label


def as_floor(label_only: dict[str, Any]) -> dict[str, Any]:
    """Here label-only is a release like any other; beside the others it is the floor."""
    return {"label_only": label_only["leakage"], "label_only_utility": label_only["utility"]}


def cell(data: str, name: str, s: dict[str, Any]) -> dict[str, Any]:
    train, attack, test = parts(data, s["rows"])
    release = METHODS[name](0)
    try:
        if isinstance(release, PCA):
            release = principal(release, train.X)
        elif release is not None:
            release.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    except tacit.TacitError as refusal:
        return {"refused": str(refusal)}
    report = tacit.audit(
        release, attack, test, s["attackers"], measurements="no-baseline", options=tacit.AuditOptions(pooled=())
    )
    return honest(report)


def parts(name: str, rows: int) -> tuple[Dataset, ...]:
    target, secret = DATA[name]
    more = {"classes": True} if name == "diabetes" else {}  # the table is of classes
    data = (
        tacit.load_dataset(name, target=target, sensitive=secret)
        if name in CHOICE
        else tacit.load_dataset(name, **more)
    )
    X = data.X.reshape(len(data), -1) if np.ndim(data.X) > 2 else data.X
    data = Dataset(X, data.y[[target]], data.sensitive[[secret]], units=data.units_of(secret), name=name)
    if len(data) > rows:
        data = data.split((rows, len(data) - rows), random_state=0)[0]
    return data.split((0.5, 0.2, 0.3), random_state=0)


CHOICE = ("cmu_faces",)  # has several targets


def draw(found: dict[str, dict[str, Any]]) -> Figure:
    """A panel for each table, down and to the right is better; dotted: label-only. Grey: what guessing gets."""
    columns = min(5, len(found))
    lines = -(-len(found) // columns)
    figure = Figure(figsize=(2.5 * columns + 2.2, 2.5 * lines + 0.3), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis in axes[len(found) :]:
        axis.set_visible(False)
    marks = "*osD^v<>pPXhHd8+"
    for axis, (data, cells) in zip(axes, found.items(), strict=False):
        target, secret = DATA[data]
        for i, (name, audit) in enumerate(cells.items()):
            if "refused" in audit:
                continue
            kept, leak = audit["utility"][target]["value"], audit["leakage"][secret]["value"]
            axis.plot(kept, leak, marks[i % len(marks)], color=f"C{i % 10}", ms=9 if i == 0 else 5, label=name)
            if name == "label-only":
                axis.axvline(kept, color="0.7", ls=":", lw=1)
                axis.axhline(leak, color="0.7", ls=":", lw=1)
                axis.axvline(audit["utility"][target]["guessing"], color="0.9", lw=1)
                axis.axhline(audit["leakage"][secret]["guessing"], color="0.9", lw=1)
        axis.set_title(f"{data}", fontsize=9)
        axis.set_xlabel(f"{target} kept", fontsize=7)
        axis.set_ylabel(f"{secret} read", fontsize=7)
        axis.tick_params(labelsize=6)
    handles = {t: h for a in axes for h, t in zip(*a.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=7)
    return figure
