"""AnonymizingAutoencoder: sensor windows in, sensor windows out, without who wore the sensor.

Implements "Mobile Sensor Data Anonymization" (Malekzadeh et al. 2019): the fitness of eq. 1 with the losses
of eq. 4 to 7, and the rounds of Figure 6. Beyond the paper: every round reads the *raw* windows, which is what
the filter is given when it is used (theirs reads the round before); regularizers of several families play at
once and are restarted in turn; and convergence is judged by classifiers trained afresh on validation windows,
because a regularizer that has lost the game says nothing about another one. With `codes`, the latent is one of
k cells, eq. 1 is computed exactly, and the release can be certified. `AnonymizingAutoencoder.as_printed()` is the
paper's own: its loss, networks and rounds (`PrintedRounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import (
    FEW_FOLDS,
    Knob,
    Problem,
    Release,
    TrainedFilter,
    check_training,
    release_by_folds,
    ridge,
    training_settings,
)
from tacit.filters.codebook import PrototypeOf, typical_records
from tacit.filters.codes import NetworkCode
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels, joint_codes
from tacit.nets.forward import forward
from tacit.nets.windows import (
    CLASSIFIERS,
    SHORTEST,
    Decoder,
    Encoder,
    Factory,
    NetworkClassifier,
    PrintedDecoder,
    PrintedEncoder,
    code_classifier,
    deep_classifier,
    penalty,
    printed_classifier,
    wide_classifier,
)
from tacit.nets.windows import printed_latent_classifier as latent_classifier
from tacit.noise.keyed import Finite, Noise, mechanism
from tacit.records.dataset import allot
from tacit.records.windows import check_windows
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.loop import Training, class_weights, descend

FAMILIES = ("deep", "wide")  # those whose fresh kin learn most from a release


@register_filter(
    "autoencoding",
    modality="windows",
    offered=False,
    examples=[{"epochs": 1, "n_maps": 4}, {"epochs": 1, "n_maps": 4, "noise": None}, {"epochs": 2, "codes": 4}],
)
@dataclass(eq=False, repr=False)
class AnonymizingAutoencoder(TrainedFilter, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Rebuild sensor windows so that the activity stays and the person does not.

    Parameters
    ----------
    beta_identity : the knob, beta_i of eq. 4: how much the sensitive attributes (who it is) are withheld
    beta_activity : beta_a: how much the targets (what they do) are kept
    beta_distortion : beta_d: how near the output stays to the input
    regularize_output : False is the paper's "REP": only the latent is played against, not the output
    codes : release one of this many waveforms, each the mean of its cell. The game is then eq. 1 itself with
        exact information, no regularizers, and `tacit.audit` can certify it
    identity_loss : "uniform" (the regularizer should answer every class alike) or "paper" (eq. 7)
    regularizers : families that play on the output: names of "deep", "wide", "dense", "spectrum", "printed", or
        factories (n_in, n_out) -> nn.Module
    regularizer_steps : updates of the regularizers for every update of the autoencoder
    restart_every : epochs after which one regularizer, each in turn, starts afresh; None never
    noise : standard deviation of noise on the latent, which is then bounded to -1..1, in training and in release
        (keyed by the record); what is left of a person in small differences drowns in it. None is the paper's, and
        leaves a fresh attacker about twice as much on MotionSense. Not used with `codes`
    rounds : train as printed, in this many rounds of Figure 6, with the networks of Figures 4 and 5; `epochs` are then
        those of one stage of a round, and `patience` stops a regularizer's stage. None is the game above
    start : refine a model instead of beginning at random: a fitted filter, or a bundle that was downloaded
        (`tacit.load`), with the same `n_maps`, `noise` or not, and `rounds` or not
    n_maps : feature maps of every layer of the autoencoder; fewer are faster
    validation : share of the windows (whole units where there are units) that judges convergence
    patience : stop after this many checks (one every third epoch) without a better adaptive trade-off
    epochs, batch_size, learning_rate : training; epochs is the most there will be
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file to resume from after a crash, written after every epoch (with `rounds` a file for every stage)

    Without a target (`fit` without y) only the distortion keeps anything (Section 3.4): raise beta_distortion.

    Attributes
    ----------
    history_ : list of dicts: losses of every epoch, and at checks "kept" and "leaked", the balanced accuracy of
        fresh classifiers on validation windows. They steer training; use `tacit.audit` for figures to quote
    prototypes_ : with `codes`, (k, channels, length) the waveforms that can be released

    Examples
    --------
    >>> import numpy as np, tacit
    >>> X = np.random.default_rng(0).standard_normal((60, 2, 32))
    >>> f = tacit.AnonymizingAutoencoder(epochs=1, n_maps=4, random_state=0)
    >>> f.fit(X, np.arange(60) % 2, sensitive_features=np.arange(60) % 3).transform(X).shape
    (60, 2, 32)
    """

    refuse = partial(check_windows, shortest=SHORTEST)
    needs_target = False
    knob = Knob("beta_identity", utility_rises=False, values=(0.0, 0.1, 0.3, 1.0, 2.0, 4.0))

    beta_identity: float = 1.0
    beta_activity: float = 2.0
    beta_distortion: float = 0.01
    _: KW_ONLY
    regularize_output: bool = True
    codes: int | None = None
    identity_loss: str = "uniform"
    regularizers: Sequence[str | Factory] = FAMILIES
    regularizer_steps: int = 3
    restart_every: int | None = 5
    noise: float | None = 0.5
    rounds: int | None = None
    start: Any = None
    n_maps: int = 100
    validation: float = 0.1
    patience: int = 6
    epochs: int = 24

    @classmethod
    def as_printed(cls, **changes: Any) -> AnonymizingAutoencoder:
        """The paper's own method: eq. 7, the networks of Figures 4 and 5, four rounds of Figure 6, no noise.

        `changes` are other parameters: ``regularize_output=False`` is REP. Settings that the text leaves open (batches
        of 128, four rounds, weights 1, 2 and .01) are those of the authors' published code. Two things differ from it:
        every round reads raw windows, as the filter does when it is used, and classes are not weighted.

        Examples
        --------
        >>> f = AnonymizingAutoencoder.as_printed(regularize_output=False)
        >>> f.identity_loss, f.rounds, f.noise, f.regularizers
        ('paper', 4, None, ('printed',))
        """
        printed: dict[str, Any] = {
            "identity_loss": "paper",
            "regularizers": ("printed",),
            "rounds": 4,
            "noise": None,
            "validation": 0.2,
            "batch_size": 128,
            "restart_every": None,
            "regularizer_steps": 1,
        }
        return cls(**{**printed, **changes})

    # -- learning -------------------------------------------------------------------------------

    def _learn(self, problem: Problem) -> Mechanism:
        self._check_parameters()
        _check_classes(problem)
        if not len(problem.targets) and not len(problem.sensitive):
            raise InputError("neither y nor sensitive_features were passed: say what to keep or what to withhold")
        if self.codes is not None:
            if not len(problem.targets):
                raise InputError("codes= needs y: without a target every window falls into one cell; pass y")
            return self._learn_code(problem)
        self.autoencoder_, self.history_ = self._play(problem)
        scaling: Any = problem.scaling
        code = Rebuilt(self.autoencoder_, scaling.scale, scaling.mean, self.device)
        noise = None
        if self.noise:  # between encoder and decoder; another fit under the same key draws otherwise
            width = int(np.prod(code.run(code.autoencoder[0], problem.X[:2]).shape[1:]))
            name = mechanism(self.noise, *(p.detach().numpy() for p in code.autoencoder[0].parameters()))
            noise = Noise("normal", float(self.noise), width, False, name)
        out = code.rebuild(problem.X[:2000], None)
        if out.std(axis=0).max() < 1e-3:
            note(
                self,
                f"collapsed: every window is rebuilt as (nearly) the same one, so the release carries nothing; lower "
                f"beta_identity (now {self.beta_identity}) or raise epochs (now {self.epochs})",
                CollapseWarning,
            )
        return Mechanism(code, int(np.prod(problem.X.shape[1:])), noise)

    def _play(self, problem: Problem) -> tuple[nn.Sequential, list[dict[str, Any]]]:
        game = AnonymizingGame(self, problem) if self.rounds is None else PrintedRounds(self, problem)
        if self.start is not None:
            game.begin_from(self.start)
        history = game.train(**training_settings(self, problem))
        return game.result().cpu().eval(), history

    def _learn_code(self, problem: Problem) -> Mechanism:
        """Eq. 1 with a finite A(X): beta_i I(U;z) - beta_a I(T;z), counted; divided by beta_a."""
        cells_of = NetworkCode(
            self.codes or 0,
            self.beta_identity / self.beta_activity,
            code_classifier,
            n_folds=FEW_FOLDS,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            device=self.device,
            settings=training_settings(self, problem),
        )
        cells_of.fit(problem, problem.sensitive)
        self.history_ = cells_of.history
        cells = cells_of.training_cells()
        # the mean of a cell is its waveform of least distortion (eq. 6)
        self.prototypes_ = typical_records(problem.scaling, problem.X, cells, self.codes or 0)
        if np.unique(cells).size == 1:
            note(
                self,
                f"collapsed: every window falls into one cell, so the release carries nothing; lower beta_identity "
                f"(now {self.beta_identity})",
                CollapseWarning,
            )
        width = int(np.prod(problem.X.shape[1:]))
        return Mechanism(PrototypeOf(cells_of, np.asarray(self.prototypes_)), width, support=Finite())

    def _check_parameters(self) -> None:
        check_training(self, min_batch=2)
        for name in ("beta_identity", "beta_activity", "beta_distortion"):
            check_number(name, getattr(self, name), 0)
        if self.codes is not None:
            check_number("codes", self.codes, 2, whole=True)
            check_number("beta_activity", self.beta_activity, 1e-9)
        for name in ("regularizer_steps", "n_maps", "patience"):
            check_number(name, getattr(self, name), 1, whole=True)
        check_number("restart_every", self.restart_every, 1, whole=True, optional=True)
        check_number("validation", self.validation, 0.01, 0.5)
        check_number("noise", self.noise, 0, optional=True)
        check_number("rounds", self.rounds, 1, whole=True, optional=True)
        for name in ("codes", "noise") if self.rounds is not None else ():
            if getattr(self, name):
                raise InputError(
                    f"rounds={self.rounds} is the training as printed, which has no {name}; pass {name}=None "
                    f"(found {getattr(self, name)}), or rounds=None"
                )
        if self.codes is not None and self.start is not None:
            raise InputError(
                "start refines an autoencoder, and with codes= there is none; pass codes=None or start=None"
            )
        if self.identity_loss not in ("uniform", "paper"):
            raise InputError(f"identity_loss must be 'uniform' or 'paper'; found {self.identity_loss!r}")
        for r in self.regularizers:
            if isinstance(r, str) and r not in CLASSIFIERS:
                raise InputError(
                    f"regularizers are {', '.join(map(repr, CLASSIFIERS))} or factories "
                    f"(n_in, n_out) -> nn.Module; found {r!r}"
                )
        if self.regularize_output and not len(self.regularizers):
            raise InputError("regularizers is empty; name at least one, or pass regularize_output=False (REP)")

    # -- releasing ------------------------------------------------------------------------------

    def latent(self, X: Any) -> np.ndarray:
        """The code between encoder and decoder, (n, channels, length / 4): for figures, not a release."""
        check_is_fitted(self)
        code = self.mechanism_.code
        if not isinstance(code, Rebuilt):
            raise InputError("with codes= the latent is a cell; use transform, whose output is the cell's waveform")
        return code.run(code.autoencoder[0], self.mechanism_.schema.encode(X))

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """Autoencoders trained apart differ in form; each one's output is mapped onto the main one's."""
        code = self.mechanism_.code
        if isinstance(code, PrototypeOf):
            return code.shown(code.cells_of.out_of_fold())
        assert isinstance(code, Rebuilt)

        def learn(part: Problem) -> Release:
            return replace(code, autoencoder=self._play(part)[0]).rebuild

        return code.in_units(release_by_folds(problem, learn, FEW_FOLDS, code.rebuild, ridge, drawn))


