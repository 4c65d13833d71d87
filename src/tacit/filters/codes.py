"""The two ways CodebookFilter learns its cells: from posteriors (tables) or with a network (anything)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.cluster import KMeans

from tacit.filters.base import Problem, Release, release_by_folds
from tacit.filters.posterior import Posteriors
from tacit.labels import Labels, joint_codes
from tacit.records.dataset import allot
from tacit.records.people import supported
from tacit.solvers.exact import (
    Quieted,
    closed_code,
    condense,
    hard_loss,
    hard_terms,
    label_floor,
    label_mass,
    learn_linear_codes,
    quiet_code,
    take_in,
    worth,
)

if TYPE_CHECKING:  # the rule from posteriors is exported and released without torch
    from torch import nn

VALIDATION = 0.2  # of the training rows, to choose between candidates
MAX_ROWS = 16_000  # a linear code has few parameters: more rows than this add time, not quality
SLOPES = (0.0, 0.03, 0.06, 0.1, 0.15)  # of the closed rule, when it serves as a start
CONFIDENCE = (0.6, 0.995)  # the least and the most sure cell of a class at the start


@dataclass(frozen=True)
class Start:
    """Where a code begins, and whether it is refined from there or stays as it is, one cell for each class."""

    kind: str
    refined: bool = True


STARTS = {kind: Start(kind) for kind in ("label-only", "closed", "clusters")}
STARTS |= {f"{kind}, as it is": Start(kind, refined=False) for kind in ("label-only", "closed")}


def side_by_side(*labels: Labels) -> Labels:
    """The columns of several label tables as one."""
    return Labels(
        tuple(name for part in labels for name in part.names),
        tuple(classes for part in labels for classes in part.classes),
        np.concatenate([part.codes for part in labels], axis=1),
    )


def masses(labels: Labels, balanced: bool) -> list[np.ndarray]:
    return [label_mass(c, len(v), balanced) for c, v in zip(labels.codes.T, labels.classes, strict=True)]


class PosteriorCode:
    """Cells that are argmax of scores linear in the cross-fitted posteriors p(y|x) and p(s|x).

    Candidates are the label-only code and the closed rule, each as it is and refined into `n_codes`
    cells; the one with the smallest loss on validation rows is trained again on all rows. Where the weight
    is above what the code is worth, the code is quieted (see `tacit.solvers.exact`).
    """

    def __init__(self, n_codes: int, weight: float, solver: str, n_folds: int, verbose: bool = False) -> None:
        self.n_codes, self.weight, self.solver, self.verbose = n_codes, weight, solver, verbose
        self.posteriors, self.fitted = Posteriors(n_folds), False
        self.closed_rules: dict[Any, list[np.ndarray]] = {}  # by the rows they were learned from and their slopes
        self.history: list[dict[str, Any]] = []

    def adopt(self, other: PosteriorCode | None) -> None:
        """Use what does not depend on the weight of another code of the same problem and seed, if there is one."""
        if other is not None:
            self.posteriors, self.closed_rules, self.fitted = other.posteriors, other.closed_rules, True

    def fit(self, problem: Problem, secrets: Labels) -> None:
        both = side_by_side(problem.targets, secrets)
        self.widths = [len(c) for c in problem.targets.classes]
        if not self.fitted:
            if self.verbose:
                print(f"posteriors of {', '.join(both.names)} on {len(problem.X):,} rows")
            self.posteriors.fit(problem.X, both, problem.units, problem.seed, problem.crowd)
        known = [m.astype(bool).sum(axis=0) for m in masses(secrets, True)]
        self.priors = [(counts / counts.sum()).clip(1e-6) for counts in known]
        self.shown = self.posteriors.predict(problem.X)  # what the training rows are placed by, as new ones will be
        self.features = self._features(self.posteriors.out_of_fold)
        self.keep, self.hide = masses(problem.targets, False), masses(secrets, True)
        self.floor = label_floor(self.expected(), self.keep)
        self.seed = problem.seed
        if self.solver == "closed":
            self.n_codes, self.start = self.widths[0], "closed, as it is"
        else:
            part = allot(joint_codes(both.codes), np.array([1 - VALIDATION, VALIDATION]), problem.seed, problem.units)
            self.start = self._choose(part)
        scores = self._train([self.start], np.ones((1, len(problem.X))))[0]
        self.rule = self._plain_rule(scores, problem.crowd.n_people)
        self.quieted = self._quiet(scores, np.ones(len(problem.X), dtype=bool))
        if self.quieted is not None:
            # as many records as it was out of fold, by the posteriors that new ones will have
            rule = take_in(np.concatenate(self.shown, axis=1), self.rule, *self.quieted)
            self.rule = supported(rule, problem.crowd.n_people)

    def cells(self, X: np.ndarray) -> np.ndarray:
        return _place(np.concatenate(self.posteriors.predict(X), axis=1), self.rule)

    def expected(self) -> list[np.ndarray]:
        """Per target, what the training rows' classes were expected to be by models that did not see them."""
        return self.posteriors.out_of_fold[: len(self.widths)]

    def graph(self, g: Any, x: str) -> str:
        p = self.posteriors.graph(g, x)
        features = g.join(*p) if len(p) > 1 else p[0]
        scores = g.op("MatMul", features, g.constant("scores", self.rule[:-1]))
        return g.argmax(g.op("Add", scores, g.constant("offsets", self.rule[-1:])))

    def training_cells(self) -> np.ndarray:
        return _place(np.concatenate(self.shown, axis=1), self.rule)

    def held_out_cells(self) -> np.ndarray:
        """The cell of every training row, by posteriors that were fitted without it and the rule that is released."""
        return _place(np.concatenate(self.posteriors.out_of_fold, axis=1), self.rule)

    def out_of_fold(self) -> np.ndarray:
        """The cell of every training row, by posteriors *and* scores that were fitted without it."""
        folds = self.posteriors.folds
        n_folds = folds.max() + 1
        learners = self._train([self.start] * n_folds, np.array([folds != f for f in range(n_folds)], dtype=float))
        cells = np.empty(len(folds), dtype=np.int64)
        for f, scores in enumerate(learners):
            if self.quieted is not None:
                alike = self._quiet(scores, folds != f, self.quieted.into)
                scores = scores if alike is None else take_in(self.features, scores, *alike)
            cells[folds == f] = _place(self.features[folds == f], scores)
        return cells

    def _features(self, posteriors: Sequence[np.ndarray]) -> np.ndarray:
        """p(y|x) of the targets, then p(s|x) / (m P(s)) of the secrets."""
        n = len(self.widths)
        hidden = (p / prior / len(prior) for p, prior in zip(posteriors[n:], self.priors, strict=True))
        return np.concatenate([*posteriors[:n], *hidden], axis=1)

    def _plain_rule(self, scores: np.ndarray, n_people: int) -> np.ndarray:
        """The scores for plain posteriors, so that no prior has to travel, rounded to what the people support."""
        divisor = np.concatenate([np.ones(sum(self.widths)), *(prior * len(prior) for prior in self.priors), [1.0]])
        return supported(scores / divisor[:, None], n_people)

    def _choose(self, part: np.ndarray) -> str:
        """Train every candidate on most rows, in one stack; the rest say which is best."""
        validation = part == 1
        keep, hide = ([m[validation] for m in side] for side in (self.keep, self.hide))
        names = self._candidates()
        rows = np.tile((part == 0).astype(float), (len(names), 1))
        codes = self._train(names, rows)
        # beyond what any of them is worth, codes are compared at the weight where the game ended
        weight = min(self.weight, max(self._worth(scores, part == 0) for scores in codes))
        for name, scores in zip(names, codes, strict=True):
            cells = _place(self.features[validation], scores)
            loss = hard_loss(cells, self.n_codes, keep, hide, weight)
            used = int(np.unique(cells).size)
            self.history.append({"candidate": name, "validation_loss": loss, "cells_used": used})
            if self.verbose:
                print(f"{name}: validation loss {loss:.4f}, {used} cells used")
        return min(self.history, key=lambda h: h["validation_loss"])["candidate"]

    def _worth(self, scores: np.ndarray, rows: np.ndarray) -> float:
        keep, hide = ([m[rows] for m in side] for side in (self.keep, self.hide))
        return float(worth(*hard_terms(_place(self.features[rows], scores), self.n_codes, keep, hide), self.floor))

    def _quiet(self, scores: np.ndarray, rows: np.ndarray, into: int | None = None) -> Quieted | None:
        """How to quiet this code, by these rows."""
        if self.solver == "closed" or not self._game():
            return None
        some = self._some_rows()
        some = some[rows[some]]
        keep, hide = ([m[some] for m in side] for side in (self.keep, self.hide))
        return quiet_code(self.features[some], scores, keep, hide, self.weight, self.floor, into)

    def _game(self) -> bool:
        return self.weight > 0 and bool(self.hide)

    def _candidates(self) -> list[str]:
        if int(np.prod(self.widths)) > self.n_codes:
            return ["clusters"]
        if not self._game():
            return ["label-only", "label-only, as it is"]
        closed = ["closed", "closed, as it is"] if len(self.widths) == 1 else []
        return ["label-only", "label-only, as it is", *closed]

    def _train(self, starts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Scores of one code per start and row mask, (G, p + 1, k)."""
        scores = np.stack([self._start(start, mask) for start, mask in zip(starts, rows, strict=True)])
        learn = [g for g, start in enumerate(starts) if STARTS[start].refined]
        if learn:
            some = self._some_rows()
            keep, hide = ([m[some] for m in side] for side in (self.keep, self.hide))
            steps = 600 if self._game() else 200  # without a game there is nothing to ease into
            weights, used = np.full(len(learn), self.weight), rows[learn][:, some]
            features = self.features[some]
            if not self._game():
                features[:, sum(self.widths) :] = 0  # what tells of the sensitive labels would only be told for nothing
            few = condense(features, keep, hide, used)
            scores[learn] = learn_linear_codes(few, scores[learn], weights, self.floor, steps=steps)
        return scores

    def _start(self, name: str, rows: np.ndarray) -> np.ndarray:
        start, p = STARTS[name], sum(self.widths)
        scores = np.zeros((self.features.shape[1] + 1, self.n_codes))
        if start.kind == "closed":
            of_class = np.arange(self.n_codes) % self.widths[0]
            scores[:] = self._closed(rows)[:, of_class]  # every class's cells share its tilt
        if start.kind == "clusters":
            scores[:p] = _clusters(self.features[:, :p], self.widths, self.n_codes, self.seed)
        elif start.kind == "label-only" or start.refined:
            scores[:p] = _confidence_cells(self.widths, self.n_codes)
        if not start.refined:
            scores[-1, int(np.prod(self.widths)) :] = -1e3  # the other cells are never chosen
        return scores

    def _closed(self, rows: np.ndarray) -> np.ndarray:
        """The closed rule at the user's slope, or as a start at the slope that serves the loss best."""
        some = self._some_rows(10_000)
        p = self.widths[0]
        slopes = (self.weight,) if self.solver == "closed" else SLOPES
        name = rows[some].tobytes(), slopes
        if name not in self.closed_rules:
            edges = p + np.cumsum([0, *map(len, self.priors)])
            secrets = [self.features[some, a:b] for a, b in pairwise(edges)]
            self.closed_rules[name] = [
                closed_code(self.features[some, :p], secrets, slope, rows=rows[some]) for slope in slopes
            ]
        rules = self.closed_rules[name]
        if len(rules) == 1:
            return rules[0]
        inside = rows[some] > 0
        keep, hide = ([m[some][inside] for m in side] for side in (self.keep, self.hide))
        losses = [hard_loss(_place(self.features[some][inside], r), p, keep, hide, self.weight) for r in rules]
        return rules[int(np.argmin(losses))]

    def _some_rows(self, most: int = MAX_ROWS) -> np.ndarray:
        n = len(self.features)
        return np.arange(n) if n <= most else np.sort(np.random.default_rng(self.seed).permutation(n)[:most])


class NetworkCode:
    """Cells chosen by a network on the records themselves, trained with Gumbel-softmax.

    See `tacit.solvers.code_training`. Training rows are released by networks of the same start, one per
    fold, trained when they are asked for.
    """

    problem: Problem  # with what is to be withheld as its sensitive labels
    net: nn.Module

    def __init__(
        self,
        n_codes: int,
        weight: float,
        network: Callable[[Any, int], nn.Module] | None,
        *,
        n_folds: int,
        batch_size: int | None,
        learning_rate: float,
        device: str,
        settings: dict[str, Any],
    ) -> None:
        self.n_codes, self.weight, self.make = n_codes, weight, network or wide_mlp
        self.n_folds, self.batch_size, self.rate, self.device = n_folds, batch_size, learning_rate, device
        self.settings = settings  # of a `Training`
        self.start, self.history = "label-only", list[dict[str, Any]]()

    def fit(self, problem: Problem, secrets: Labels) -> None:
        self.fit_many([self], [problem], secrets)

    @staticmethod
    def fit_many(codes: Sequence[NetworkCode], problems: Sequence[Problem], secrets: Labels) -> None:
        """Codes that differ in weight and seed only, in one stack where their network allows it."""
        for code, problem in zip(codes, problems, strict=True):
            code.problem = replace(problem, sensitive=secrets)
        first = codes[0]
        from tacit.training.stack import can_stack  # only a network needs torch

        if len(codes) == 1 or not can_stack(first.make(problems[0].n_in, first.n_codes)):
            for code in codes:
                [(code.net, code.history)] = code._train(code.problem, [code.weight], [code.problem.seed])
            return
        trained = first._train(first.problem, [c.weight for c in codes], [p.seed for p in problems])
        for code, (net, history) in zip(codes, trained, strict=True):
            code.net, code.history = net, history

    def cells(self, X: np.ndarray) -> np.ndarray:
        from tacit.nets.forward import forward  # only a network needs torch

        return forward(self.net, X).argmax(-1)

    def graph(self, g: Any, x: str) -> str:
        return g.argmax(g.torch(self.net, x, "network"))

    def training_cells(self) -> np.ndarray:
        return self.cells(self.problem.X)

    def held_out_cells(self) -> np.ndarray:
        """The same as `out_of_fold`: a network has no rule apart from what it learned of the rows."""
        return self.out_of_fold()

    def expected(self) -> list[np.ndarray]:
        """Per target, the training rows' classes: a network has no posteriors of them."""
        targets = self.problem.targets
        pairs = zip(targets.codes.T, targets.classes, strict=True)
        return [(codes[:, None] == np.arange(len(classes))).astype(float) for codes, classes in pairs]

    def out_of_fold(self) -> np.ndarray:
        """The cell of every training row, by a network of the same start that was fitted without it."""

        def learn(part: Problem) -> Release:
            net = self._train(part, [self.weight], [part.seed])[0][0]
            from tacit.nets.forward import forward  # only a network needs torch

            return lambda X: forward(net, X).argmax(-1)

        return release_by_folds(self.problem, learn, self.n_folds, self.cells, self._renamed)

    def _renamed(self, there: np.ndarray, main: np.ndarray) -> Release:
        """Networks trained apart number their cells differently: each gets the main network's number for most rows."""
        table = np.zeros((self.n_codes, self.n_codes))
        np.add.at(table, (there, main), 1)
        return lambda cells: table.argmax(axis=1)[cells]

    def _train(
        self, part: Problem, weights: Sequence[float], seeds: Sequence[int]
    ) -> list[tuple[nn.Module, list[dict[str, Any]]]]:
        import torch  # only a network needs it

        from tacit.solvers.code_training import train_codes  # the same
        from tacit.training.device import choose_device  # the same

        device, settings = choose_device(self.device), dict(self.settings)
        if len(seeds) > 1:
            settings["checkpoint"] = None  # codes of a frontier are kept in its folder
        elif part.fold is not None and settings["checkpoint"] is not None:
            settings["checkpoint"] = f"{settings['checkpoint']}.fold{part.fold}"
        keep, hide = (
            [torch.as_tensor(m, dtype=torch.float32, device=device) for m in masses(labels, balanced)]
            for labels, balanced in ((part.targets, False), (part.sensitive, True))
        )
        return train_codes(
            lambda: self.make(part.n_in, self.n_codes),
            torch.as_tensor(part.X, dtype=torch.float32, device=device),
            keep,
            hide,
            self.n_codes,
            weights,
            seeds,
            # the tables need large batches, or their I(z;s) is mostly bias
            batch_size=self.batch_size or int(np.clip(len(part.X) // 8, 64, 2048)),
            rate=self.rate,
            **{**settings, "identity": f"{settings['identity']} on {len(part.X)} rows"},
        )


def wide_mlp(n_in: Any, n_out: int) -> nn.Module:
    from tacit.nets.mlp import mlp  # only a network needs torch

    return mlp(n_in, n_out, hidden=(128, 128))


def _place(features: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return np.argmax(features @ scores[:-1] + scores[-1], axis=1)


def _confidence_cells(widths: Sequence[int], n_codes: int) -> np.ndarray:
    """Log-probabilities (p, k) of cells "class c, this sure": cell z stands for class z mod m, in turn.

    One cell per class at medium confidence is the label-only code; the cells left over split it.
    """
    n_products = int(np.prod(widths))
    repeat = np.arange(n_codes) // n_products
    per_class = -(-n_codes // n_products)
    low, high = (np.log(c / (1 - c)) for c in CONFIDENCE)
    sure = 1 / (1 + np.exp(-(low + (high - low) * ((repeat + 0.5) / per_class))))
    blocks, divide = [], 1
    for m in widths:
        of_class = (np.arange(n_codes) // divide) % m
        confidence = np.maximum(sure, (1 + sure) / (m + 1))
        block = np.tile((1 - confidence) / (m - 1), (m, 1))
        block[of_class, np.arange(n_codes)] = confidence
        blocks.append(np.log(block))
        divide *= m
    return np.concatenate(blocks)


def _clusters(posteriors: np.ndarray, widths: Sequence[int], n_codes: int, seed: int) -> np.ndarray:
    """Log-probabilities (p, k) of cells around cluster centres, where there are more classes than cells."""
    some = np.random.default_rng(seed).permutation(len(posteriors))[:5000]
    n_clusters = min(n_codes, len(np.unique(posteriors[some], axis=0)))
    centres = KMeans(n_clusters, n_init=1, random_state=seed).fit(posteriors[some]).cluster_centers_.clip(1e-3)
    centres = centres[np.arange(n_codes) % n_clusters]
    edges = np.cumsum([0, *widths])
    blocks = [centres[:, a:b] / centres[:, a:b].sum(1, keepdims=True) for a, b in pairwise(edges)]
    return np.log(np.concatenate(blocks, axis=1)).T
