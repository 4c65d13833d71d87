"""Who takes part in EIGAN's game, and what each weighs: networks of encoder, allies and adversaries; eq. 3 and 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from torch import nn

from tacit.errors import InputError
from tacit.filters.base import Problem
from tacit.labels import Labels
from tacit.nets.mlp import mlp
from tacit.nets.pieces import cut_into_pieces
from tacit.noise.fit_privacy import DP

Factory = Callable[[Any, int], nn.Module]


class GameSettings(Protocol):
    """What a game reads of the filter that it is played for: parameters of `EIGAN`."""

    n_components: int
    equation: int
    target_weights: Sequence[float] | Mapping[str, float] | None
    sensitive_weights: Sequence[float] | Mapping[str, float] | None
    noise: float | None
    n_bins: int | None
    adversary_steps: int
    encoder_first: bool
    balanced: bool
    encoder: Factory | None
    target_head: Factory | None
    sensitive_head: Factory | None
    bounded: bool
    dropout: float
    weight_decay: float
    head_lr_factor: float
    dp: DP | None
    batch_size: int | None
    learning_rate: float
    device: str

    @property
    def planned_epochs(self) -> int: ...


def head_weights(f: GameSettings, targets: Labels, sensitive: Labels, alpha: float) -> np.ndarray:
    """alpha_A and alpha_V of eq. 3, in the order of the columns; they sum to 1 (those of eq. 4 do not)."""
    keep = _given(f.target_weights, targets, "target_weights")
    hide = _given(f.sensitive_weights, sensitive, "sensitive_weights")
    if keep is not None and hide is not None:
        return np.concatenate([keep, hide]) / (keep.sum() + hide.sum())
    if f.equation == 4:
        if keep is not None or hide is not None:
            raise InputError("equation=4 weighs all targets alike: give both weights, or none")
        return np.concatenate([np.ones(len(targets)), np.full(len(sensitive), alpha)])
    # one side given alone shares out its part of alpha
    keep = np.ones(len(targets)) if keep is None else keep
    hide = np.ones(len(sensitive)) if hide is None else hide
    alpha = 1.0 if not len(hide) else alpha if len(keep) else 0.0
    return np.concatenate([alpha * keep / max(keep.sum(), 1e-12), (1 - alpha) * hide / max(hide.sum(), 1e-12)])


def _given(weights: Any, labels: Labels, name: str) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        missing = [c for c in labels.names if c not in weights]
        if missing or len(weights) != len(labels):
            raise InputError(f"{name} must name the columns {', '.join(labels.names)}; found {', '.join(weights)}")
        weights = [weights[c] for c in labels.names]
    out = np.asarray(weights, dtype=float)
    if out.shape != (len(labels),) or not (out > 0).all():
        raise InputError(f"{name} needs one positive number for each of {', '.join(labels.names)}; found {weights!r}")
    return out


def networks(f: GameSettings) -> tuple[Factory, Factory, Factory]:
    """Factories of encoder, target heads and sensitive heads."""
    return (
        f.encoder or partial(one_hidden, dropout=f.dropout),
        f.target_head or partial(head, dropout=f.dropout),
        f.sensitive_head or partial(head, dropout=f.dropout),
    )


def encoder_maker(f: GameSettings, problem: Problem) -> Callable[[], nn.Module]:
    """What makes an encoder for these records."""
    make, code = networks(f)[0], f.n_components
    if f.n_bins is None:
        return lambda: make(problem.n_in, code)
    if not isinstance(problem.n_in, int):
        raise InputError(f"n_bins={f.n_bins} is for tables; records here have the shape {problem.n_in}: leave it out")
    pieces = cut_into_pieces(problem.X, f.n_bins)
    return lambda: nn.Sequential(pieces, make(pieces.n_out, code))


def answers(labels: Labels, column: int) -> int:
    """How many outputs a head has: one a class, or one for a number."""
    return labels.n_classes(column) if labels.number(column) is None else 1


def one_hidden(n_in: Any, n_out: int, dropout: float = 0.0) -> nn.Module:
    return mlp(n_in, n_out, hidden=(128,), dropout=dropout)


def head(n_in: Any, n_out: int, dropout: float = 0.0) -> nn.Module:
    return mlp(n_in, n_out, hidden=(64, 64), dropout=dropout)


def linear_map(n_in: Any, n_out: int) -> nn.Module:
    """Encoder and heads of the paper on Adult."""
    return mlp(n_in, n_out, hidden=())