def load_start(start: Any, autoencoder: Any) -> None:
    """Give encoder and decoder the weights of a fitted filter, or those that a bundle carries."""
    if isinstance(start, AnonymizingAutoencoder):
        check_is_fitted(start)
        code = start.mechanism_.code
        known = dict(code.autoencoder.state_dict()) if isinstance(code, Rebuilt) else {}
    elif hasattr(start, "weights"):
        names = (("encoder.", "0."), ("decoder.", "1."))
        held = {
            new + k.removeprefix(old): v for old, new in names for k, v in start.weights().items() if k.startswith(old)
        }
        known = {k: torch.from_numpy(np.array(v)) for k, v in held.items()}
    else:
        raise InputError(
            f"start must be a fitted AnonymizingAutoencoder or a loaded bundle; found {type(start).__name__}"
        )
    wanted = autoencoder.state_dict()
    # a bundle keeps a number as an array of one
    known = {k: v.reshape(wanted[k].shape) if v.numel() == 1 else v for k, v in known.items() if k in wanted}
    unlike = [k for k, v in wanted.items() if k not in known or known[k].shape != v.shape]
    if unlike:
        raise InputError(
            f"start has another network ({len(unlike)} of {len(wanted)} arrays differ, the first {unlike[0]!r}); "
            f"refine with the n_maps, noise, rounds and channels it was fitted with"
        )
    autoencoder.load_state_dict(known)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """Windows through encoder and decoder, with noise in between, in their own units.

    Attributes
    ----------
    autoencoder : encoder and decoder, in single precision
    scale, mean : of each channel
    device : where the network runs
    """

    autoencoder: nn.Sequential
    scale: np.ndarray
    mean: np.ndarray
    device: str

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.in_units(self.rebuild(X, None))

    def noisy(self, X: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        return self.in_units(self.rebuild(X, drawn))

    def rebuild(self, X: np.ndarray, drawn: np.ndarray | None = None) -> np.ndarray:
        """Encoder, noise, decoder."""
        if drawn is None:
            return self.run(self.autoencoder, X)
        code = self.run(self.autoencoder[0], X)
        return self.run(self.autoencoder[1], code + drawn.reshape(code.shape))

    def in_units(self, X: np.ndarray) -> np.ndarray:
        return X * self.scale + self.mean

    def run(self, net: nn.Module, X: np.ndarray) -> np.ndarray:
        """A part of the network, on its device."""
        return forward(net, X, 2048, choose_device(self.device) if torch.cuda.is_available() else torch.device("cpu"))

    def graph(self, g: Any, x: str) -> str:
        code = g.torch(self.autoencoder[0], x, "encoder")
        if g.noise is not None:
            quiet, code = code, g.op("Add", code, g.like(g.noise, code))
            g.shapes[code] = g.shapes[quiet]
        rebuilt = g.torch(self.autoencoder[1], code, "decoder")
        scaled = g.op("Mul", rebuilt, g.constant("unit", self.scale))
        return g.op("Add", scaled, g.constant("origin", self.mean))


def _check_classes(problem: Problem) -> None:
    """Two windows of every class of a sensitive attribute, one to play with and one to judge by."""
    for i, name in enumerate(problem.sensitive.names):
        codes = problem.sensitive.codes[:, i]
        counts = np.bincount(codes[codes >= 0], minlength=problem.sensitive.n_classes(i))
        if counts.min() < 2:
            alone = problem.sensitive.classes[i][int(counts.argmin())]
            raise InputError(
                f"sensitive_features column {name!r}: {alone} has one window; at least two are needed to learn "
                f"from one and judge by another, so cut more windows (a shorter stride) or leave {alone} out"
            )


CLIP = 1e-7  # of probabilities inside logarithms, as the paper's code
START = 0.2  # share of the epochs that teach the autoencoder the label-only release, before the game
SETTLE = 0.5  # share of the epochs after which the autoencoder slows down, so that regularizers can catch up
AVERAGED = 2  # epochs whose states are averaged, about
CHECK_EVERY = 3  # epochs
CHECK_ROWS = 8_000  # enough to see which of two states leaks more
CHECK_EPOCHS = 12


class Heads:
    """Several label columns read off one network's logits, side by side."""

    def __init__(self, labels: Labels, rows: np.ndarray, device: torch.device, balanced: bool) -> None:
        self.widths = [len(c) for c in labels.classes]
        self.codes = torch.as_tensor(labels.codes[rows], device=device)
        self.weights = []
        for codes, m in zip(labels.codes[rows].T, self.widths, strict=True):
            share = class_weights(codes, m) if balanced else np.ones(m)
            self.weights.append(torch.as_tensor(share, dtype=torch.float32, device=device))

    @property
    def n_out(self) -> int:
        return sum(self.widths)

    def _each(self, logits: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Per column: log-probabilities, codes, and each record's weight (0 where the label is missing)."""
        out = []
        for i, part in enumerate(logits.split(self.widths, dim=-1)):
            codes = self.codes[rows, i]
            weight = self.weights[i][codes.clamp_min(0)] * (codes != MISSING)
            out.append((part.log_softmax(-1), codes.clamp_min(0), weight / weight.sum().clamp_min(1e-12)))
        return out

    def learn(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy (eq. 5), the mean over columns."""
        losses = [-(w * logs.gather(-1, c[:, None])[:, 0]).sum() for logs, c, w in self._each(logits, rows)]
        return torch.stack(losses).mean()

    def right(self, logits: Tensor, rows: Tensor) -> float:
        """Share of the known labels that are answered, the mean over columns."""
        shares = [((logs.argmax(-1) == c) * w).sum() for logs, c, w in self._each(logits, rows)]
        return float(torch.stack(shares).mean())

    def hide(self, logits: Tensor, rows: Tensor, loss: str) -> Tensor:
        """L_i: eq. 7, or the cross-entropy to the uniform answer less its smallest value."""
        losses = []
        for logs, codes, weight in self._each(logits, rows):
            if loss == "uniform":
                each = -logs.clamp_min(float(np.log(CLIP))).mean(-1) - float(np.log(logs.shape[-1]))
            else:
                p = logs.exp()
                true = p.gather(-1, codes[:, None])[:, 0]
                each = -(1 - true).clamp_min(CLIP).log() - (1 - p.amax(-1)).clamp_min(CLIP).log()
            losses.append((weight * each).sum())
        return torch.stack(losses).mean()


class _Windows:
    """What both trainings share: windows that teach and windows that judge, and the loss of the autoencoder."""

    def __init__(self, f: AnonymizingAutoencoder, problem: Problem) -> None:
        self.f, self.problem, self.seed = f, problem, problem.seed
        self.device, self.shape = choose_device(f.device), (problem.X.shape[1], problem.X.shape[2])
        self.betas = f.beta_identity, f.beta_activity, f.beta_distortion
        names = f.regularizers if f.regularize_output else ()
        self.families = [CLASSIFIERS[r] if isinstance(r, str) else r for r in names]
        codes = joint_codes(np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1))
        part = allot(codes, np.array([1 - f.validation, f.validation]), problem.seed, problem.units)
        self.fit_rows, self.validation_rows = np.flatnonzero(part == 0), np.flatnonzero(part == 1)

    def fitness(self, identity: Tensor, activity: Tensor, distortion: Tensor) -> Tensor:
        """Eq. 4."""
        return self.betas[0] * identity + self.betas[1] * activity + self.betas[2] * distortion


class AnonymizingGame(_Windows):
    """Encoder and decoder against EncReg (on the latent) and DecRegs (on the output), with ActReg as their ally."""

    def __init__(self, f: AnonymizingAutoencoder, problem: Problem) -> None:
        super().__init__(f, problem)
        self.noise, device, n_maps = f.noise or 0.0, self.device, f.n_maps
        self.X = torch.as_tensor(problem.X[self.fit_rows], dtype=torch.float32, device=device)
        self.targets = Heads(problem.targets, self.fit_rows, device, balanced=False)
        self.sensitive = Heads(problem.sensitive, self.fit_rows, device, balanced=True)
        self.typical: Tensor | None = None
        if self.families and len(problem.sensitive) and len(problem.targets):  # REP starts as its paper does
            kinds = joint_codes(problem.targets.codes[self.fit_rows])
            means = [problem.X[self.fit_rows[kinds == k]].mean(axis=0) for k in range(kinds.max() + 1)]
            self.typical = torch.as_tensor(np.stack(means), dtype=torch.float32, device=device)
            self.kinds = torch.as_tensor(kinds, device=device)
        self.batch_size = min(choose_batch_size(f.batch_size, len(self.X)), len(self.X))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.encoder = Encoder(self.shape, n_maps, bounded=self.noise > 0).to(device)
            self.decoder = Decoder(self.shape, n_maps).to(device)
            self.act_reg = deep_classifier(self.shape, self.targets.n_out).to(device) if len(problem.targets) else None
            self.enc_reg, self.dec_regs = None, nn.ModuleList()
            if len(problem.sensitive):
                latent = (self.shape[0], ceil(self.shape[1] / 4))
                self.enc_reg = deep_classifier(latent, self.sensitive.n_out).to(device)
                self.dec_regs = nn.ModuleList(make(self.shape, self.sensitive.n_out) for make in self.families)
                self.dec_regs.to(device)
        # What is released is the mean of the last states: in a game the states circle around the solution
        self.average = deepcopy(nn.ModuleList([self.encoder, self.decoder]))
        self.modules: dict[str, nn.Module] = {"encoder": self.encoder, "decoder": self.decoder}
        self.modules |= {"act_reg": self.act_reg} if self.act_reg is not None else {}
        self.modules["average"] = self.average
        self.modules |= {"enc_reg": self.enc_reg, "dec_regs": self.dec_regs} if self.enc_reg is not None else {}
        theirs = [p for name, m in self.modules.items() if name.endswith(("reg", "regs")) for p in m.parameters()]
        self.ours = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.adam_ours = torch.optim.Adam(self.ours, lr=f.learning_rate)
        self.adam_theirs = torch.optim.Adam(theirs, lr=f.learning_rate, weight_decay=1e-5)
        self.follow = 1.0  # how far the average moves towards the newest state

    def begin_from(self, start: Any) -> None:
        """Refine a fitted filter or a bundle, which keeps the activity already."""
        for pair in (nn.Sequential(self.encoder, self.decoder), self.average):
            load_start(start, pair)
        self.typical = None

    def result(self) -> nn.Sequential:
        """The mean of the last states."""
        return nn.Sequential(*self.average)

    def train(self, **settings: Any) -> list[dict[str, Any]]:
        """Rounds until the adaptive trade-off on validation windows no longer improves; the best state stays.

        `settings` are those of a `Training`.
        """
        epochs = settings["epochs"]
        optimisers = {"autoencoder": self.adam_ours, "regularisers": self.adam_theirs}
        with Training(self.modules, optimisers, label="autoencoder", **settings) as training:
            for epoch in training.epochs():
                self._restart_one(epoch, epochs)
                losses = self._epoch(epoch, epochs, training.rng)
                last = epoch == epochs - 1
                if last or (epoch % CHECK_EVERY == CHECK_EVERY - 1 and epoch >= START * epochs):
                    kept, leaked = self.check()
                    losses |= {"kept": kept, "leaked": leaked}
                    training.record(**losses, score=kept - leaked)
                    scores = [h["score"] for h in training.history if "score" in h]
                    if _stale(scores) >= self.f.patience:
                        break
                else:
                    training.record(**losses)
        return training.history

    def _epoch(self, epoch: int, epochs: int, rng: np.random.Generator) -> dict[str, float]:
        for module in self.modules.values():
            module.train()
        late = max(0.0, (epoch / epochs - SETTLE) / (1 - SETTLE))
        self.adam_ours.param_groups[0]["lr"] = self.f.learning_rate * (1 - 0.9 * late)
        starting = self.typical is not None and epoch < START * epochs
        order = rng.permutation(len(self.X))
        steps = max(1, len(self.X) // self.batch_size)
        self.follow = 1 / (1 + min(epoch, AVERAGED) * steps)
        total = torch.zeros(4, device=self.device)
        for step in range(steps):
            for _ in range(1 if starting else self.f.regularizer_steps):
                rows = torch.from_numpy(rng.integers(len(self.X), size=self.batch_size))
                self._regularizers_step(rows.to(self.device))
            rows = torch.from_numpy(order[step * self.batch_size : (step + 1) * self.batch_size])
            total += self._autoencoder_step(rows.to(self.device), starting) / steps
        names = ("loss", "identity_loss", "activity_loss", "distortion")
        return dict(zip(names, total.tolist(), strict=True))

    def _regularizers_step(self, rows: Tensor) -> None:
        """Lines 8 to 10: every regularizer learns from what the autoencoder makes of the raw windows now."""
        with torch.no_grad():
            code, out = self._rebuild(self.X[rows])
        loss = out.new_zeros(()) if self.act_reg is None else self.targets.learn(self.act_reg(out), rows)
        if self.enc_reg is not None:
            loss = loss + self.sensitive.learn(self.enc_reg(code), rows)
            for reg in self.dec_regs:
                loss = loss + self.sensitive.learn(reg(out), rows)
        descend(self.adam_theirs, loss)

    def _autoencoder_step(self, rows: Tensor, starting: bool) -> Tensor:
        """Lines 11 and 12: the regularizers are frozen, the autoencoder descends eq. 4.

        At the start it learns the label-only release instead: every window becomes the mean of its activity.
        Then there is little to remove before the game begins. (Whether that beats a random start is not settled.)
        """
        x = self.X[rows]
        code, out = self._rebuild(x)
        activity = x.new_zeros(()) if self.act_reg is None else self.targets.learn(self.act_reg(out), rows)
        distortion = (x - out).pow(2).mean()  # eq. 6
        identity = x.new_zeros(())
        if starting and self.typical is not None:
            loss = activity + (self.typical[self.kinds[rows]] - out).pow(2).mean()
        else:
            if self.enc_reg is not None and self.betas[0] > 0:
                identity = self.sensitive.hide(self.enc_reg(code), rows, self.f.identity_loss)
                if len(self.dec_regs):
                    hidden = [self.sensitive.hide(reg(out), rows, self.f.identity_loss) for reg in self.dec_regs]
                    identity = identity + torch.stack(hidden).mean()
            loss = self.fitness(identity, activity, distortion)
        descend(self.adam_ours, loss, self.ours)
        with torch.no_grad():
            for mean, p in zip(self.average.parameters(), self.ours, strict=True):
                mean.lerp_(p, self.follow)
        return torch.stack([loss, identity, activity, distortion]).detach()

    def _rebuild(
        self, x: Tensor, encoder: nn.Module | None = None, decoder: nn.Module | None = None
    ) -> tuple[Tensor, Tensor]:
        """The code with its noise, and the window made from it."""
        code = (encoder or self.encoder)(x)
        if self.noise:
            code = code + self.noise * torch.randn_like(code)
        return code, (decoder or self.decoder)(code)

    def _restart_one(self, epoch: int, epochs: int) -> None:
        """One of the DecRegs begins again: the autoencoder must not learn to beat one particular opponent."""
        every = self.f.restart_every
        if every is None or not len(self.dec_regs) or epoch == 0 or epoch % every or epoch > 0.9 * epochs:
            return
        which = (epoch // every - 1) % len(self.dec_regs)
        fresh = self.families[which](self.shape, self.sensitive.n_out).to(self.device)
        self.dec_regs[which].load_state_dict(fresh.state_dict())
        for p in self.dec_regs[which].parameters():
            for moment in self.adam_theirs.state.get(p, {}).values():
                moment.zero_()

    def check(self) -> tuple[float, float]:
        """How well fresh classifiers read both sides off the release: mean balanced accuracy above chance.

        For targets they learn from released training windows and are measured on validation windows. For sensitive
        attributes they learn from the first part of every unit and are measured on its last: a person's few validation
        units may hold what the training units do not (another activity), and then a leak does not show. This chooses a
        state; it is not a figure to quote.
        """
        rng = np.random.default_rng(self.seed)
        some = rng.permutation(len(self.X))[:CHECK_ROWS]
        early, late = self.early_and_late(rng)
        fit, validation = self.fit_rows, self.validation_rows
        # without a target the windows themselves are what is to be kept: the share of their variance that is
        if self.act_reg is not None:
            kept = self._read(self.problem.targets, fit[some], validation)
        else:
            X = torch.as_tensor(self.problem.X[validation], dtype=torch.float32)
            kept = 1 - float((self._released(X).cpu() - X).pow(2).mean() / X.pow(2).mean())
        leaked = self._read(self.problem.sensitive, fit[early[:CHECK_ROWS]], fit[late[:CHECK_ROWS]])
        return kept, leaked

    def early_and_late(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Rows in the first 60 % and the last 30 % of their unit, shuffled; the gap keeps overlapping windows apart."""
        if self.problem.units is None:
            place = rng.random(len(self.X))
        else:
            unit = np.unique(self.problem.units[self.fit_rows], return_inverse=True)[1].ravel()
            order = np.argsort(unit, kind="stable")
            first = np.searchsorted(unit[order], unit[order])
            place = np.empty(len(unit))
            place[order] = (np.arange(len(unit)) - first + 0.5) / np.bincount(unit)[unit[order]]
        return rng.permutation(np.flatnonzero(place < 0.6)), rng.permutation(np.flatnonzero(place >= 0.7))

    def _read(self, labels: Labels, learn: np.ndarray, judge: np.ndarray) -> float:
        """Mean over columns of a fresh classifier's balanced accuracy, scaled so that guessing is 0."""
        if not len(labels):
            return 0.0
        X, Z = (self._released(torch.as_tensor(self.problem.X[r], dtype=torch.float32)) for r in (learn, judge))
        return float(np.mean([self._fresh(X, Z, labels, i, learn, judge) for i in range(len(labels))]))

    def _released(self, X: Tensor) -> Tensor:
        self.average.eval()
        with torch.no_grad():
            return torch.cat([self._rebuild(part.to(self.device), *self.average)[1] for part in X.split(4096)])

    def _fresh(self, X: Tensor, Z: Tensor, labels: Labels, i: int, learn: np.ndarray, judge: np.ndarray) -> float:
        m = labels.n_classes(i)
        codes, truth = labels.codes[learn, i], labels.codes[judge, i]
        known, judged = np.flatnonzero(codes != MISSING), np.flatnonzero(truth != MISSING)
        if len(known) < 2 or not len(judged):
            return 0.0
        attacker = NetworkClassifier(wide_classifier, CHECK_EPOCHS, 128, seed=self.seed + 1, device=self.device)
        attacker.fit(X[torch.from_numpy(known).to(self.device)], codes[known], m)
        guess = attacker.predict_proba(Z[torch.from_numpy(judged).to(self.device)]).argmax(1)
        right = guess == truth[judged]
        recall = np.mean([right[truth[judged] == c].mean() for c in np.unique(truth[judged])])
        return float((recall - 1 / m) / (1 - 1 / m))


def _stale(scores: Sequence[float]) -> int:
    """Checks since the best one."""
    return len(scores) - 1 - int(np.argmax(scores))


COPYING = 4 / 3  # epochs of the first copying for every epoch of a stage: 32 for 24


class PrintedRounds(_Windows):
    """The training as printed (Figure 6): whole trainings in turn, round after round.

    The autoencoder is trained to copy; its code is what EncReg sees first. Then, in every round, EncReg, DecReg and
    ActReg are trained for several epochs, are frozen, and the autoencoder descends eq. 4 for as many. Printed line 12
    feeds it the *output* of the round before, though what it is given when it is used is raw: here it is fed raw
    windows. Early stopping, and that the autoencoder's own stage has none and reads all windows, is as in the authors'
    code.
    """

    def __init__(self, f: AnonymizingAutoencoder, problem: Problem) -> None:
        super().__init__(f, problem)
        shape, device, n_maps = self.shape, self.device, f.n_maps
        self.judge = torch.as_tensor(self.validation_rows, device=device)
        self.X = torch.as_tensor(problem.X, dtype=torch.float32, device=device)
        every = np.arange(len(problem.X))
        self.targets, self.sensitive = (
            Heads(labels, every, device, balanced=False) for labels in (problem.targets, problem.sensitive)
        )
        self.batch_size = min(choose_batch_size(f.batch_size, len(self.X)), len(self.fit_rows))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.copying = nn.Sequential(PrintedEncoder(shape, n_maps), PrintedDecoder(shape, n_maps)).to(device)
            self.autoencoder = nn.Sequential(PrintedEncoder(shape, n_maps), PrintedDecoder(shape, n_maps)).to(
                device
            )  # line 6: it begins again
            self.regularizers: dict[str, tuple[nn.Module, Heads, bool]] = {}  # network, what it reads, on the code
            if len(problem.sensitive):
                latent = (shape[0], ceil(shape[1] / 4))
                self.regularizers["EncReg"] = latent_classifier(latent, self.sensitive.n_out), self.sensitive, True
                for i, make in enumerate(self.families):
                    name = "DecReg" if i == 0 else f"DecReg {i + 1}"
                    self.regularizers[name] = make(shape, self.sensitive.n_out), self.sensitive, False
            if len(problem.targets):
                self.regularizers["ActReg"] = printed_classifier(shape, self.targets.n_out), self.targets, False
            for net, _, _ in self.regularizers.values():
                net.to(device)

    def begin_from(self, start: Any) -> None:
        """Refine a fitted filter or a bundle."""
        load_start(start, self.autoencoder)

    def result(self) -> nn.Sequential:
        """The autoencoder of the last round."""
        return self.autoencoder

    def train(self, **settings: Any) -> list[dict[str, Any]]:
        """Lines 2 to 17; `settings` are those of a `Training`, its epochs those of one stage."""
        self.settings, self.history, self.stages = settings, list[dict[str, Any]](), 0
        self._copy(ceil(COPYING * settings["epochs"]))
        code, out = self._released(self.copying)[0], self.X  # lines 4 and 5
        for number in range(1, (self.f.rounds or 0) + 1):
            for name in self.regularizers:  # lines 8 to 10
                seen = code if self.regularizers[name][2] else out
                self._read(f"round {number}: {name}", name, seen)
            finished = self._hide(f"round {number}: autoencoder")  # lines 11 and 12
            code, out = self._released(self.autoencoder)  # lines 13 and 14
            if not finished:
                break
        self.autoencoder.eval()
        return self.history

    # -- the stages -----------------------------------------------------------------------------

    def _copy(self, epochs: int) -> None:
        """Line 3: raw windows in, raw windows out; the state that copies validation windows best."""
        adam = torch.optim.Adam(self.copying.parameters(), lr=self.f.learning_rate)

        def step(rows: Tensor) -> Tensor:
            loss = (self.copying(self.X[rows]) - self.X[rows]).pow(2).mean()
            descend(adam, loss)
            return loss.detach()

        with self._stage("copying", {"copying": self.copying}, {"adam": adam}, epochs) as training:
            for _ in training.epochs():
                loss = self._epoch(step, self.copying, self.fit_rows, training.rng)
                judged = self.X[self.judge]
                error = float((self._apply(self.copying, judged) - judged).pow(2).mean())
                training.record(stage="copying", loss=loss, validation=error, score=-error)
                if _stale([-h["validation"] for h in training.history]) >= self.f.patience:
                    break
        self.history += training.history

    def _read(self, stage: str, name: str, seen: Tensor) -> None:
        """A regularizer learns from what the autoencoder released, until validation windows are read no better."""
        net, heads, _ = self.regularizers[name]
        adam = torch.optim.Adam(net.parameters(), lr=self.f.learning_rate)

        def step(rows: Tensor) -> Tensor:
            loss = heads.learn(net(seen[rows]), rows)
            descend(adam, loss + penalty(net))
            return loss.detach()

        with self._stage(stage, {name: net}, {"adam": adam}, self.settings["epochs"]) as training:
            for _ in training.epochs():
                loss = self._epoch(step, net, self.fit_rows, training.rng)
                right = heads.right(self._apply(net, seen[self.judge]), self.judge)
                training.record(stage=stage, loss=loss, validation=right)
                if _stale([h["validation"] for h in training.history]) >= self.f.patience:
                    break
        self.history += training.history

    def _hide(self, stage: str) -> bool:
        """The regularizers are frozen, the autoencoder descends eq. 4. False where it was interrupted."""
        ours = list(self.autoencoder.parameters())
        adam = torch.optim.Adam(ours, lr=self.f.learning_rate)

        def step(rows: Tensor) -> Tensor:
            x = self.X[rows]
            code = self.autoencoder[0](x)
            out = self.autoencoder[1](code)
            distortion = (x - out).pow(2).mean()  # eq. 6
            identity, activity = x.new_zeros(()), x.new_zeros(())
            for net, heads, inside in self.regularizers.values():
                if heads is self.sensitive:
                    identity = identity + heads.hide(net(code if inside else out), rows, self.f.identity_loss)
                else:
                    activity = heads.learn(net(out), rows)
            loss = self.fitness(identity, activity, distortion)
            descend(adam, loss, ours)
            return torch.stack([loss, identity, activity, distortion]).detach()

        frozen = {f"frozen {name}": net for name, (net, _, _) in self.regularizers.items()}
        for net in frozen.values():
            net.train()  # what is frozen is the weights: in the authors' code their dropout goes on
        every = np.arange(len(self.X))
        with self._stage(stage, {"autoencoder": self.autoencoder}, {"adam": adam}, self.settings["epochs"]) as training:
            for _ in training.epochs():
                losses = self._epoch(step, self.autoencoder, every, training.rng, 4)
                names = ("loss", "identity_loss", "activity_loss", "distortion")
                training.record(stage=stage, **dict(zip(names, losses, strict=True)))
        self.history += training.history
        return not training.interrupted

    # -- what stages share ----------------------------------------------------------------------

    def _stage(self, stage: str, modules: Mapping[str, nn.Module], optimisers: Mapping[str, Any], epochs: int) -> Any:
        """Every stage is a training with a seed and a checkpoint of its own."""
        self.stages += 1
        seed = int(np.random.SeedSequence((self.seed, self.stages)).generate_state(1)[0])
        path = self.settings["checkpoint"]
        own = {
            "epochs": epochs,
            "seed": seed,
            "checkpoint": None if path is None else f"{path}.stage{self.stages}",
            "identity": f"{self.settings['identity']} {stage}",
            "label": stage,
            "keeps": stage.endswith("autoencoder"),
        }
        return Training(modules, optimisers, **{**self.settings, **own})

    def _epoch(
        self,
        step: Callable[[Tensor], Tensor],
        net: nn.Module,
        rows: np.ndarray,
        rng: np.random.Generator,
        width: int = 0,
    ) -> Any:
        """Whole batches of the rows in random order; the mean losses."""
        net.train()
        order = torch.from_numpy(rows[rng.permutation(len(rows))])
        batches = order.split(self.batch_size)[: len(order) // self.batch_size]
        total = torch.zeros(width or 1, device=self.device)
        for batch in batches:
            total += step(batch.to(self.device)) / len(batches)
        return total.tolist() if width else total.item()

    def _apply(self, net: nn.Module, X: Tensor) -> Tensor:
        net.eval()
        with torch.no_grad():
            return torch.cat([net(part) for part in X.split(4096)])

    def _released(self, autoencoder: nn.Sequential) -> tuple[Tensor, Tensor]:
        """Code and output of all raw windows."""
        code = self._apply(autoencoder[0], self.X)
        return code, self._apply(autoencoder[1], code)
