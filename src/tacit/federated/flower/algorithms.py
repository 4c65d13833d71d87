"""The algorithms a federation can run, by their names in `[training]`: built from plain settings and arrays alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import InputError

# what may be set for all nodes: plain numbers and words, no code
CLOSED = ("categories", "min_count")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "DistributedEIGAN": (
        "n_components", "alpha", "share", "sync_every", "sync_unit", "aggregation", "categories", "target_weights",
        "sensitive_weights", "noise", "adversary_steps", "epochs", "batch_size", "learning_rate", "head_lr_factor",
        "random_state",
    ),
    "LinearARL": ("n_components", "lam", *CLOSED),
    "LinearEraser": ("min_frequency", *CLOSED),
    "PersonalMinimax": ("rho", "rounds", "steps", "order", "exchange", "loss", "ridge"),
}  # fmt: skip
OLD = {"fewest": "min_count", "head_speed": "head_lr_factor", "rare": "min_frequency"}  # in settings written before
DEFAULT = "DistributedEIGAN"
START = "start/"


def name_of(settings: Mapping[str, Any]) -> str:
    """The algorithm that settings name; all settings must be its own."""
    name = settings.get("algorithm", DEFAULT)
    if name not in SETTINGS:
        raise InputError(f"[training] algorithm is one of {', '.join(SETTINGS)}; found {name!r}")
    for setting in settings:
        if OLD.get(setting, setting) not in ("algorithm", *SETTINGS[name]):
            raise InputError(f"[training] has no setting {setting!r}; {name} has {', '.join(SETTINGS[name])}")
    return str(name)


def algorithm_of(settings: Mapping[str, Any], start: Any = None) -> Any:
    """The algorithm of these settings, checked; `start` is PersonalMinimax's common filter.

    Examples
    --------
    >>> algorithm_of({"algorithm": "LinearARL", "lam": 0.3})
    ClosedForm(estimator=LinearARL(lam=0.3))
    """
    name = name_of(settings)
    own = {OLD.get(k, k): v for k, v in settings.items() if k != "algorithm"}
    f: Any
    # every message starts a new Python at a node: import what it needs
    if name == "DistributedEIGAN":
        from tacit.federated.distributed_eigan import DistributedEIGAN  # every message starts a new Python at a node

        f = DistributedEIGAN(**own)
    elif name == "PersonalMinimax":
        from tacit.federated.personal import PersonalMinimax  # every message starts a new Python at a node

        f = PersonalMinimax(start, **own)
        if start is None:
            f.check_settings()
            return f
    else:
        from tacit import baselines  # every message starts a new Python at a node
        from tacit.federated.closed_form import ClosedForm

        more = {k: own.pop(k) for k in CLOSED if k in own}
        f = ClosedForm(getattr(baselines, name)(**own), **more)
    f.check_parameters()
    return f


def pack_algorithm(settings: Mapping[str, Any], start: Any = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and arrays that go along with every message, from which a node builds the algorithm."""
    if start is None:
        return {"settings": dict(settings)}, {}
    from tacit.federated.common_start import tell_start  # every message starts a new Python at a node

    told, arrays = tell_start(start)
    return {"settings": dict(settings), "start": told}, {START + k: v for k, v in arrays.items()}


def unpack_algorithm(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The algorithm that `pack_algorithm` told of."""
    if "start" not in facts:
        return algorithm_of(facts["settings"])
    from tacit.federated.common_start import start_of  # every message starts a new Python at a node

    mine = {k.removeprefix(START): v for k, v in arrays.items() if k.startswith(START)}
    return algorithm_of(facts["settings"], start_of(facts["start"], mine))
