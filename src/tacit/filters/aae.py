"""AnonymizingAutoencoder: sensor windows in, sensor windows out, without who wore the sensor.

Implements "Mobile Sensor Data Anonymization" (Malekzadeh et al. 2019): the fitness of eq. 1 with the losses
of eq. 4 to 7, and the rounds of Figure 6. Beyond the paper: every round reads the *raw* windows, which is what
the filter is given when it is used (theirs reads the round before); regularizers of several families play at
once and are restarted in turn; and convergence is judged by classifiers trained afresh on validation windows,
because a regularizer that has lost the game says nothing about another one. With `codes`, the latent is one of
k cells, eq. 1 is computed exactly, and the release can be certified. `AnonymizingAutoencoder.as_printed()` is the
paper's own: its loss, networks and rounds (`aae_rounds.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.aae_game import AnonymizingGame, Regularizers
from tacit.filters.aae_rounds import PrintedRounds
from tacit.filters.base import Knob, Problem, TrainedFilter
from tacit.filters.codebook import PrototypeOf, typical_records
from tacit.filters.codes import NetworkCode
from tacit.filters.mechanism import Learned
from tacit.filters.notes import note
from tacit.filters.out_of_fold import FEW_FOLDS, Release, release_by_folds, ridge
from tacit.filters.registry import register_filter
from tacit.nets.forward import forward
from tacit.nets.window_nets import CLASSIFIERS, SHORTEST, Factory, code_classifier
from tacit.noise.keyed import Noise, mechanism
from tacit.noise.support import Finite
from tacit.records.windows import check_windows
from tacit.training.device import choose_device
from tacit.training.identity import check_training, training_settings

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

    def _learn(self, problem: Problem) -> Learned:
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
        noise = _noise_inside(code, self.noise, problem.X[:2]) if self.noise else None
        out = code.rebuild(problem.X[:2000], None)
        if out.std(axis=0).max() < 1e-3:
            note(
                self,
                f"collapsed: every window is rebuilt as (nearly) the same one, so the release carries nothing; lower "
                f"beta_identity (now {self.beta_identity}) or raise epochs (now {self.epochs})",
                CollapseWarning,
            )
        return Learned(code, int(np.prod(problem.X.shape[1:])), noise)

    def _play(self, problem: Problem) -> tuple[nn.Sequential, list[dict[str, Any]]]:
        regularizers = Regularizers(
            tuple(CLASSIFIERS[r] if isinstance(r, str) else r for r in self.regularizers)
            if self.regularize_output
            else (),
            self.identity_loss,
            self.regularizer_steps,
            self.restart_every,
        )
        betas = self.beta_identity, self.beta_activity, self.beta_distortion
        common: dict[str, Any] = {
            "n_maps": self.n_maps,
            "validation": self.validation,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "device": choose_device(self.device),
        }
        settings = training_settings(self, problem)
        if self.rounds is not None:
            turns = PrintedRounds(problem, betas, regularizers, rounds=self.rounds, **common)
            if self.start is not None:
                load_start(self.start, turns.autoencoder)
            history = turns.train(self.patience, **settings)
            return turns.autoencoder.cpu().eval(), history
        game = AnonymizingGame(problem, betas, regularizers, noise=self.noise, **common)
        if self.start is not None:
            for pair in (nn.Sequential(game.encoder, game.decoder), game.average):
                load_start(self.start, pair)
            game.typical = None  # what it starts from already keeps the activity
        history = game.train(self.patience, **settings)
        return nn.Sequential(*game.average).cpu().eval(), history

    def _learn_code(self, problem: Problem) -> Learned:
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
        return Learned(PrototypeOf(cells_of, np.asarray(self.prototypes_)), width, support=Finite())

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
        code = self.mechanism_.learned.code
        if not isinstance(code, Rebuilt):
            raise InputError("with codes= the latent is a cell; use transform, whose output is the cell's waveform")
        return code.run(code.autoencoder[0], self.mechanism_.schema.encode(X))

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """Autoencoders trained apart differ in form; each one's output is mapped onto the main one's."""
        code = self.mechanism_.learned.code
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
        code = start.mechanism_.learned.code
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


def _noise_inside(code: Rebuilt, noise: float, some: np.ndarray) -> Noise:
    """Noise that goes in between encoder and decoder; another fit under the same key draws otherwise."""
    width = int(np.prod(code.run(code.autoencoder[0], some).shape[1:]))
    weights = [p.detach().numpy() for p in code.autoencoder[0].parameters()]
    return Noise("normal", float(noise), width, False, mechanism(noise, *weights))


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
