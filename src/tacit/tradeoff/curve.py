"""A traced frontier: its table, its best points, how good it is as a whole, and the choice of a point."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.measurements.baseline import Floor
from tacit.auditing.superiority import Superiority, superiority
from tacit.errors import InputError, RequirementNotMet, check_number
from tacit.records.dataset import Dataset
from tacit.report.certificates import AnyCertificate
from tacit.report.report import Report, Settings, provenance
from tacit.report.results import AnyResult, Measure, NumberResult, shown
from tacit.tradeoff.points import Point

DRAWS = 500  # of the bootstrap


@dataclass(frozen=True)
class Traced:
    """One point with what fresh attackers found; intervals and certificates are simultaneous over the curve."""

    point: Point
    utility: Mapping[str, AnyResult]
    leakage: Mapping[str, AnyResult]
    certificate: Mapping[str, AnyCertificate | None]
    bound: Mapping[str, float | None]
    notes: tuple[str, ...]
    right: Mapping[str, np.ndarray]  # by row of `test`: 1 right, 0 wrong, 2 unknown; of a number, the squared error
    seconds: float  # the audit took
    breadth: float | None = None  # of releases that are tables: how much of every column can still be told

    def upper(self, sensitive: str, certified: bool) -> float | None:
        """What the leakage is at most: by certificate, else (unless only that counts) by the audit's interval."""
        found = self.certificate[sensitive]
        if found is not None:
            return found.bound
        return None if certified else self.leakage[sensitive].high


