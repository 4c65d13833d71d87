"""The game against the exact adversary of a finite code.

A code sends each record to one of k cells. Against it the best attacker there is needs no
training: with P(z|s) counted from data its balanced accuracy is (1/m) sum_z max_s P(z|s). So the
inner maximum of the minimax game is in closed form, over every attacker, and only the code is
learned. With T the joint table of cell and label,

    loss = H(y|z) + error(y|z) / 2 + weight * I(z;s),     s weighted to a uniform prior.

H(y|z) keeps the ranking (AUC), error(y|z) = 1 - sum_z max_y P(y,z) keeps the accuracy. (Measured on
Adult: without the error term the accuracy at equal certificate is .005 lower, with twice as much
the AUC is .01 lower.)

Given the posteriors p(y|x) and p(s|x), both learned codes below are argmax_z of a *linear* score
of the posteriors, and nothing more is needed: at a stationary point a record's cost of joining a
cell is linear in its posteriors.

By itself this loss has a cliff. Where every code that tells y tells of s too, the best code hardly changes until the
weight reaches its *worth*, what it gains over a constant by the nat of I(z;s) that it costs; there a constant becomes
better, and no weight gives anything between. So the weight of the game stops at the worth, where all heavier weights
have one and the same code; and from an eighth of it on (not below 3, the default) the code is *quieted*: one cell takes
in more and more of its neighbours' records, so that the leak falls evenly with the logarithm of the weight, to a
constant at `NOTHING_LEFT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from tacit.labels import MISSING
from tacit.training.adam import adam_step

if TYPE_CHECKING:  # networks that learn a code bring torch; all else here is plain arrays
    from torch import Tensor

TINY = 1e-9
ERROR_WEIGHT = 0.5
NOTHING_LEFT = 2000.0  # the weight at which a code that is not worth it has become a constant
QUIET_FROM = 1 / 8  # of its worth: the weight from which a code is quieted
LIKE_CHANCE = 1.5  # times what chance makes of a code that tells nothing: a code that leaks less is left as it is
HUMP = 1.02  # a leak that rises by more on the way down has a hump
LEAST_QUIET_FROM = 3.0  # and no lighter weight: up to the default, a code is as the game left it
RESERVE = 0.25  # of what the label alone gains: a code is worth its leak while so much is left after paying for it
GRIDS = (32, 64)  # steps in every direction, within which records count as alike while a code is learned
COARSE = 0.6  # of the steps are by the coarse grid
STOPS = 65  # shares of its neighbours' records that a cell may take in when a code is quieted


def label_mass(codes: np.ndarray, n_classes: int, balanced: bool) -> np.ndarray:
    """Each record's share of the joint table with a label: (n, classes), summing to 1.

    `balanced` gives every class the same total (the uniform prior on s); a missing label has no share.
    """
    mass = np.zeros((len(codes), n_classes))
    known = codes != MISSING
    counts = np.bincount(codes[known], minlength=n_classes)
    if balanced:
        share = 1 / np.maximum(counts, 1) / max(1, int(np.count_nonzero(counts)))
    else:
        share = np.full(n_classes, 1 / max(1, int(known.sum())))
    mass[np.flatnonzero(known), codes[known]] = share[codes[known]]
    return mass


class Floor(NamedTuple):
    """The utility loss H(y|z) + error(y|z) / 2 of a constant, and what the predicted labels gain over it."""

    constant: float
    gain: float


def label_floor(posteriors: Sequence[np.ndarray], keep: Sequence[np.ndarray]) -> Floor:
    losses = np.zeros(2)
    for p, mass in zip(posteriors, keep, strict=True):
        told = np.eye(p.shape[1])[p.argmax(axis=1)].T @ mass
        losses += [_utility(t[None])[0][0] / len(keep) for t in (mass.sum(axis=0)[None], told)]
    return Floor(losses[0], losses[0] - losses[1])


def code_loss(q: Tensor, keep: Sequence[Tensor], hide: Sequence[Tensor], weight: Tensor) -> Tensor:
    """The loss of soft cell assignments q (G, n, k); masses are (n, m) or (G, n, m). Returns (G,).

    The terms and their gradients are those of `counted_terms`; torch carries them on to q.
    """
    import torch  # only networks bring it

    cells = q.transpose(-1, -2)
    tables = [[cells @ mass for mass in side] for side in (keep, hide)]
    plain = [[table.detach().cpu().numpy() for table in side] for side in tables]
    utility, information, by_kept, by_hidden = counted_terms(*plain)

    def term(value: np.ndarray, gradients: Sequence[np.ndarray], side: Sequence[Tensor]) -> Tensor:
        out = torch.as_tensor(value).to(q)
        for gradient, table in zip(gradients, side, strict=True):  # adds nothing to the value
            out = out + (torch.as_tensor(gradient).to(q) * (table - table.detach())).sum(dim=(-1, -2))
        return out

    return term(utility, by_kept, tables[0]) + weight * term(information, by_hidden, tables[1])


def counted_terms(
    keep: Sequence[np.ndarray], hide: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """The terms of the loss, utility and the sum of I(z;s), of tables (G, cells, classes), and their gradients."""
    told = [_utility(table) for table in keep]
    leaks = [_information(table) for table in hide]
    nothing = np.zeros(len((*keep, *hide)[0]), dtype=(*keep, *hide)[0].dtype)
    utility = sum((value for value, _ in told), nothing) / max(1, len(keep))
    information = sum((value for value, _ in leaks), nothing)
    return utility, information, [slope / len(keep) for _, slope in told], [slope for _, slope in leaks]


def _utility(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H(y|z) + error(y|z) / 2, and its gradient by the table."""
    whole = np.maximum(table.sum(axis=(-1, -2), keepdims=True), TINY)
    table = table / whole
    cells = table.sum(axis=-1, keepdims=True)
    logs = np.log(np.maximum(table, TINY)) - np.log(np.maximum(cells, TINY))
    best = table.argmax(axis=-1)[..., None]
    error = 1 - np.take_along_axis(table, best, -1)[..., 0].sum(axis=-1)
    slope = -(logs + (table >= TINY) - (cells >= TINY)).astype(table.dtype)
    np.put_along_axis(slope, best, np.take_along_axis(slope, best, -1) - ERROR_WEIGHT, -1)
    slope = (slope - (slope * table).sum(axis=(-1, -2), keepdims=True)) / whole
    return ERROR_WEIGHT * error - (table * logs).sum(axis=(-1, -2)), slope


