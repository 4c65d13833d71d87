"""How a filter's training is run, and what its checkpoint belongs to."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np

from tacit.errors import InputError, check_number

UNSHAPED = ("checkpoint", "verbose", "device", "random_state")  # parameters that change no result of a known seed


def check_training(f: Any, min_batch: int = 1) -> None:
    """Refuse parameters with which no training could begin."""
    check_number("epochs", f.epochs, 1, whole=True)
    check_number("batch_size", f.batch_size, min_batch, whole=True, optional=True)
    check_number("learning_rate", f.learning_rate, 1e-12)


def training_settings(f: Any, problem: Any, unread: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `Training` needs to know of a filter with `epochs`, `checkpoint` and `verbose`, on this problem.

    A fold of the problem is kept in a file of its own, beside the checkpoint. `unread` are parameters that training
    does not read: a training resumes where they have changed.
    """
    checkpoint = f.checkpoint
    if checkpoint is not None and f.random_state is None:
        raise InputError(
            "checkpoint needs random_state: a training that resumes must draw what the one that stopped would "
            "have drawn; pass a number, such as random_state=0"
        )
    if checkpoint is not None and problem.fold is not None:
        checkpoint = f"{checkpoint}.fold{problem.fold}"
    return {
        "epochs": f.epochs,
        "seed": problem.seed,
        "checkpoint": checkpoint,
        "identity": "" if checkpoint is None else _identity(f, problem, (*UNSHAPED, *unread)),
        "verbose": f.verbose,
    }


def _identity(f: Any, problem: Any, skip: tuple[str, ...]) -> str:
    """Settings, seed and data in words: a checkpoint of another training is refused."""
    told = {k: _told(v) for k, v in f.get_params(deep=False).items() if k not in skip}
    data = [_told(a) for a in (problem.X, problem.targets.codes, problem.sensitive.codes)]
    data += [_told(a) for labels in (problem.targets, problem.sensitive) for a in labels.numbers if a is not None]
    return json.dumps({"filter": type(f).__name__, **told, "seed": problem.seed, "data": data}, sort_keys=True)


def _told(value: Any) -> str:
    """A setting in words that are the same in another process."""
    if hasattr(value, "state_dict"):  # a network; torch may not be here
        return " ".join([str(value), *(_told(v.detach().cpu().numpy()) for v in value.state_dict().values())])
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
        return f"{value.shape} {digest}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    return re.sub(" at 0x[0-9a-f]+", "", str(getattr(value, "__qualname__", value)))
