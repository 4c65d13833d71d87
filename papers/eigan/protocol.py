"""How every release is measured, twice, and who gets which rows.

`in_print`: as the paper does, one network per objective that learns from the encoded *training* rows (plain accuracy,
cross-entropy on logits). `audit`: attackers of several families, trained afresh on released rows that the filter
never saw, the best chosen on validation rows (balanced accuracy with interval).

70 of 100 rows are the filter's, as in print (of Adult the official training rows, or half of the rows that are used).
The paper's measure is taken on all the others; the audit's attackers learn from one half of these and are measured on
the other.
What is tuned (alpha, epsilon, epochs) is tuned on rows that are cut from the filter's own: `validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import tacit
from papers.common.principal import principal
from papers.common.run import Run, by_attacker, honest
from papers.common.shown import shown
from tacit.records.encoding import make_encoder

Parts = tuple[tacit.Dataset, tacit.Dataset, tacit.Dataset]  # for the filter, for attackers, to test on


def each_release(run: Run, names: Any, work: Callable[..., Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [run.part(f"{name} seed {seed}", work, name, seed, run.settings) for seed in run.seeds] for name in names
    }


def measured(release: Any, parts: Parts, seed: int, s: Mapping[str, Any], floor: bool | None = None,
             hidden: tuple[int, ...] = (64,)) -> dict[str, Any]:  # fmt: skip
    """Both measurements of one release; with the raw data also the label-only floor."""
    return {
        "print": in_print(release, parts[0], parts[1:], seed, s["evaluation"], hidden=hidden),
        "audit": honest(audit(release, parts, seed, s, release is None if floor is None else floor))
        if s["attackers"]
        else {},
    }


def audit(release: Any, parts: Parts, seed: int, s: Mapping[str, Any], floor: bool = False) -> Any:
    return tacit.audit(
        release,
        parts[1],
        parts[2],
        s["attackers"],
        measurements=[*ATTACKS_ALONE, "no-limit" if floor else "no-baseline"],
        random_state=seed,
        options=tacit.AuditOptions(pooled=()),
    )


# what a report tells besides, and these tables do not: half of the time, or more with a wide code
ATTACKS_ALONE = ("no-reconstruction", "no-breadth", "no-linkability", "no-singling_out")


def in_print(
    release: Any,
    train: tacit.Dataset,
    held_out: Sequence[tacit.Dataset],
    seed: int,
    epochs: int,
    labels: Sequence[str] | None = None,
    hidden: tuple[int, ...] = (64,),
) -> dict[str, dict[str, Any]]:
    """The paper's evaluation: per objective a network that learns from the encoded training rows; losses by epoch."""
    encode = encoding_of(release, train.X)
    Z, Zt = encode(train.X), np.concatenate([encode(p.X) for p in held_out])
    scale = StandardScaler().fit(Z)
    Z, Zt = scale.transform(Z), scale.transform(Zt)
    out = {}
    for side in ("y", "sensitive"):
        for label in getattr(train, side).columns:
            if labels is not None and label not in labels:
                continue
            y, *others = (text(getattr(p, side)[label]) for p in (train, *held_out))
            yt = np.concatenate(others)
            known = y != UNKNOWN
            classes = np.unique(y[known])
            seen = np.isin(yt, classes)
            network = MLPClassifier(hidden, learning_rate_init=2e-3, batch_size=min(64, known.sum()), random_state=seed)
            losses = []
            for _ in range(epochs):
                network.partial_fit(Z[known], y[known], classes=classes)
                losses.append(float(log_loss(yt[seen], network.predict_proba(Zt[seen]), labels=classes)))
            shares = np.array([(y[known] == c).mean() for c in classes])
            out[label] = {
                "accuracy": float(accuracy_score(yt[seen], network.predict(Zt[seen]))),
                "log_loss": losses[-1],
                "losses": [round(v, 4) for v in losses],
                # of somebody who sees no release, and knows the classes' shares of the training rows
                "guessing": float((yt[seen] == classes[shares.argmax()]).mean()),
                "guessing_loss": float(-np.log(shares[np.searchsorted(classes, yt[seen])]).mean()),
            }
    return out


UNKNOWN = "nan"


def text(labels: pd.Series) -> np.ndarray:
    return labels.astype(object).where(labels.notna(), UNKNOWN).astype(str).to_numpy()