def _information(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """I(z;s) under a uniform prior on s, and its slope by the table."""
    classes = np.maximum(table.sum(axis=-2, keepdims=True), TINY)
    scale = classes * table.shape[-1]
    b = table / scale
    cells, prior = b.sum(axis=-1, keepdims=True), b.sum(axis=-2, keepdims=True)
    logs = np.log(np.maximum(b, TINY)) - np.log(np.maximum(cells, TINY)) - np.log(np.maximum(prior, TINY))
    slope = (logs + (b >= TINY) - (cells >= TINY).astype(b.dtype) - (prior >= TINY)).astype(b.dtype)
    return (b * logs).sum(axis=(-1, -2)), (slope - (slope * table / classes).sum(axis=-2, keepdims=True)) / scale


def worth(utility: Any, information: Any, floor: Floor) -> Any:
    """The weight up to which a code is worth its leak."""
    gained = np.maximum(floor.constant - utility - RESERVE * floor.gain, 0)
    return gained / np.maximum(information, TINY)


def hard_terms(
    cells: np.ndarray, n_codes: int, keep: Sequence[np.ndarray], hide: Sequence[np.ndarray]
) -> tuple[float, float]:
    """The two terms of a hard code, counted."""
    q = np.eye(n_codes)[cells].T
    utility, information, *_ = counted_terms(*([(q @ m)[None] for m in masses] for masses in (keep, hide)))
    return float(utility[0]), float(information[0])


def hard_loss(
    cells: np.ndarray, n_codes: int, keep: Sequence[np.ndarray], hide: Sequence[np.ndarray], weight: float
) -> float:
    """The same loss of a hard code, counted."""
    utility, information = hard_terms(cells, n_codes, keep, hide)
    return utility + weight * information


class Quieted(NamedTuple):
    """The cell that takes others in and the share of records it then has."""

    into: int
    share: float


def quiet_code(
    features: np.ndarray,
    scores: np.ndarray,
    keep: Sequence[np.ndarray],
    hide: Sequence[np.ndarray],
    weight: float,
    floor: Floor,
    into: int | None = None,
) -> Quieted | None:
    """How to quiet a linear code (p + 1, k) as far as `weight` asks; None: it stays as it is.

    The leak is the exact attacker's advantage over guessing, counted, summed over the secrets. Of the cells that may
    take the others in, the one that keeps the most at half the leak does, whatever the weight, unless `into` names
    it: the codes of heavier weights are then quieter versions of one another.
    """
    every = features @ scores[:-1] + scores[-1]
    cells, k = every.argmax(axis=1), scores.shape[1]
    own = float(worth(*hard_terms(cells, k, keep, hide), floor))
    left = share_left(weight, own)
    best, found = np.inf, None
    for cell in np.unique(cells) if into is None else (into,):
        outside = cells != cell
        if left == 1 or not outside.any():
            return None
        lead = every.max(axis=1) - every[:, cell]
        raises = np.quantile(lead[outside], np.linspace(0, 1, STOPS))
        joins = np.where(outside, 1 + np.searchsorted(raises, lead), 0)
        tables = [_tables_of_raises(cells, joins, STOPS, cell, k, mass) for mass in (*keep, *hide)]
        leak = _advantage(tables[len(keep) :])
        if left > 0 and leak[0] <= LIKE_CHANCE * _chance(cells, hide):
            return None
        if weight < own and leak.max() > HUMP * leak[0]:
            continue  # a code that hides by balance, which those who join first would undo
        to_come = np.maximum.accumulate(leak[::-1])[::-1]
        half, at = (int((to_come <= part * leak[0] + TINY).argmax()) for part in (0.5, left))
        utility = counted_terms([table[half : half + 1] for table in tables[: len(keep)]], [])[0][0]
        if utility < best:
            best, found = float(utility), Quieted(int(cell), float((joins <= at).mean()))
    return found


def share_left(weight: float, worth: float) -> float:
    """The share of its leak that a code of this worth has left under a weight."""
    start = min(max(QUIET_FROM * worth, LEAST_QUIET_FROM), NOTHING_LEFT / 2)
    return float(np.clip(np.log(NOTHING_LEFT / max(weight, TINY)) / np.log(NOTHING_LEFT / start), 0, 1))


def take_in(features: np.ndarray, scores: np.ndarray, into: int, share: float) -> np.ndarray:
    """Raise a cell's offset until it has this share of the records.

    That leads any code to a constant, record by record, the least decided first, without chance.
    """
    every = features @ scores[:-1] + scores[-1]
    lead = np.sort(every.max(axis=1) - every[:, into])
    last = round(share * len(lead)) - 1
    raised = scores.copy()
    # a cell that has everybody has fresh records too
    raised[-1, into] += lead[last] + TINY if last < len(lead) - 1 else 2 * lead[-1] + 1
    return raised


def _advantage(tables: Sequence[np.ndarray]) -> np.ndarray:
    found = np.zeros(len(tables[0]))
    for table in tables:
        m = table.shape[-1]
        best = (table / np.maximum(table.sum(axis=-2, keepdims=True), TINY)).max(axis=-1).sum(axis=-1)
        found += (best - 1) / (m - 1)
    return found


def _chance(cells: np.ndarray, hide: Sequence[np.ndarray]) -> float:
    """The advantage to be expected on these records of cells that tell nothing (.4: a normal's mean upper half)."""
    share = np.bincount(cells) / len(cells)
    counts = [np.count_nonzero(mass, axis=0) for mass in hide]
    each = [np.sqrt((1 / n[n > 0]).sum()) / (len(n) - 1) for n in counts]
    return float(0.4 * np.sqrt(share * (1 - share)).sum() * sum(each))


def _tables_of_raises(
    cells: np.ndarray, joins: np.ndarray, n_raises: int, into: int, n_codes: int, mass: np.ndarray
) -> np.ndarray:
    """Tables (1 + raises, cells, classes) of cell and label as `into` takes in those who join at each raise."""
    shape = (n_raises + 1, n_codes, mass.shape[1])
    at = joins * n_codes + cells
    coming = np.stack([np.bincount(at, m, shape[0] * n_codes) for m in mass.T], axis=-1).reshape(shape)
    whole = coming.sum(axis=0)
    coming[0] = 0
    moved = coming.cumsum(axis=0)
    tables = whole - moved
    tables[:, into] += moved.sum(axis=1)
    return tables


class Condensed(NamedTuple):
    """Records that are alike as one: features (n, p), and label masses (G, n, m) of targets and secrets."""

    features: np.ndarray
    keep: list[np.ndarray]
    hide: list[np.ndarray]


def condense(
    features: np.ndarray, keep: Sequence[np.ndarray], hide: Sequence[np.ndarray], rows: np.ndarray
) -> list[Condensed]:
    """The masses of alike records added up, by which records each of G codes learns from (rows: (G, n) 0/1).

    The loss is a function of tables of masses, so that equal posteriors may count as one record. Records are alike
    that share a cell of a grid of steps of equal counts in every direction: coarse for the soft codes of the
    beginning, fine for the hard ones of the end. Where a grid would not leave far fewer (many classes), all stay.
    """
    return [_condensed(features, keep, hide, rows, steps) for steps in GRIDS]


def _condensed(
    features: np.ndarray, keep: Sequence[np.ndarray], hide: Sequence[np.ndarray], rows: np.ndarray, steps: int
) -> Condensed:
    edges = np.linspace(0, 1, steps + 1)[1:-1]
    places = np.stack([np.searchsorted(np.unique(np.quantile(f, edges)), f) for f in features.T])
    _, first, cell = np.unique(places, axis=1, return_index=True, return_inverse=True)
    n, cell = len(first), cell.ravel()
    if n > len(features) / 3:
        n, cell = len(features), np.arange(len(features))

    def added(values: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(cell, column, n) for column in values.T], axis=-1)

    means = added(features) / np.bincount(cell, minlength=n)[:, None]
    masses = ([np.stack([added(m * r[:, None]) for r in rows]) for m in side] for side in (keep, hide))
    return Condensed(means, *masses)


