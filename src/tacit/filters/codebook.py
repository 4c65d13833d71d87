"""CodebookFilter: release one of k cells, learned against the exact adversary.

For a finite code the best attacker is known in closed form, so nothing has to be trained against
and the leak can be certified for *any* attacker (see `tacit.solvers.exact`).

With `max_odds`, cells are merged until none can change the odds of a class by more (`merge_cells`). With `dp=`, the
code is learned from synthetic records that are drawn from noisy counts (`made_up`). Every column is cut into public
pieces (equal steps of its stated range, its stated words), and counted by piece and by all labels together; noise is
added to all counts at once (the Gaussian mechanism). So the records keep how each column goes with the labels, and
lose how columns go with each other beyond that.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import Knob, Problem, TrainedFilter, check_training, training_settings
from tacit.filters.codes import NetworkCode, PosteriorCode
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.public_intake import encode_in_public, refuse_second_fit, tell_spent
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels, joint_codes
from tacit.noise.accounting import DP, LABELS, Spent, epsilon_of, noise_for
from tacit.noise.keyed import Finite
from tacit.records.encoding import ArrayEncoder, TableEncoder
from tacit.records.people import Crowd, supported
from tacit.solvers.cell_odds import worst_odds

GRID = (0.0, 0.4, 0.7, 1.1, 1.8, 3.0, 9.0, 26.0, 77.0, 230.0, 680.0, 2000.0)
WIDEST = 4.0  # standard deviations: what lies beyond counts as this in a cell's typical record


@register_filter(
    "codebook",
    examples=[
        {"n_codes": 4},
        {"n_codes": 4, "features": "raw", "epochs": 3},
        {"solver": "closed", "leakage_weight": 0.1},
        {"n_codes": 4, "n_folds": 2, "decode": True},
        {"n_codes": 6, "n_folds": 2, "output": "onehot"},
        {"n_codes": 4, "features": "raw", "output": "code", "epochs": 3},
        {"n_codes": 6, "n_folds": 2, "max_odds": 4.0},
    ],
)
@dataclass(eq=False, repr=False)
class CodebookFilter(TrainedFilter):
    """Send every record to one of `n_codes` cells; release the cell.

    Parameters
    ----------
    n_codes : number of cells; cells may end up unused
    leakage_weight : the knob. For "learned" the weight on I(z;s) in nats; from an eighth of what a code is worth,
        but not below 3, its leak falls evenly with the logarithm of the weight, to a constant release at 2000. For
        "closed" the slope of the threshold rule (useful values are near .1)
    features : what the code looks at. "posterior": cross-fitted boosted-tree posteriors (best on tables);
        "raw": a network on the records; "auto": posterior for rows, raw for windows and images
    solver : "learned", or "closed" (one cell per class of the one target; the best release for accuracy)
    output : "prototype" (per cell, the probabilities of the targets), "onehot", or "code" (the cell's number)
    decode : release prototypes in the original format instead (each cell's typical record)
    max_odds : merge cells until no cell moves the odds of a sensitive attribute by more than this (3: from one in two
        to three in four at most), as far as a certificate on rows of the fit held out could say; None: cells stay as
        they are. For raw features it takes n_folds more trainings
    joint : withhold also the product of the sensitive attributes, not only each of them
    network : for raw features, a factory (n_in, n_out) -> nn.Module
    n_folds, epochs, batch_size, learning_rate : training; epochs and batch_size are for raw features
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    dp : a `tacit.DP`, for tables: the code is learned from records that are made up from noisy counts, so that the fit
        is differentially private for its people (`dp_` says what was spent)
    checkpoint : for raw features, a file written after every epoch; a fit that finds it resumes where it stopped

    Attributes
    ----------
    n_codes_ : number of cells, after merging
    prototypes_ : (n_codes_, ...) what each cell is released as
    start_ : which candidate was best on validation
    history_ : list of dicts, the validation loss of every candidate

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.CodebookFilter(n_codes=4, random_state=0)
    >>> Z = f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X)
    >>> len(set(map(tuple, Z))) <= 4
    True
    """

    takes_numbers = numbers_as_classes = True
    knob = Knob("leakage_weight", utility_rises=False, values=GRID)

    n_codes: int = 16
    leakage_weight: float = 3.0
    _: KW_ONLY
    features: str = "auto"
    solver: str = "learned"
    output: str = "prototype"
    decode: bool = False
    max_odds: float | None = None
    joint: bool = False
    network: Callable[[Any, int], Any] | None = None
    n_folds: int = 5
    dp: DP | None = None
    epochs: int = 30
    learning_rate: float = 2e-3

    # -- learning -------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        problem = encode_in_public(self, self.dp, X, y, sensitive_features, units)
        if self.dp is None:
            return problem
        made, spent = made_up(problem, self.dp, self.not_covered_)
        tell_spent(self, spent)
        return made

    @property
    def grouping(self) -> str:  # type: ignore[override]
        """Which points of a frontier learn together: posteriors serve all weights of a seed, networks are stacked."""
        return "stack" if self.features == "raw" else "seed"

    @staticmethod
    def _learn_many(filters: Sequence[CodebookFilter], problems: Sequence[Problem]) -> list[Mechanism]:
        codes, first = [], dict[int, PosteriorCode]()
        for f, problem in zip(filters, problems, strict=True):
            f._check_parameters(problem)
            codes.append(f._make_code(problem))
        secrets = _withheld(filters[0], problems[0])
        networks = [code for code in codes if isinstance(code, NetworkCode)]
        if networks:
            NetworkCode.fit_many(networks, problems, secrets)
        learned = []
        for f, problem, code in zip(filters, problems, codes, strict=True):
            if isinstance(code, PosteriorCode):
                # posteriors do not depend on the weight: one fit serves all codes of a seed
                code.adopt(first.get(problem.seed))
                code.fit(problem, secrets)
                first.setdefault(problem.seed, code)
            learned.append(f._learned(problem, code))
        return learned

    def _learn(self, problem: Problem) -> Mechanism:
        return self._learn_many([self], [problem])[0]

    def _make_code(self, problem: Problem) -> PosteriorCode | NetworkCode:
        kind = self.features if self.features != "auto" else ("posterior" if problem.X.ndim == 2 else "raw")
        weight = float(self.leakage_weight)
        if kind == "posterior":
            return PosteriorCode(self.n_codes, weight, self.solver, self.n_folds, self.verbose)
        return NetworkCode(
            self.n_codes,
            weight,
            self.network,
            n_folds=self.n_folds,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            device=self.device,
            settings=training_settings(self, problem, unread=("output", "decode")),
        )

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Mechanism:
        code = self._make_code(problem)
        assert isinstance(code, NetworkCode)
        code.problem = replace(problem, sensitive=_withheld(self, problem))
        code.net = code.make(problem.n_in, code.n_codes).double().eval()
        import torch  # only a network needs it

        learned = {k: torch.as_tensor(v) for k, v in arrays.items() if k not in ("history", "merged")}
        code.net.load_state_dict(learned)
        lines = [{"epoch": int(e), "loss": loss, "score": score} for e, loss, score in arrays["history"].tolist()]
        code.history = [{k: v for k, v in line.items() if v == v} for line in lines]
        return self._learned(problem, code, arrays.get("merged"))

    def _learned(
        self, problem: Problem, code: PosteriorCode | NetworkCode, merged: np.ndarray | None = None
    ) -> Mechanism:
        self.n_codes_ = code.n_codes
        self.start_, self.history_ = code.start, code.history
        cells = code.training_cells()
        if merged is None and self.max_odds is not None:
            secrets, held_out = _withheld(self, problem), code.held_out_cells()
            merged = merge_cells(held_out, code.n_codes, code.expected(), secrets, problem.crowd, float(self.max_odds))
        if merged is not None:
            self.n_codes_, cells = int(merged.max()) + 1, merged[cells]
        # what each cell looks like, from the training rows that fall into it
        if self.decode:
            self.prototypes_ = typical_records(problem.scaling, problem.X, cells, self.n_codes_, problem.crowd)
        elif self.output == "prototype":
            blocks = [class_shares(p, cells, self.n_codes_, problem.crowd) for p in code.expected()]
            self.prototypes_ = np.concatenate(blocks, axis=1)
        else:
            self.prototypes_ = np.eye(self.n_codes_)
        targets = problem.targets
        self._names_out = None  # decoded, a table's own
        if self.output != "prototype":
            self._names_out = ["code"] if self.output == "code" else [f"code={i}" for i in range(self.n_codes_)]
        elif not self.decode:  # a target and the class whose share it is
            pairs = zip(targets.names, targets.classes, strict=True)
            self._names_out = [f"{name}={c}" for name, classes in pairs for c in classes]
        if np.unique(cells).size == 1:
            remedy = (
                f"lower leakage_weight (now {self.leakage_weight})"
                + ("" if self.max_odds is None else f", raise max_odds (now {self.max_odds}) or pass more rows")
                if len(problem.sensitive)
                else "check that X tells anything about y, or pass more rows"
            )
            note(
                self,
                f"collapsed: every record falls into one cell, so the release carries nothing; {remedy}",
                CollapseWarning,
            )
        if self.output == "code":
            return Mechanism(PrototypeOf(code, None, merged), 1, support=Finite(self.n_codes_, self.n_codes_))
        width = int(np.prod(np.shape(self.prototypes_)[1:]))
        if isinstance(self.prototypes_, pd.DataFrame):  # the code gives the cell, the mechanism its row
            support = Finite(self.n_codes_, len(self.prototypes_.drop_duplicates()))
            return Mechanism(PrototypeOf(code, None, merged), width, support=support, table=self.prototypes_)
        prototypes = np.asarray(self.prototypes_)
        support = Finite(cells=len(np.unique(prototypes, axis=0)))
        return Mechanism(PrototypeOf(code, prototypes, merged), width, support=support)

    def _check_parameters(self, problem: Problem) -> None:
        for name, allowed in {
            "features": ("auto", "posterior", "raw"),
            "solver": ("learned", "closed"),
            "output": ("prototype", "onehot", "code"),
        }.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(map(repr, allowed))}; found {getattr(self, name)!r}"
                )
        check_number("n_codes", self.n_codes, 2, whole=True)
        check_number("leakage_weight", self.leakage_weight, 0)
        check_number("max_odds", self.max_odds, 1, optional=True)
        check_number("n_folds", self.n_folds, 2, whole=True)
        check_training(self)
        if self.solver == "closed" and len(problem.targets) != 1:
            raise InputError(
                f"solver='closed' keeps one target, but y has {len(problem.targets)} "
                f"({', '.join(problem.targets.names)}); use solver='learned'"
            )
        if self.solver == "closed" and self.features == "raw":
            raise InputError("solver='closed' works on posteriors; use features='posterior'")
        if self.decode and self.output != "prototype":
            raise InputError(f"decode=True releases prototypes; use output='prototype', not {self.output!r}")

    # -- releasing ------------------------------------------------------------------------------

    def codes(self, X: Any) -> np.ndarray:
        """The cell of each record, 0 .. n_codes_ - 1."""
        check_is_fitted(self)
        code: Any = self.mechanism_.code
        return code.released(code.cells_of.cells(self.mechanism_.schema.encode(X)))

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        refuse_second_fit(self)
        code: Any = self.mechanism_.code
        return code.shown(code.cells_of.out_of_fold())


@dataclass(frozen=True, eq=False)
class PrototypeOf:
    """The prototype of each record's cell, or the cell's number.

    Attributes
    ----------
    cells_of : encoded records to cells
    prototypes : by cell what is released; None releases the cell's number
    merged : which released cell each of the code's belongs to; None: cells are released as they are
    """

    cells_of: PosteriorCode | NetworkCode
    prototypes: np.ndarray | None
    merged: np.ndarray | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.shown(self.cells_of.cells(X))

    def released(self, cells: np.ndarray) -> np.ndarray:
        """The released cells of the code's."""
        return cells if self.merged is None else self.merged[cells]

    def shown(self, cells: np.ndarray) -> np.ndarray:
        """What records of the code's cells are released as."""
        cells = self.released(cells)
        return cells[:, None].astype(np.float64) if self.prototypes is None else self.prototypes[cells]

    def graph(self, g: Any, x: str) -> str:
        cells = self.cells_of.graph(g, x)
        if self.merged is not None:
            return g.take(self.shown(np.arange(len(self.merged))), cells)
        return g.column_of_numbers(cells) if self.prototypes is None else g.take(self.prototypes, cells)

    def arrays(self) -> dict[str, np.ndarray] | None:
        if not isinstance(self.cells_of, NetworkCode):
            return None  # boosted trees are fitted again
        history = [[line["epoch"], line["loss"], line.get("score", np.nan)] for line in self.cells_of.history]
        merged = {} if self.merged is None else {"merged": self.merged}
        return {
            "history": np.array(history),
            **merged,
            **{k: v.numpy() for k, v in self.cells_of.net.state_dict().items()},
        }


def _withheld(f: CodebookFilter, problem: Problem) -> Labels:
    """The sensitive columns and, where `joint`, one more: their product (missing where any is missing)."""
    labels = problem.sensitive
    if not f.joint or len(labels) < 2:
        return labels
    known = (labels.codes != MISSING).all(axis=1)
    product = np.full(labels.n_rows, MISSING, dtype=np.int64)
    product[known] = joint_codes(labels.codes[known])
    names, classes = (*labels.names, " x ".join(labels.names)), (*labels.classes, np.arange(product.max() + 1))
    return Labels(names, classes, np.column_stack([labels.codes, product]))


def class_shares(p: np.ndarray, cells: np.ndarray, n_codes: int, crowd: Crowd) -> np.ndarray:
    """What each cell's rows are expected to be (cells, classes), as far as the number of people in it says.

    A cell of too few people is told as the table as a whole.
    """
    known = p.sum(axis=1) > 0  # a row without a label counts nowhere
    shares = np.tile(supported(p[known].mean(axis=0), crowd.n_people, 0.5), (n_codes, 1))
    for cell in range(n_codes):
        inside = known & (cells == cell)
        if (people := crowd.count(inside)) >= crowd.enough:
            shares[cell] = supported(p[inside].mean(axis=0), people, 0.5)
    total = shares.sum(axis=1, keepdims=True)  # zero where a few people spread over many classes
    return np.where(total > 0, shares / np.maximum(total, 1e-9), 1 / shares.shape[1])


def typical_records(encoder: Any, X: np.ndarray, cells: np.ndarray, n_codes: int, crowd: Crowd | None = None) -> Any:
    """Each cell's typical record in the original format: means of numbers, commonest categories.

    Means are rounded to what the number of people in the cell supports; a cell of too few has the overall mean.
    """
    crowd = crowd or Crowd(len(X))
    near = np.clip(X, -WIDEST, WIDEST)
    means = np.tile(supported(near.mean(axis=0), crowd.n_people), (n_codes, *[1] * (X.ndim - 1)))
    for cell in range(n_codes):
        if (people := crowd.count(inside := cells == cell)) >= crowd.enough:
            means[cell] = supported(near[inside].mean(axis=0), people)
    if isinstance(encoder, ArrayEncoder):
        return means * encoder.scale + encoder.mean
    columns: dict[str, Any] = {}
    at = 0
    for column in encoder.columns:
        block = means[:, at : at + column.width]
        at += column.width
        if column.kind == "number":
            columns[column.name] = column.as_it_was(block[:, 0] * column.scale + column.mean)
        else:
            words = np.array([*column.categories, "other", None], dtype=object)
            columns[column.name] = words[block.argmax(axis=1)]
    return pd.DataFrame(columns)


DELTA = 0.05
AUDITED = 0.4  # of the people of the fit: as many as a certificate will have at least


def merge_cells(
    cells: np.ndarray, n_codes: int, expected: Sequence[np.ndarray], secrets: Labels, crowd: Crowd, most: float
) -> np.ndarray:
    """Which released cell each of the code's cells belongs to.

    The worst cell joins the one it is most like for the targets, again and again; a single cell is always allowed.

    Parameters
    ----------
    cells : (n,) cell of each row, by parts that did not see it
    expected : per target, the (n, classes) probabilities of its classes
    secrets : what is withheld
    most : the odds allowed
    """
    one = np.arange(len(cells)) if crowd.units is None else np.unique(crowd.units, return_index=True)[1]
    tables = []
    for classes, codes in zip(secrets.classes, secrets.codes.T, strict=True):
        rows, m = one[codes[one] != MISSING], len(classes)
        counts = np.bincount(cells[rows] * m + codes[rows], minlength=n_codes * m)
        tables.append(np.floor(AUDITED * counts.reshape(n_codes, m)))
    kept = [np.stack([p[cells == z].sum(axis=0) for z in range(n_codes)]) for p in expected]
    group = np.arange(n_codes)
    while group.max() > 0:
        joined = np.eye(group.max() + 1)[group].T
        worst = max((worst_odds(joined @ t, DELTA / len(tables)) for t in tables), key=lambda w: w.bound)
        if worst.bound <= most:
            break
        mass = [joined @ t for t in kept]
        cost = sum(_loss(m + m[worst.cell]) - _loss(m) for m in mass)
        cost[worst.cell] = np.inf
        into = int(cost.argmin())
        group[group == worst.cell] = into
        group = np.unique(group, return_inverse=True)[1].ravel()
    return group


def _loss(mass: np.ndarray) -> np.ndarray:
    """How unsure each cell leaves a target, in nats times people."""
    total = mass.sum(axis=1, keepdims=True)
    return -(mass * np.log(np.maximum(mass, 1e-12) / np.maximum(total, 1e-12))).sum(axis=1)


PIECES = 16  # of a number column
REACH = math.sqrt(3)  # where the ends of a stated range lie once it is scaled
MAX_KINDS = 4096  # combinations of all labels, a missing one counted as a class


def made_up(problem: Problem, dp: DP, not_covered: tuple[str, ...]) -> tuple[Problem, Spent]:
    """The problem with made-up records in the place of the real ones, about as many; and what that cost."""
    if problem.X.ndim != 2:
        raise InputError(f"dp counts the columns of a table; records here have the shape {problem.X.shape[1:]}")
    crowd = problem.crowd
    dp.check(crowd.n_people)
    tables = count_pieces(problem)
    noise = noise_for(1.0, 1, dp.epsilon, dp.delta)
    reach = math.sqrt(len(tables))  # a person adds 1 to each table in all
    rng = np.random.default_rng(secrets.randbits(128))  # whoever knew the draws could take the noise off
    noisy = [np.maximum(t + noise * reach * rng.standard_normal(t.shape), 0) for t in tables]
    drawn = rng.choice(len(noisy[0]), max(2, round(noisy[0].sum())), p=_shares(noisy[0]))
    columns = [_draw(counts[drawn], is_number, len(slots), rng)
               for (slots, is_number), counts in zip(_blocks(problem), noisy[1:], strict=True)]  # fmt: skip
    codes = np.stack(np.unravel_index(drawn, _kinds(problem)[1]), axis=1) - 1
    keep, hide = np.split(codes, [len(problem.targets)], axis=1)
    targets, sensitive = replace(problem.targets, codes=keep), replace(problem.sensitive, codes=hide)
    made = replace(problem, X=np.concatenate(columns, axis=1), targets=targets, sensitive=sensitive, units=None)
    unit, cost = "record" if problem.units is None else "person", epsilon_of(1.0, noise, 1, dp.delta)
    return made, Spent(cost, dp.delta, unit, crowd.n_people, noise, reach, 1.0, 1, (LABELS, *not_covered))


def count_pieces(problem: Problem) -> list[np.ndarray]:
    """How many people have each combination of labels; then column by column, each of them and each piece.

    Somebody with several records counts as one in all, in equal parts.
    """
    kinds, sizes = _kinds(problem)
    weight = problem.crowd.weights() * problem.crowd.n_people
    tables = [np.bincount(kinds, weight, math.prod(sizes))]
    for slots, is_number in _blocks(problem):
        piece, n = _pieces(problem.X[:, slots], is_number)
        tables.append(np.bincount(kinds * n + piece, weight, math.prod(sizes) * n).reshape(-1, n))
    return tables


def _kinds(problem: Problem) -> tuple[np.ndarray, list[int]]:
    """The number of each record's labels together, and how many classes (and gaps) each label column has."""
    both: tuple[Labels, ...] = (problem.targets, problem.sensitive)
    sizes = [labels.n_classes(i) + 1 for labels in both for i in range(len(labels))]
    if math.prod(sizes) > MAX_KINDS:
        raise InputError(
            f"dp counts all labels together, which have {math.prod(sizes):,} combinations; at most {MAX_KINDS:,} can "
            f"be told apart under noise: pass fewer label columns"
        )
    codes = np.concatenate([labels.codes for labels in both], axis=1) + 1
    return np.ravel_multi_index(tuple(codes.T), sizes), sizes


def _blocks(problem: Problem) -> list[tuple[np.ndarray, bool]]:
    """The encoded columns of each raw one, and whether it is a number."""
    if not isinstance(problem.scaling, TableEncoder):
        return [(np.array([j]), True) for j in range(problem.X.shape[1])]
    ends = np.cumsum([0, *(c.width for c in problem.scaling.columns)])
    return [(np.arange(a, b), c.kind == "number")
            for c, a, b in zip(problem.scaling.columns, ends[:-1], ends[1:], strict=True)]  # fmt: skip


def _pieces(block: np.ndarray, is_number: bool) -> tuple[np.ndarray, int]:
    """The piece of each record, and how many there are; a number that is missing is a piece of its own."""
    if not is_number:
        return block.argmax(axis=1), block.shape[1]
    at = np.clip(((block[:, 0] + REACH) / (2 * REACH) * PIECES).astype(int), 0, PIECES - 1)
    return (np.where(block[:, 1] > 0, PIECES, at) if block.shape[1] > 1 else at), PIECES + 1


def _draw(counts: np.ndarray, is_number: bool, width: int, rng: np.random.Generator) -> np.ndarray:
    """Encoded values of one column, a record for each row of counts."""
    counts = counts.copy()
    if is_number and width == 1:
        counts[:, PIECES] = 0  # this column has no gaps
    edges = np.cumsum(np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0), axis=1)
    piece = (rng.random((len(counts), 1)) * edges[:, -1:] >= edges).sum(axis=1).clip(max=counts.shape[1] - 1)
    if not is_number:
        return np.eye(width)[piece]
    value = (np.minimum(piece, PIECES - 1) + rng.random(len(piece))) / PIECES * 2 * REACH - REACH
    gap = piece == PIECES
    return np.column_stack([np.where(gap, 0.0, value), gap])[:, :width]


def _shares(counts: np.ndarray) -> Any:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