def encoding_of(release: Any, X: Any) -> Callable[[Any], np.ndarray]:
    """What the evaluating networks are given: the release, or the raw records as numbers."""
    if release is None and isinstance(X, pd.DataFrame):
        return make_encoder(X).transform
    return lambda x: np.asarray(x if release is None else release.transform(x)).reshape(len(x), -1)


def validation(train: tacit.Dataset, seed: int) -> tuple[tacit.Dataset, tacit.Dataset]:
    """The filter's rows cut in two: to learn from, and to choose a setting on."""
    return train.split((0.8, 0.2), random_state=(seed + 1) * 101)


def mean_in_print(run: Run, what: str, label: str, found: Sequence[Mapping[str, Any]], printed: Any = None,
                  loss: bool = False, leak: Mapping[str, Any] | None = None) -> None:  # fmt: skip
    """One row: the mean over seeds of the paper's measure beside what guessing gets; `leak` is an attacker's."""
    key, name = ("log_loss", "cross-entropy") if loss else ("accuracy", "accuracy")
    ours, guessing = (
        float(np.mean([f["print"][label][k] for f in found])) for k in (key, "guessing_loss" if loss else "guessing")
    )
    balanced = "" if leak is None else f"; attacker: balanced, {shown(leak['guessing'])}"
    run.row(what, f"{label}, {name} (guessing {shown(guessing)}{balanced})", printed, ours, **by_attacker(leak))


def fitted(release: Any, train: tacit.Dataset, seed: int) -> Any:
    if release is None:
        return None
    if isinstance(release, PCA):
        return principal(release, train.X)
    return release.fit(train.X, train.y, sensitive_features=train.sensitive)


def history(release: tacit.EIGAN) -> dict[str, list[float]]:
    """The game's own losses, a hundred of them at most: means over pieces of the training."""
    lines = release.history_
    pieces = np.array_split(np.arange(len(lines)), min(100, len(lines)))
    keys = [k for k in lines[0] if k != "epoch"]
    return {k: [round(float(np.mean([lines[i][k] for i in piece])), 4) for piece in pieces] for k in keys}


def adult_parts(
    rows: Sequence[int], seed: int, sensitive: Sequence[str] = ("sex",), keep_sensitive: bool = False
) -> Parts:
    """A draw of the official training rows for the filter, of the official test rows for attackers and test."""
    train, test = tacit.load_dataset("adult", sensitive=list(sensitive), keep_sensitive=keep_sensitive).split(
        "official"
    )
    rng = np.random.default_rng(seed)
    train = train.take(rng.permutation(len(train))[: rows[0]])
    attack, test = test.take(rng.permutation(len(test))[: rows[1] + rows[2]]).split(rows[1:], random_state=seed)
    return train, attack, test


def titanic_parts(seed: int, sensitive: Sequence[str] = ("Sex", "Pclass")) -> Parts:
    return tacit.load_dataset("titanic", sensitive=list(sensitive)).split((0.7, 0.15, 0.15), random_state=seed)


def mimic_parts(seed: int) -> Parts:
    data = tacit.load_dataset("mimic_demo", sensitive=["GENDER", "ETHNICITY"])
    race = data.sensitive["ETHNICITY"].astype(str).str.upper().str.startswith("WHITE")
    secrets = data.sensitive.assign(ETHNICITY=np.where(race, "white", "other"))
    data = tacit.Dataset(data.X, data.y, secrets, units=data.units, name="mimic_demo")
    return data.split((0.5, 0.25, 0.25), random_state=seed)  # as many to test on as to learn from


def mimic3_parts(
    seed: int, sensitive: Sequence[str] = ("GENDER", "RACE"), rows: Sequence[float] = (41283, 8846, 8847)
) -> Parts:
    """The paper's own: 58,976 admissions, survival kept, gender and race withheld; by patient."""
    return cut(tacit.load_dataset("mimic3", sensitive=list(sensitive)), rows, seed)


def cut(data: tacit.Dataset, rows: Sequence[float], seed: int) -> Parts:
    """A draw of so many rows for each part; of a smaller table all rows, in these proportions."""
    drawn = data.take(np.random.default_rng(seed).permutation(len(data))[: int(sum(rows))])
    train, attack, test = drawn.split(rows, random_state=seed)
    return train, attack, test