def learn_linear_codes(
    stages: Sequence[Condensed],
    starts: np.ndarray,
    weights: np.ndarray,
    floor: Floor | None = None,
    *,
    steps: int = 600,
    rate: float = 0.01,
    temperatures: tuple[float, float] = (0.03, 0.003),
    ramp: float = 0.8,
) -> np.ndarray:
    """Improve G linear codes at once by annealed full-batch descent.

    Parameters
    ----------
    stages : what is learned from, one after the other (`condense`); the last one begins when `COARSE` is done
    starts : (G, p + 1, k) scores: one row per feature and a last row of offsets
    weights : (G,) leakage weights, reached slowly, over this share `ramp` of the steps: cells that
        die under a heavy weight do not come back. With a `floor` no weight is above what the code is worth
    """
    ready = [_single(stage) for stage in stages]
    scores, aim = np.array(starts, dtype=np.float32), np.asarray(weights, dtype=np.float32)
    moments = np.zeros_like(scores), np.zeros_like(scores)
    for step in range(steps):
        done = step / steps
        x, keep, hide = ready[-1 if done >= COARSE else 0]
        temperature = np.float32(temperatures[0] * (temperatures[1] / temperatures[0]) ** done)
        q = softmax((x @ scores) / temperature, axis=-1)
        cells = np.ascontiguousarray(np.swapaxes(q, -1, -2))
        tables = ([cells @ mass for mass in side] for side in (keep, hide))
        utility, information, by_kept, by_hidden = counted_terms(*tables)
        now = aim if floor is None else np.minimum(aim, worth(utility, information, floor)).astype(np.float32)
        now = now * np.float32(min(1.0, (done + 1 / steps) / ramp))
        slope = np.zeros_like(q)
        for mass, by in zip((*keep, *hide), (*by_kept, *(now[:, None, None] * by for by in by_hidden)), strict=True):
            slope += mass @ np.swapaxes(by, -1, -2).astype(np.float32)
        slope = q * (slope - (q * slope).sum(axis=-1, keepdims=True)) / temperature
        down = np.swapaxes(np.broadcast_to(x, (len(scores), *x.shape)), -1, -2) @ slope
        adam_step(scores, down, moments, step + 1, rate * min(1.0, 2 * (1 - done) + 0.02))
    return scores.astype(np.float64)


