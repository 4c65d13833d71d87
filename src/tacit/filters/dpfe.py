"""DPFE: a classifier cut in two, whose small code between the halves keeps attributes and loses identity.

Implements "Deep Private-Feature Extraction" (Osia et al.): layer separation (section 4.1), a linear autoencoder
started from PCA with a batch-normalized code (4.2), fine-tuning by eq. 7, as it stands or in the form of the authors'
public networks (a hinge), and noise of covariance r·C on the code (4.3). Simple, the paper's control, is the same
without the contrastive term: here it gets the same batches, steps and rates. Several targets, several sensitive
attributes. `DPFE.as_printed()` has the authors' settings; the defaults are ours.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tacit.errors import InputError, InputTypeError, TacitWarning, check_number
from tacit.filters.base import (
    FEW_FOLDS,
    Knob,
    Problem,
    Release,
    TrainedFilter,
    check_training,
    copy_with,
    release_by_folds,
    training_settings,
)
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels
from tacit.nets.convolutional import backbone
from tacit.nets.cut import Halves, LinearCode, check_takes, cut_network, default_cut
from tacit.nets.forward import forward
from tacit.noise.keyed import Noise, mechanism
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.loop import Training, column_losses, descend

# the noise ratios of the paper's curves
RATIOS = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 4.0, 6.0, 8.0)
CONTRASTS = ("hinge", "difference")
PAIRS = ("balanced", "all")
# the authors' public networks: code 10, weight .01, "m10", 50 pairs a batch, Adam at 1e-4
AS_PRINTED = {"beta": 0.01, "margin": 10.0, "pairs": "all", "batch_size": 100, "learning_rate": 1e-4}


@register_filter(
    "dpfe",
    offered=False,  # it needs its cloud half: see docs/how-to/split.md
    examples=[{"n_components": 2, "epochs": 4, "backbone_epochs": 3, "noise_ratio": r} for r in (0.0, 0.3)],
)
@dataclass(eq=False, repr=False)
class DPFE(TrainedFilter):
    """A code between the client's and the cloud's half of a classifier, trained to lose who it is from.

    Parameters
    ----------
    network : a trained classifier (an `nn.Sequential`, or one that `torch.fx` can trace) with one output per class,
        target after target in the order of y's columns. It is given arrays as they are, tables as encoded numbers,
        and is copied before it is changed. None, or a factory ``(n_in, n_out) -> nn.Module``: trained here first, on
        standardized records
    cut : name of the layer after which to cut (`tacit.nets.cut.cut_names`); None takes the deepest hidden one
    n_components : size of the code
    beta : weight of the contrastive term (.01 in the authors' networks)
    margin : records of the same person should lie this far apart; those of different people, together. A
        normalized code of k numbers has a typical distance of sqrt(2k); beyond that (10 in the authors' networks) every
        pair of the same person pays. Which is best differs between data: try some on validation rows
    contrast : what a pair of the same person pays: "hinge", max(margin - d, 0)² / 2 as in the authors' networks, or
        "difference", -d² / 2, which is eq. 7 as printed without its constant c. That has no end; what bounds it is the
        normalized code, whose total spread is fixed (theorem 8)
    pairs : "balanced": pairs of the same person weigh as much as those of different people, or "all": every pair in
        the batch weighs alike, as printed, so that the rarer kind weighs less
    noise_ratio : the knob, r: the code is released with noise of covariance r times its own (0: none). May be
        changed after the fit (`set_params`): one model has many operating points
    simple : leave the contrastive term out (the paper's *Simple* model)
    epochs : of fine-tuning; the contrastive term enters after the first quarter
    backbone_epochs : of training the network, where it is trained here
    batch_size, learning_rate : of both; batch_size None suits the data
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file (and one beside it, ".backbone") from which a killed training continues

    Attributes
    ----------
    network_ : the original network: trained (or given), not yet cut
    client_ : the client half: records as the network takes them -> code, before noise
    head_ : the cloud half: code -> outputs, target after target
    classes_ : per target, the class values
    covariance_ : (k, k) of the code on the training rows
    cut_ : where the network was cut
    history_ : list of dicts, one per epoch. The losses say nothing about what leaks. Use `tacit.audit`

    The noise is in proportion to the code, but the code is not clipped and the noise not the same in every direction,
    so no certificate is claimed: audits say "audited".

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.DPFE(n_components=2, epochs=4, backbone_epochs=4, random_state=0)
    >>> Z = f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X)
    >>> Z.shape, list(f.answer(Z).columns)
    ((400, 2), ['colour'])
    """

    grouping = "seed"
    knob = Knob("noise_ratio", utility_rises=False, values=RATIOS)

    network: nn.Module | Callable[[Any, int], nn.Module] | None = None
    cut: str | None = None
    n_components: int = 10
    _: KW_ONLY
    beta: float = 0.05
    margin: float = 5.0
    contrast: str = "hinge"
    pairs: str = "balanced"
    noise_ratio: float = 0.0
    simple: bool = False
    backbone_epochs: int = 10

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = bool(self.noise_ratio)  # every object draws a key of its own
        return tags

    @classmethod
    def as_printed(cls, *args: Any, **settings: Any) -> Self:
        """The authors' settings: weight .01, margin 10, Adam at 1e-4, batches of 100; others as given.

        Every pair in a batch counts alike, as in eq. 7; their networks take 50 pairs a batch.
        They fine-tune Simple in 3,000 steps (at 1e-6) and then DPFE in 15,000; here the number of epochs is yours, its
        first quarter is Simple's. `contrast="difference"` is eq. 7 to the letter where the networks have a hinge.

        Examples
        --------
        >>> f = DPFE.as_printed(epochs=3, contrast="difference")
        >>> f.beta, f.margin, f.pairs, f.epochs
        (0.01, 10.0, 'all', 3)
        """
        return cls(*args, **{**AS_PRINTED, **settings})

    # -- the client: records -> code + noise ------------------------------------------------------------

    def with_noise(self, noise_ratio: float | None) -> Self:
        """The same fitted filter at another noise ratio (0 or None: no noise); training never reads the ratio."""
        check_is_fitted(self)
        return copy_with(self, self.mechanism_.with_noise(self._noise_at(noise_ratio)))

    def _noise_at(self, ratio: float | None) -> Noise | None:
        check_number("noise_ratio", ratio, 0, optional=True)
        if not ratio:
            return None
        # keyed by the record, never by random_state: asking again gives the same draw; another ratio or another fit
        # gets another, for the same draw at two sizes could be solved for the code
        width = len(self.covariance_)
        return Noise("normal", math.sqrt(ratio), width, False, mechanism(ratio, self.covariance_))

    # -- the cloud: code -> answers ---------------------------------------------------------------------

    def answer(self, Z: Any) -> pd.DataFrame:
        """What the cloud tells from released codes: the likeliest class of each target."""
        found = self.answer_proba(Z)
        return pd.DataFrame({n: c[p.argmax(axis=1)] for (n, p), c in zip(found.items(), self.classes_, strict=True)})

    def answer_proba(self, Z: Any) -> dict[str, np.ndarray]:
        """The same as probabilities: per target (n, classes)."""
        check_is_fitted(self)
        codes = np.asarray(Z, dtype=np.float64)
        if codes.ndim != 2 or codes.shape[1] != len(self.covariance_):
            raise InputError(f"a code has {len(self.covariance_)} numbers; found an array of shape {codes.shape}")
        logits = torch.from_numpy(forward(self.head_, codes))
        parts = torch.split(logits, [len(c) for c in self.classes_], dim=1)
        return {n: torch.softmax(p, 1).numpy() for n, p in zip(self._target_names, parts, strict=True)}

    # -- learning: procedure 1 --------------------------------------------------------------------------

    def _as_given(self, checked: Any) -> bool:
        # a trained network expects the scale it was trained on
        return isinstance(self.network, nn.Module) and not isinstance(checked, pd.DataFrame)

    def _learn(self, problem: Problem) -> Mechanism:
        return self._learn_many([self], [problem])[0]

    @staticmethod
    def _learn_many(filters: Sequence[DPFE], problems: Sequence[Problem]) -> list[Mechanism]:
        """Filters of one seed that differ in their noise ratio share one training."""
        first, learned = filters[0], list[Mechanism]()
        first._check_parameters()
        check_pairs(problems[0].sensitive)
        found = learn(first, problems[0])
        for f, problem in zip(filters, problems, strict=True):
            f.network_, f.client_, f.head_ = found.network, found.client, found.head
            f.cut_, f.history_ = found.cut, found.history
            for text in found.notes:
                note(f, text, TacitWarning)
            f.classes_, f._target_names = problem.targets.classes, problem.targets.names
            f.covariance_ = np.atleast_2d(np.cov(forward(f.client_, problem.X), rowvar=False))
            values, vectors = np.linalg.eigh(f.covariance_)
            code = ClientCode(f.client_, vectors * np.sqrt(np.clip(values, 0, None)))
            cloud = f.head_, dict(zip(f._target_names, f.classes_, strict=True))
            learned.append(Mechanism(code, f.n_components, f._noise_at(f.noise_ratio), cloud=cloud))
        return learned

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        def learn_part(part: Problem) -> Release:
            client = learn(self, part).client
            return lambda X: forward(client, X)

        code: Any = self.mechanism_.code
        return code.scattered(release_by_folds(problem, learn_part, n_folds=FEW_FOLDS, like=code), drawn)

    def _check_parameters(self) -> None:
        check_training(self, min_batch=2)
        for name in ("n_components", "backbone_epochs"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name in ("beta", "margin", "noise_ratio"):
            check_number(name, getattr(self, name), 0)
        for name, known in (("contrast", CONTRASTS), ("pairs", PAIRS)):
            if getattr(self, name) not in known:
                raise InputError(f"{name} is {getattr(self, name)!r}; it is one of {', '.join(known)}")
        if self.network is not None and not callable(self.network):
            raise InputTypeError(
                f"network is a {type(self.network).__name__}; pass a trained torch.nn.Module, or a factory "
                f"(n_in, n_out) -> torch.nn.Module"
            )


@dataclass(frozen=True, eq=False)
class ClientCode:
    """The client half's output; noise of covariance r times the code's own goes in beside it.

    Attributes
    ----------
    net : encoded records to the code
    root : of the code's covariance
    """

    net: nn.Module
    root: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return forward(self.net, X)

    def noisy(self, X: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        return self.scattered(self(X), drawn)

    def scattered(self, code: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
        return code if drawn is None else code + drawn @ self.root.T

    def graph(self, g: Any, x: str) -> str:
        code = g.torch(self.net, x, "client")
        if g.noise is None:
            return code
        return g.op("Add", code, g.op("MatMul", g.noise, g.constant("noise_root", self.root.T)))


class Trained:
    """What came of a training: the original network, the two halves around the code, and what was noted."""

    def __init__(self, network: nn.Module, client: nn.Module, head: nn.Module, cut: str) -> None:
        self.network, self.client, self.head = (m.cpu().double().eval() for m in (network, client, head))
        self.cut = cut
        self.history: list[dict[str, Any]] = []
        self.notes: list[str] = []


def learn(f: DPFE, problem: Problem) -> Trained:
    """Procedure 1: original network, PCA on the cut layer's output, then fine-tuning; in the filter's settings."""
    device = choose_device(f.device)
    data = Records(problem, device, choose_batch_size(f.batch_size, len(problem.X)))
    n_outputs = sum(len(c) for c in problem.targets.classes)
    notes, history = list[str](), list[dict[str, Any]]()
    if isinstance(f.network, nn.Module):
        network = copy.deepcopy(f.network).float().to(device)
        _check_outputs(network, data, n_outputs, problem.targets)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            network = (f.network or backbone)(problem.n_in, n_outputs).to(device)
        _check_outputs(network, data, n_outputs, problem.targets)
        with _training(f, problem, {"network": network}, "network") as training:
            for _ in training.epochs():
                network.train()
                told = data.epoch(training, lambda rows: {"attributes": data.attributes(network(data.X[rows]), rows)})
                training.record(score=-told["attributes"], **told)
        history += [{"stage": "network", **line} for line in training.history]
        if training.interrupted:
            notes.append("interrupted before fine-tuning: the code is that of PCA and withholds nothing on purpose")
    cut = f.cut if f.cut is not None else default_cut(network)
    halves = cut_network(network, cut)
    code = LinearCode.from_pca(halves.client, data.X, f.n_components, problem.seed, cut).to(device)
    if not notes:
        history += _fine_tune(f, problem, data, halves, code)
    client, head = nn.Sequential(halves.client, code.encoder), nn.Sequential(code.decoder, halves.cloud)
    found = Trained(network, client, head, cut)
    found.history, found.notes = history, notes
    return found


def _fine_tune(f: DPFE, problem: Problem, data: Records, halves: Halves, code: LinearCode) -> list[dict[str, Any]]:
    """Eq. 7; the Simple model (the first quarter of the epochs, or `simple`) is the same with beta 0."""
    modules = {"client": halves.client, "code": code, "cloud": halves.cloud}
    warm_up = f.epochs // 4
    with _training(f, problem, modules, "fine-tuning") as training:
        for epoch in training.epochs():
            beta = 0.0 if f.simple or epoch < warm_up else f.beta

            def losses(rows: Tensor, beta: float = beta) -> dict[str, Tensor]:
                z = code.encoder(halves.client(data.X[rows]))
                kept = data.attributes(halves.cloud(code.decoder(z)), rows)
                hidden = data.contrast(z, rows, f.margin, f.contrast, f.pairs)
                return {"loss": kept + beta * hidden, "attributes": kept.detach(), "contrast": hidden.detach()}

            for module in modules.values():
                module.train()
            told = data.epoch(training, losses)
            # before the contrastive term enters, the loss is of another kind: no candidate for the best state
            training.record(score=None if epoch < warm_up else -told["loss"], **told)
    return [{"stage": "fine-tuning", **line} for line in training.history]


class Records:
    """The training records on their device, in batches of pairs, and the two losses of eq. 7."""

    def __init__(self, problem: Problem, device: torch.device, batch_size: int) -> None:
        self.X = torch.as_tensor(problem.X, dtype=torch.float32, device=device)
        self.y = torch.as_tensor(problem.targets.codes, device=device)
        self.s = torch.as_tensor(problem.sensitive.codes, device=device)
        self.sizes = [len(c) for c in problem.targets.classes]
        self.batch_size = max(2, min(batch_size, len(problem.X)))
        self.partners = Partners(problem.sensitive.codes[:, 0]) if len(problem.sensitive) else None

    def epoch(self, training: Training, losses: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, float]:
        """One pass; the first of the losses is descended. Returns their means."""
        (adam,) = training.optimisers.values()
        totals: dict[str, Tensor] = {}
        batches = list(self.batches(training.rng))
        for rows in batches:
            now = losses(torch.from_numpy(rows).to(self.X.device))
            descend(adam, next(iter(now.values())))
            for name, value in now.items():
                totals[name] = totals.get(name, 0) + value.detach() / len(batches)
        return {name: float(value) for name, value in totals.items()}

    def batches(self, rng: np.random.Generator) -> Any:
        """Half of a batch at random, the other half records of the same people: pairs of both kinds in every batch."""
        n, size = len(self.X), self.batch_size
        order = rng.permutation(n)
        if self.partners is not None:
            size = size // 2
        for start in range(0, max(1, n // size) * size, size):
            rows = order[start : start + size]
            yield rows if self.partners is None else np.concatenate([rows, self.partners.of(rows, rng)])

    def attributes(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """The classification loss (eq. 7, first term): cross-entropies of all targets, unknown labels left out."""
        return column_losses(outputs, self.y[rows], self.sizes).sum()

    def contrast(self, code: Tensor, rows: Tensor, margin: float, kind: str, pairs: str) -> Tensor:
        """The contrastive loss of every sensitive attribute."""
        hidden = code.new_zeros(())
        for secret in self.s[rows].T:
            hidden = hidden + contrastive(code, secret, margin, kind, pairs)
        return hidden


def contrastive(code: Tensor, secret: Tensor, margin: float, kind: str = "hinge", pairs: str = "balanced") -> Tensor:
    """Eq. 7's second term: different people pay d²/2, the same person max(margin - d, 0)²/2 or (c - d²)/2 less c.

    Over all pairs in the batch. "balanced": the two kinds weigh alike, for a pair at random is nearly always of two
    people. "all": every pair weighs alike, as printed.

    Examples
    --------
    >>> code = torch.tensor([[0., 0.], [3., 4.]])
    >>> contrastive(code, torch.tensor([0, 1]), 10).item(), contrastive(code, torch.tensor([0, 0]), 10).item()
    (12.5, 12.5)
    """
    distance = torch.pdist(code)
    i, j = torch.triu_indices(len(code), len(code), 1, device=code.device)
    known = (secret[i] != MISSING) & (secret[j] != MISSING)
    same = known & (secret[i] == secret[j])
    different = known & ~same
    together = (distance.square() / 2 * different).sum()
    alike = -distance.square() if kind == "difference" else torch.relu(margin - distance).square()
    apart = (alike / 2 * same).sum()
    if pairs == "all":
        return (together + apart) / known.sum().clamp_min(1)
    return together / different.sum().clamp_min(1) + apart / same.sum().clamp_min(1)


class Partners:
    """For every record another one of the same class, at random; itself where it has no other."""

    def __init__(self, codes: np.ndarray) -> None:
        self.order = np.argsort(codes, kind="stable")
        self.place = np.argsort(self.order)
        self.first = np.searchsorted(codes[self.order], codes, "left")
        self.count = np.searchsorted(codes[self.order], codes, "right") - self.first

    def of(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        count, first = self.count[rows], self.first[rows]
        shift = rng.integers(1, np.maximum(count, 2))
        return self.order[first + (self.place[rows] - first + shift) % count]


def check_pairs(sensitive: Labels) -> None:
    """Refuse a person with a single record: there is nothing of the same person to tell it apart from."""
    for i, name in enumerate(sensitive.names):
        codes = sensitive.codes[:, i]
        alone = np.flatnonzero(np.bincount(codes[codes != MISSING]) == 1)
        if len(alone):
            value = str(sensitive.classes[i][alone[0]])
            row = int(np.flatnonzero(codes == alone[0])[0])
            raise InputError(
                f"sensitive column {name!r}: {value!r} has one record only (row {row}), but the contrastive loss "
                f"compares records of the same class; pass more of {value!r}, leave that row out, or mark it unknown "
                f"(None)"
            )


def _check_outputs(network: nn.Module, data: Records, n_outputs: int, targets: Labels) -> None:
    found = tuple(check_takes(network, data.X[:2]).shape)
    if found != (2, n_outputs):
        wanted = ", ".join(f"{n}: {len(c)}" for n, c in zip(targets.names, targets.classes, strict=True))
        raise InputError(
            f"the network gives {found[1:]} numbers a record, but the targets have {n_outputs} classes in all "
            f"({wanted}); pass a network with one output per class, target after target"
        )


def _training(f: DPFE, problem: Problem, modules: dict[str, nn.Module], stage: str) -> Training:
    settings = training_settings(f, problem, unread=("noise_ratio",))
    if stage == "network":
        path = settings["checkpoint"]
        settings |= {"epochs": f.backbone_epochs, "checkpoint": None if path is None else f"{path}.backbone"}
    else:
        settings["seed"] += 1
    adam = torch.optim.Adam([p for m in modules.values() for p in m.parameters()], lr=f.learning_rate)
    return Training(modules, {"adam": adam}, label=stage, **settings)
