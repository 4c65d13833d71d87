"""`tacit.audit`: release fresh rows, train attackers on one part, measure them on another."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from tacit.audit.attackers import Counting, Maker, resolve
from tacit.audit.certificate import Certificate, certify, release_cells
from tacit.audit.report import Report, Result
from tacit.audit.stats import accuracy, balanced_accuracy, macro_auc
from tacit.dataset import Dataset, allot
from tacit.errors import InputError
from tacit.labels import MISSING, encode_labels
from tacit.tables import make_encoder

VALIDATION = 0.25  # of the attackers' rows, to choose the one that is reported
MOST_ROWS = 20_000  # that an attacker learns from
FEWEST_IN_SAMPLE = 60  # seen rows needed to say anything about them


def audit(
    release: Any,
    attack: Dataset,
    test: Dataset,
    attackers: str | Sequence[Any] = "quick",
    alongside: Sequence[str] | None = None,
    *,
    train: Dataset | None = None,
    level: float = 0.95,
    floor: bool = True,
    name: str | None = None,
    seed: int = 0,
) -> Report:
    """Measure what a release keeps and what it gives away.

    Attackers learn from the released `attack` rows and are measured on the released `test` rows.
    Rows that the filter was fitted on are noticed, taken out, and reported apart as "in-sample".
    Where the release is finite (a code), a certificate bounds *any* attacker.

    Parameters
    ----------
    release : anything with ``transform``; a pair of released arrays (for `attack` and `test`);
        or None for the raw data
    attack, test : data sets with targets and sensitive attributes
    attackers : a preset ("quick") or a list of names and scikit-learn classifiers
    alongside : columns of X that travel with the release; attacked and certified together with it
    train : the rows the filter was fitted on, to see how much more they leak
    level : confidence of the intervals and of the certificate
    floor : also show what the predicted label alone gives away

    Examples
    --------
    >>> import tacit
    >>> from sklearn.decomposition import PCA
    >>> train, attack, test = tacit.load_dataset("quadrants", n=900).split()
    >>> report = tacit.audit(PCA(1).fit(train.X), attack, test, attackers="logistic", floor=False)
    >>> 0 <= report.leakage["shape"].low <= report.leakage["shape"].value <= 1
    True
    """
    makers = resolve(attackers)
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.95; found {level!r}")
    _check_pair(attack, test)
    bench = _Bench(makers, level, seed)
    # statements about several secrets hold together: each spends its share of the error
    strict = _Bench(makers, 1 - (1 - level) / max(1, len(test.sensitive.columns)), seed)
    Za, Zt = _released(release, attack, test, alongside)
    seen_a, seen_t = _seen(release, attack), _seen(release, test)
    notes: list[str] = []
    in_sample: dict[str, Result] = {}
    if release is not None and not _can_tell(release):
        notes.append(
            "this release cannot tell which rows it was fitted on; the figures assume that it saw none of these"
        )
    fresh = not (seen_t.all() or seen_a.all())
    if fresh:
        fresh_a, fresh_t = ~seen_a, ~seen_t
        if count := int(seen_a.sum() + seen_t.sum()):
            notes.append(f"{count:,} rows of `attack` and `test` equal rows of the fit; they are reported apart")
    else:
        fresh_a, fresh_t = np.ones(len(attack), dtype=bool), np.ones(len(test), dtype=bool)
        notes.append(
            "in-sample: every row of `attack` or of `test` was used to fit the filter; these figures say nothing "
            "about other people's rows. Split the data first and fit on another part"
        )
    part_a, part_t = attack.take(fresh_a), test.take(fresh_t)
    Za_fresh, Zt_fresh = _rows(Za, fresh_a), _rows(Zt, fresh_t)

    utility = bench.run(Za_fresh, part_a, Zt_fresh, part_t, "y", "accuracy")
    leakage = strict.run(Za_fresh, part_a, Zt_fresh, part_t, "sensitive", "balanced_accuracy")
    if fresh:
        in_sample = _in_sample(strict, release, [(Za, attack, seen_a), (Zt, test, seen_t)], train, alongside, notes)
    crossing = _crossing(part_a, part_t)
    if crossing:
        notes.append(
            f"{crossing} units are in both `attack` and `test`, so attackers have met the people they are tested on "
            f"and nothing can be certified; split by unit (Dataset.split does)"
        )
    certificate, bound = dict.fromkeys(leakage), dict.fromkeys(leakage)
    if fresh and not crossing:
        # rows equal to rows of the fit may be other people's: the larger bound holds whichever they are
        versions = [(Za_fresh, part_a, Zt_fresh, part_t)]
        if seen_a.any() or seen_t.any():
            versions.append((Za, attack, Zt, test))
        certificate, bound = _certificates(versions, level, notes)
    label_only = _floor(strict, part_a, part_t, seed) if floor and len(part_a.y.columns) else {}
    notes += getattr(release, "notes_", [])
    if sum(c is not None for c in certificate.values()) > 1:
        notes.append(
            "every secret is certified by itself; what the release says about their combination is not covered"
        )
    settings = {
        "attackers": list(makers),
        "level": level,
        "seed": seed,
        "data": test.name,
        "rows": {"attack": len(part_a), "test": len(part_t)},
        "alongside": list(alongside or []),
    }
    return Report(
        name=name or _name(release),
        utility=utility,
        leakage=leakage,
        certificate=certificate,
        bound=bound,
        in_sample=in_sample,
        label_only=label_only,
        fresh=fresh,
        notes=tuple(notes),
        settings=settings,
    )


class _Bench:
    """The same attackers, with the same budget, for every release."""

    def __init__(self, makers: Mapping[str, Maker], level: float, seed: int) -> None:
        self.makers, self.level, self.seed = makers, level, seed

    def run(self, Za: Any, attack: Dataset, Zt: Any, test: Dataset, side: str, headline: str) -> dict[str, Result]:
        """Attack every column of `y` or of `sensitive`."""
        encoder = make_encoder(_plain(Za))
        Xa, Xt = (encoder.transform(_plain(Z)).reshape(len(Z), -1) for Z in (Za, Zt))
        finite = release_cells(np.concatenate([Xa, Xt])) is not None
        frames = getattr(attack, side), getattr(test, side)
        results = {}
        for column in frames[0].columns:
            classes = _classes(frames, column)
            ya, yt = (encode_labels(f[[column]], column, len(f), classes).codes[:, 0] for f in frames)
            ka, kt = ya != MISSING, yt != MISSING
            if len(np.unique(ya[ka])) < 2 or kt.sum() < 2:
                raise InputError(
                    f"{column!r} has {len(np.unique(ya[ka]))} classes in `attack` and {kt.sum()} known labels "
                    f"in `test`; attackers need two classes and two rows: use larger parts"
                )
            units = [None if (u := d.units_of(column)) is None else u[k] for d, k in ((attack, ka), (test, kt))]
            results[column] = self._one(
                column, Xa[ka], ya[ka], units[0], Xt[kt], yt[kt], units[1], len(classes[0]), headline, finite
            )
        return results

    def _one(
        self,
        column: str,
        Xa: np.ndarray,
        ya: np.ndarray,
        ua: np.ndarray | None,
        Xt: np.ndarray,
        yt: np.ndarray,
        ut: np.ndarray | None,
        n_classes: int,
        headline: str,
        finite: bool,
    ) -> Result:
        makers = {**self.makers, "counting": lambda n, m, seed: Counting()} if finite else dict(self.makers)
        if len(Xa) > MOST_ROWS:
            some = np.random.default_rng(self.seed).permutation(len(Xa))[:MOST_ROWS]
            Xa, ya, ua = Xa[some], ya[some], None if ua is None else ua[some]
        n_units = len(Xa) if ua is None else len(np.unique(ua))
        check = allot(ya, np.array([1 - VALIDATION, VALIDATION]), self.seed, ua) == 1 if n_units > 3 else ya < 0
        chosen, best = "", -1.0
        outcomes = {}
        for name, make in makers.items():
            if check.any():
                p = self._probabilities(make, Xa[~check], ya[~check], Xa[check], n_classes)
                score = self._score(ya[check], p, ya[~check], n_classes, headline)
            else:
                score = 0.0
            if score > best:
                chosen, best = name, score
            outcomes[name] = self._probabilities(make, Xa, ya, Xt, n_classes)
        wide = 1 - (1 - self.level) / len(makers)  # a displayed maximum must hold for all of them
        shown = {n: self._measures(yt, p, ya, n_classes, ut, wide)[headline] for n, p in outcomes.items()}
        measures = self._measures(yt, outcomes[chosen], ya, n_classes, ut, self.level)
        return Result(
            column,
            headline,
            chosen,
            **measures,
            n=len(yt),
            n_units=len(yt) if ut is None else len(np.unique(ut)),
            attackers=shown,
        )

    def _probabilities(self, make: Maker, Xa: np.ndarray, ya: np.ndarray, X: np.ndarray, n_classes: int) -> np.ndarray:
        classes = np.unique(ya)
        p = np.zeros((len(X), n_classes))
        if len(classes) < 2:
            p[:, classes] = 1.0
            return p
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)  # LightGBM asks for feature names
            model = make(Xa.shape, len(classes), self.seed).fit(Xa, np.searchsorted(classes, ya))
            p[:, classes] = model.predict_proba(X)
        return p

    def _score(self, y: np.ndarray, p: np.ndarray, seen: np.ndarray, n_classes: int, headline: str) -> float:
        return self._measures(y, p, seen, n_classes, None, self.level)[headline].value

    @staticmethod
    def _measures(
        y: np.ndarray, p: np.ndarray, seen: np.ndarray, n_classes: int, units: np.ndarray | None, level: float
    ) -> dict[str, Any]:
        # for balanced accuracy the best answer divides by how common a class is
        prior = np.maximum(np.bincount(seen, minlength=n_classes), 1) / len(seen)
        return {
            "accuracy": accuracy(y, p.argmax(1), units, level),
            "balanced_accuracy": balanced_accuracy(y, (p / prior).argmax(1), n_classes, units, level),
            "auc": macro_auc(y, p, units, level),
        }


def _certificates(
    versions: list[tuple[Any, Dataset, Any, Dataset]], level: float, notes: list[str]
) -> tuple[dict[str, Certificate | None], dict[str, float | None]]:
    """Certify every secret on all fresh rows (attackers never touch the filter, so both parts may count)."""
    names = list(versions[0][1].sensitive.columns)
    certificate: dict[str, Certificate | None] = dict.fromkeys(names)
    bound: dict[str, float | None] = dict.fromkeys(names)
    delta = (1 - level) / max(1, len(names))
    cells = [_cells(Za, Zt) for Za, _, Zt, _ in versions]
    if any(c is None for c in cells):
        notes.append("no certificate exists for a release that is not finite; these figures are audited, not certified")
        return certificate, bound
    for name in names:
        found = [
            [_certify(c, attack, test, name, d) for c, (_, attack, _, test) in zip(cells, versions, strict=True)]
            for d in (delta, delta / 2)
        ]
        worst, two_sided = (max(candidates, key=lambda c: c.bound) for candidates in found)
        if two_sided.bound >= 1:
            notes.append(f"{name}: too few units to certify ({two_sided.n_units:,} units, {two_sided.cells} cells)")
        else:
            certificate[name], bound[name] = worst, two_sided.bound
    return certificate, bound


def _certify(cells: Any, attack: Dataset, test: Dataset, name: str, delta: float) -> Certificate:
    frames = attack.sensitive, test.sensitive
    classes = _classes(frames, name)
    secret = np.concatenate([encode_labels(f[[name]], name, len(f), classes).codes[:, 0] for f in frames])
    known = secret != MISSING
    units = None
    if attack.units is not None:
        units = pd.factorize(np.concatenate([attack.units_of(name), test.units_of(name)]))[0][known]
    return certify(cells[known], secret[known], len(classes[0]), delta, units)


def _cells(Za: Any, Zt: Any) -> np.ndarray | None:
    both = pd.concat([_plain_frame(Za), _plain_frame(Zt)], ignore_index=True)
    return release_cells(np.column_stack([pd.factorize(both[c])[0] for c in both.columns]).astype(np.int64))


def _in_sample(
    bench: _Bench,
    release: Any,
    parts: list[tuple[Any, Dataset, np.ndarray]],
    train: Dataset | None,
    alongside: Sequence[str] | None,
    notes: list[str],
) -> dict[str, Result]:
    """How much rows of the fit leak: attackers learn from one half of them and are tested on the other."""
    if train is not None:
        if not hasattr(release, "transform"):
            raise InputError("train= needs a filter to release the rows; a pair of released arrays has none")
        Z: Any = _side(release.transform(train.X), train, alongside)
        data: Dataset | None = replace(train, rows=None)
    else:
        Z = _stack([_rows(Z, seen) for Z, _, seen in parts])
        data = _join([d.take(seen) for _, d, seen in parts if seen.any()])
    if data is None or len(data) < FEWEST_IN_SAMPLE:
        return {}
    one, two = data.split((0.5, 0.5), seed=bench.seed)
    at = [np.searchsorted(data.rows, part.rows) for part in (one, two)]
    try:
        return bench.run(_rows(Z, at[0]), one, _rows(Z, at[1]), two, "sensitive", "balanced_accuracy")
    except InputError as error:
        notes.append(f"the leakage of rows of the fit could not be measured: {error}")
        return {}


def _floor(bench: _Bench, attack: Dataset, test: Dataset, seed: int) -> dict[str, Result]:
    """Leakage of the predicted label alone: predicted out of fold on `attack`, then attacked by counting."""
    from tacit.baselines import LabelOnly

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = attack.y.notna().all(axis=1).to_numpy()
        label = LabelOnly(random_state=seed).fit(
            attack.take(known).X, attack.take(known).y, units=attack.take(known).units_of()
        )
    counting = _Bench({"counting": lambda n, m, s: Counting()}, bench.level, seed)
    return counting.run(
        label.release_training_rows(),
        attack.take(known),
        label.transform(test.X),
        test,
        "sensitive",
        "balanced_accuracy",
    )


# -- releases and rows --------------------------------------------------------------------------


def _released(release: Any, attack: Dataset, test: Dataset, alongside: Sequence[str] | None) -> tuple[Any, Any]:
    if release is None:
        Z = attack.X, test.X
    elif isinstance(release, (tuple, list)):
        if len(release) != 2:
            raise InputError(
                f"pass a pair of released arrays, one for `attack` and one for `test`; found {len(release)}"
            )
        Z = release[0], release[1]
    elif hasattr(release, "transform"):
        Z = release.transform(attack.X), release.transform(test.X)
    else:
        raise InputError(
            f"{release!r} has no transform; pass a filter, a pair of released arrays, or None for raw data"
        )
    Z = tuple(part.toarray() if hasattr(part, "toarray") else part for part in Z)
    for part, data, word in ((Z[0], attack, "attack"), (Z[1], test, "test")):
        if len(part) != len(data):
            raise InputError(
                f"the release of `{word}` has {len(part)} rows but the data has {len(data)}; release every row once"
            )
    return _side(Z[0], attack, alongside), _side(Z[1], test, alongside)


def _side(Z: Any, data: Dataset, alongside: Sequence[str] | None) -> Any:
    """The release with the columns that travel beside it."""
    if not alongside:
        return Z
    missing = [c for c in alongside if not isinstance(data.X, pd.DataFrame) or c not in data.X]
    if missing:
        raise InputError(f"alongside names {missing[0]!r}, which is no column of X")
    return pd.concat([_plain_frame(Z), data.X[list(alongside)].reset_index(drop=True)], axis=1)


def _seen(release: Any, data: Dataset) -> np.ndarray:
    """Rows (or whole units) that the filter was fitted on; a pipeline is asked through its filter."""
    X = data.X
    if hasattr(release, "named_steps"):
        for _, step in release.steps:
            if hasattr(step, "seen"):
                return step.seen(X, data.units_of())
            if hasattr(step, "transform"):
                X = step.transform(X)
    return release.seen(X, data.units_of()) if hasattr(release, "seen") else np.zeros(len(data), dtype=bool)


def _can_tell(release: Any) -> bool:
    return hasattr(release, "seen") or any(hasattr(step, "seen") for _, step in getattr(release, "steps", []))


def _crossing(attack: Dataset, test: Dataset) -> int:
    """How many units stand in both parts, for the unit that separates them most finely."""
    if attack.units is None or test.units is None:
        return 0
    return min(len(np.intersect1d(attack.units[k], test.units[k])) for k in attack.units)


def _plain(Z: Any) -> Any:
    if isinstance(Z, pd.DataFrame):
        return Z.reset_index(drop=True).set_axis([str(c) for c in Z.columns], axis=1)
    array = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z)
    if array.dtype.kind in "OUS":
        return _plain_frame(array)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(
            f"the release has NaN or infinity in row {int(np.argwhere(~np.isfinite(array))[0][0])}; repair the filter"
        )
    return array[:, None] if array.ndim == 1 else array


def _plain_frame(Z: Any) -> pd.DataFrame:
    if isinstance(Z, pd.DataFrame):
        return Z.reset_index(drop=True)
    array = np.asarray(Z)
    flat = array.reshape(len(array), -1)
    return pd.DataFrame(flat, columns=[f"z{i}" for i in range(flat.shape[1])])


def _rows(Z: Any, rows: np.ndarray) -> Any:
    return (
        Z.iloc[np.flatnonzero(rows) if rows.dtype == bool else rows]
        if isinstance(Z, pd.DataFrame)
        else np.asarray(Z)[rows]
    )


def _stack(parts: list[Any]) -> Any:
    return pd.concat(parts, ignore_index=True) if isinstance(parts[0], pd.DataFrame) else np.concatenate(parts)


def _join(parts: list[Dataset]) -> Dataset | None:
    if not parts:
        return None
    first = parts[0]
    units = None if first.units is None else {k: np.concatenate([p.units[k] for p in parts]) for k in first.units}
    return Dataset(
        _stack([p.X for p in parts]),
        pd.concat([p.y for p in parts]),
        pd.concat([p.sensitive for p in parts]),
        units,
        first.name,
        first.modality,
    )


def _classes(frames: Sequence[pd.DataFrame], column: str) -> tuple[np.ndarray, ...]:
    both = pd.concat([f[[column]] for f in frames], ignore_index=True)
    return encode_labels(both, column, len(both), min_classes=1).classes


def _check_pair(attack: Dataset, test: Dataset) -> None:
    for part, word in ((attack, "attack"), (test, "test")):
        if not isinstance(part, Dataset):
            raise InputError(f"`{word}` is a {type(part).__name__}; pass a tacit.Dataset (X with targets and secrets)")
    if (attack.units is None) != (test.units is None):
        raise InputError(
            "only one of `attack` and `test` has units; give both the same kind, or records count as people"
        )
    for side in ("y", "sensitive"):
        a, t = list(getattr(attack, side).columns), list(getattr(test, side).columns)
        if a != t:
            raise InputError(f"`attack` has the {side} columns {a} but `test` has {t}; use parts of one data set")


def _name(release: Any) -> str:
    if release is None:
        return "raw data"
    return "released arrays" if isinstance(release, (tuple, list)) else type(release).__name__