def _single(stage: Condensed) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Features with a column of ones, and the masses, in single precision."""
    x = np.column_stack([stage.features, np.ones(len(stage.features))])
    keep, hide = ([np.asarray(m, dtype=np.float32) for m in side] for side in stage[1:])
    return x.astype(np.float32), keep, hide


def closed_code(
    posterior: np.ndarray,
    balanced: Sequence[np.ndarray],
    weight: float,
    steps: int = 300,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """The best release of one class label under a bound on the exact attacker: scores (p + 1, classes).

    One cell per class. For a fixed attacker that answers s with probability pi(s|z), the best cell of
    a record is argmax_z p(z|x) - 2 weight sum_s pi(s|z) p(s|x)/P(s). The attacker's best pi minimises
    the mean of that maximum, which is convex in pi, so the pair is a saddle point: for two classes
    and a binary secret it is the threshold rule, and it stops by itself where the leak reaches zero.

    Parameters
    ----------
    posterior : (n, classes) p(y|x)
    balanced : per secret, (n, m) p(s|x) / (m P(s))
    """
    n_classes = posterior.shape[1]
    rows = np.ones(len(posterior)) if rows is None else rows
    secrets = [np.asarray(a) * a.shape[1] for a in balanced]
    weighted = [a * (rows / rows.sum())[:, None] for a in secrets]
    logits = [np.zeros((n_classes, a.shape[1])) for a in secrets]
    moments = [(np.zeros_like(x), np.zeros_like(x)) for x in logits]
    for step in range(steps if weight > 0 and secrets else 0):
        answers = [softmax(x, axis=1) for x in logits]
        score = posterior - 2 * weight * sum(a @ pi.T for a, pi in zip(secrets, answers, strict=True))
        cell = np.eye(n_classes)[score.argmax(axis=1)]
        rate = 0.1 * (1 - step / steps) + 0.005
        for x, pi, a, moment in zip(logits, answers, weighted, moments, strict=True):
            slope = -2 * weight * (cell.T @ a)  # of the mean of the maximum, in pi
            slope = pi * (slope - (pi * slope).sum(axis=1, keepdims=True))
            adam_step(x, slope, moment, step + 1, rate)
    blocks = [np.eye(n_classes)]
    for a, logit in zip(secrets, logits, strict=True):
        blocks.append(-2 * weight * a.shape[1] * softmax(logit, axis=1).T)
    return np.concatenate([*blocks, np.zeros((1, n_classes))])