@dataclass(frozen=True)
class Frontier:
    """Utility against leakage along a knob, every point attacked afresh.

    Attributes
    ----------
    traced : one entry per filter, value and seed
    candidates : how many points share the error of intervals and certificates
    level : confidence of all certificates of the curve together; of all intervals of utility; of all of leakage
    reference : the label-only release and the estimated limit
    left_out : points that were not reached in the time given; they have their share of the error all the same
    """

    traced: tuple[Traced, ...]
    test: Dataset
    level: float
    attackers: str
    reference: Floor
    rows: Mapping[str, int]
    candidates: int
    fitted: Callable[[Point], Any]
    left_out: int = 0
    _keep: Any = field(default=None, repr=False)  # a temporary folder lives as long as its frontier

    @property
    def targets(self) -> list[str]:
        return list(self.traced[0].utility)

    @property
    def sensitive(self) -> list[str]:
        return list(self.traced[0].leakage)

    @property
    def filters(self) -> list[str]:
        return list(dict.fromkeys(t.point.filter for t in self.traced))

    def only(self, *filters: str) -> Frontier:
        """The part that belongs to these filters; its statements stay simultaneous over the whole curve."""
        unknown = [f for f in filters if f not in self.filters]
        if unknown or not filters:
            raise InputError(f"no filter {unknown or ''} here; the names are {', '.join(self.filters)}")
        return replace(self, traced=tuple(t for t in self.traced if t.point.filter in filters))

    def table(self) -> pd.DataFrame:
        """One row per point: utility, leakage by fresh attackers, their simultaneous intervals, certificates."""
        best = {t.point.number for t in self.pareto()}
        rows = []
        for t in self.traced:
            row: dict[str, Any] = {"point": t.point.number, "filter": t.point.filter, "knob": t.point.knob}
            row |= {"value": t.point.value, "seed": t.point.seed}
            for name, r in t.utility.items():
                row |= {name: r.value, f"{name} low": r.low, f"{name} high": r.high}
                row |= (
                    {f"{name} mean error": r.mae.value} if isinstance(r, NumberResult) else {f"{name} AUC": r.auc.value}
                )
            for name, r in t.leakage.items():
                c = t.certificate[name]
                row |= {name: r.value, f"{name} low": r.low, f"{name} high": r.high, f"{name} attacker": r.attacker}
                row |= {f"{name} certified": None if c is None else c.bound}
            row |= {} if t.breadth is None else {"breadth": t.breadth}
            rows.append(row | {"pareto": t.point.number in best})
        return pd.DataFrame(rows)

    def pareto(self) -> list[Traced]:
        """Points that no other beats in every target and every sensitive attribute, most leaking first.

        An attacker below guessing is one that guesses: such leakages are equal.
        """
        axes = np.array(
            [
                [*(r.value for r in t.utility.values()), *(-max(r.value, r.guessing) for r in t.leakage.values())]
                for t in self.traced
            ]
        )
        beaten = [bool(((axes >= own).all(axis=1) & (axes > own).any(axis=1)).any()) for own in axes]
        kept = [t for t, lost in zip(self.traced, beaten, strict=True) if not lost]
        return sorted(kept, key=lambda t: -t.leakage[self.sensitive[0]].value)

    # -- choosing -------------------------------------------------------------------------------

    def choose(
        self,
        max_leakage: Mapping[str, float] | None = None,
        min_utility: Mapping[str, float] | None = None,
        certified: bool = False,
    ) -> Any:
        """The fitted filter of the best point that keeps what is asked; its audit is ``report_``.

        With `max_leakage` the most useful point whose leakage is under every bound, otherwise the least leaking
        one. A leakage counts by its certificate, or (unless ``certified=True``) by the upper end of the audited
        interval; a utility by its lower end. All are simultaneous over the curve, so choosing costs nothing.
        Filters without weights of their own are fitted again with the same seed, and compared with what was audited.

        Parameters
        ----------
        max_leakage : by sensitive attribute, the balanced accuracy (of a number, the R²) an attacker may have
        min_utility : by target, the accuracy (of a number, the R²) that must be kept
        certified : only certificates count
        """
        return self.build(self.find(max_leakage, min_utility, certified))

    def find(
        self,
        max_leakage: Mapping[str, float] | None = None,
        min_utility: Mapping[str, float] | None = None,
        certified: bool = False,
    ) -> Traced:
        """As `choose`, but the point alone; nothing is fitted."""
        most, least = dict(max_leakage or {}), dict(min_utility or {})
        for given, known, word in ((most, self.sensitive, "sensitive attribute"), (least, self.targets, "target")):
            for name, bound in given.items():
                if name not in known:
                    raise InputError(f"no {word} is called {name!r}; there is {', '.join(known)}")
                # 55 instead of .55, or NaN, would let every point pass
                check_number(f"the bound on {name!r} (a share, such as .55)", bound, 0, 1)
        if not most and not least:
            raise InputError("say what you can accept: max_leakage={...}, min_utility={...}, or both")
        asked = list(most) or self.sensitive
        open_to = [t for t in self.traced if all(t.upper(s, certified) is not None for s in asked)]
        if not open_to:
            why = next((n for t in self.traced for n in t.notes if "certif" in n), "")
            raise RequirementNotMet(
                f"no point has a certificate for {', '.join(asked)}{f' ({why})' if why else ''}; choose with "
                f"certified=False by the audit, or trace a filter with a finite or noisy release (CodebookFilter)"
            )

        def excess(t: Traced) -> float:
            over = [max(0.0, (t.upper(s, certified) or 0.0) - bound) for s, bound in most.items()]
            return sum(over) + sum(max(0.0, bound - t.utility[u].low) for u, bound in least.items())

        feasible = [t for t in open_to if excess(t) == 0]
        if not feasible:
            near = min(open_to, key=excess)
            raise RequirementNotMet(self._infeasible(near, most, least, certified))
        if most:
            return max(feasible, key=lambda t: float(np.mean([r.value for r in t.utility.values()])))
        return min(feasible, key=lambda t: float(np.mean([t.upper(s, certified) for s in self.sensitive])))

    def build(self, traced: Traced) -> Any:
        """The fitted filter of a point, with its ``report_``."""
        f = self.fitted(traced.point)
        f.report_ = self.report(traced)
        return f

    def report(self, traced: Traced) -> Report:
        """A point's audit, whose statements hold although the point was chosen from the curve."""
        ref = self.reference
        return Report(
            name=str(traced.point),
            utility=traced.utility,
            leakage=traced.leakage,
            certificate=traced.certificate,
            bound=traced.bound,
            in_sample={},
            label_only=ref.label_only,
            label_only_utility=ref.label_only_utility,
            limit=ref.limit,
            attacks=(),
            fresh=True,
            notes=(
                f"chosen from a frontier of {self.candidates} points: intervals and certificates are simultaneous over "
                f"all of them (each spends 1/{self.candidates} of the error). To audit it again on these rows, pass "
                f"candidates={self.candidates}",
                *traced.notes,
            ),
            settings=Settings(
                attackers=(self.attackers,),
                level=self.level,
                seed=0,
                data=self.test.name,
                rows=dict(self.rows),
                candidates=self.candidates,
                seconds=traced.seconds,
                **provenance(),
            ),
        )

    def _infeasible(self, near: Traced, most: Mapping[str, float], least: Mapping[str, float], certified: bool) -> str:
        wish = [f"{s} <= {shown(v)}" for s, v in most.items()] + [f"{u} >= {shown(v)}" for u, v in least.items()]
        has = [f"{s} <= {shown(near.upper(s, certified) or 1.0)}" for s in most or self.sensitive]
        has += [f"{u} {shown(r.value)} (at least {shown(r.low)})" for u, r in near.utility.items()]
        kind = "certified" if certified else "upper ends of simultaneous intervals"
        return f"no point has {', '.join(wish)} ({kind}); the nearest is {near.point}: {', '.join(has)}"

    # -- the curve as a whole -------------------------------------------------------------------

    def hypervolume(self, target: str | None = None, sensitive: str | None = None, draws: int = DRAWS) -> Measure:
        """The share of the plane that the curve reaches: 1 is perfect utility without leakage, 0 is guessing.

        Utility and leakage both run from guessing (0) to always right (1). The interval is a bootstrap over the
        units of `test` (records, where there are no units): filters and attackers stay as they are.
        """
        u, s = target or self.targets[0], sensitive or self.sensitive[0]
        useful, leak = (np.array([getattr(t, side)[k].value for t in self.traced]) for side, k in _sides(u, s))
        first = self.traced[0]
        guess = first.utility[u].guessing, first.leakage[s].guessing
        again = [
            _area((a - guess[0]) / (1 - guess[0]), 1 - (b - guess[1]) / (1 - guess[1]))
            for a, b in zip(*self._resampled(u, s, draws), strict=True)
        ]
        low, high = np.quantile(again, [(1 - self.level) / 2, (1 + self.level) / 2])
        value = _area((useful - guess[0]) / (1 - guess[0]), 1 - (leak - guess[1]) / (1 - guess[1]))
        return Measure(value, min(float(low), value), max(float(high), value), 0.0)

    def _resampled(self, target: str, sensitive: str, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """Accuracy of the target, balanced accuracy of the sensitive attribute, or R²: (draws, points) each."""
        rng = np.random.default_rng(0)
        out = []
        sides = (
            (f"utility/{target}", None, target),
            (f"leakage/{sensitive}", self.test.sensitive[sensitive], sensitive),
        )
        for key, labels, name in sides:
            right = np.column_stack([t.right[key] for t in self.traced])
            units = self.test.units_of(sensitive)
            unit = np.arange(len(right)) if units is None else pd.factorize(units)[0]
            rng = np.random.default_rng(0)  # the same units for both
            n = int(unit.max()) + 1
            weights = np.stack([np.bincount(rng.integers(n, size=n), minlength=n)[unit] for _ in range(draws)])
            if self.test.is_number(name):
                truth = (self.test.y if labels is None else self.test.sensitive)[name]
                out.append(_explained(right, truth.to_numpy(dtype=float, na_value=np.nan), weights))
                continue
            classes = np.zeros(len(right), dtype=int) if labels is None else pd.factorize(labels)[0]
            shares = []
            for c in range(classes.max() + 1):
                own = classes == c
                hits = weights[:, own] @ (right[own] == 1).astype(float)
                shares.append(hits / np.maximum(weights[:, own] @ (right[own] < 2).astype(float), 1))
            out.append(np.mean(shares, axis=0))
        return out[0], out[1]

    def superiority(
        self, other: Frontier, target: str | None = None, sensitive: str | None = None, tolerance: float = 0.0
    ) -> Superiority:
        """Acc-Priv superiority over another frontier (DPFE, definition 11); privacy is 1 - leakage."""
        u, s = target or self.targets[0], sensitive or self.sensitive[0]
        mine, theirs = ([(t.utility[u].value, 1 - t.leakage[s].value) for t in front.traced] for front in (self, other))
        return superiority(mine, theirs, tolerance)

    def distance_to_limit(self, sensitive: str | None = None) -> pd.DataFrame:
        """How much accuracy the estimated limit has more, at equal certificate (at equal leakage without one).

        One row per point that no other of the curve beats in accuracy and that measure, inside the limit's range.
        """
        s, u = sensitive or self.sensitive[0], self.targets[0]
        limit = self.reference.limit.get(s, ())
        if not limit:
            raise InputError(f"there is no limit to compare with: {self.reference.note}")
        by_bound = all(p.bound is not None for p in limit) and all(t.certificate[s] is not None for t in self.traced)
        at = np.array([p.bound if by_bound else p.leakage for p in limit], dtype=float)
        best = np.array([p.accuracy for p in limit])
        order = np.argsort(at, kind="stable")
        at, best = at[order], np.maximum.accumulate(best[order])
        found = np.array([(t.upper(s, True) if by_bound else t.leakage[s].value) for t in self.traced], dtype=float)
        useful = np.array([t.utility[u].value for t in self.traced])
        rows = []
        for t, leak, accuracy in zip(self.traced, found, useful, strict=True):
            if ((found <= leak) & (useful > accuracy)).any() or not at[0] <= leak:
                continue
            top = float(np.interp(leak, at, best))
            rows.append(
                {"point": t.point.number, "at": leak, "accuracy": accuracy, "limit": top, "distance": top - accuracy}
            )
        return pd.DataFrame(rows, columns=["point", "at", "accuracy", "limit", "distance"]).sort_values("at")

    # -- showing --------------------------------------------------------------------------------

    def __str__(self) -> str:
        from tacit.report.terminal import as_text  # rich is slow to import

        return as_text(self, 80)

    def __rich__(self) -> Any:
        from tacit.report.frontier_page import rich_frontier  # rich and jinja2 are slow to import

        return rich_frontier(self)

    def figure(self, sensitive: str | None = None) -> Any:
        """Utility of the first target against leakage as a matplotlib figure."""
        from tacit.report.frontier_page import drawn  # matplotlib is slow to import

        return drawn(self, sensitive or self.sensitive[0])

    def _repr_html_(self) -> str:
        from tacit.report.page import inline_svg  # matplotlib is slow to import

        return f"{inline_svg(self.figure())}<pre>{html.escape(str(self))}</pre>"

    def to_html(self, path: str | Path) -> Path:
        """Write the curve as one self-contained page with an interactive figure."""
        from tacit.report.frontier_page import write_frontier  # rich and jinja2 are slow to import

        return write_frontier(self, path)


def _sides(target: str, sensitive: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("utility", target), ("leakage", sensitive)


def _explained(errors: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R² of every point under every draw of the rows: (draws, points)."""
    known = ~np.isnan(truth) & ~np.isnan(errors).any(axis=1)
    w, y = weights[:, known].astype(float), truth[known]
    total = w.sum(axis=1)
    variance = w @ y**2 / total - (w @ y / total) ** 2
    explained: np.ndarray = 1 - (w @ errors[known] / total[:, None]) / np.maximum(variance, 1e-300)[:, None]
    return explained


def _area(useful: np.ndarray, private: np.ndarray) -> float:
    """The area under the staircase of the best points, both axes cut to 0..1."""
    useful, private = np.clip(useful, 0, 1), np.clip(private, 0, 1)
    area, reached = 0.0, 0.0
    for i in np.argsort(-private, kind="stable"):
        area += private[i] * max(0.0, useful[i] - reached)
        reached = max(reached, float(useful[i]))
    return float(area)
