"""`as_printed()` of each paper's filter has the settings that the paper states, and takes changes.

What these settings do is tested with each filter.
"""

from __future__ import annotations

import pytest
from sklearn.base import clone

import tacit

STATED = {
    tacit.MinimaxFilter: {
        "rho": 1.0, "solver": "kiwiel", "ridge": 1e-6, "init": "gaussian", "ally_model": "solved",
        "standardise": False, "max_iter": 200,
    },
    tacit.EIGAN: {
        "balanced": False, "encoder_first": True, "adversary_steps": 1, "noise": None, "n_bins": None,
    },
    tacit.AnonymizingAutoencoder: {
        "identity_loss": "paper", "noise": None, "codes": None, "validation": 0.2, "batch_size": 128,
        "beta_identity": 1, "beta_activity": 2, "beta_distortion": 0.01, "rounds": 4, "patience": 6, "epochs": 24,
        "n_maps": 100,
    },
    tacit.TaskMask: {"soft": True, "class_maps": False, "complement": "paper", "augment": None},
    tacit.baselines.PrivatePLS: {"centre": False, "standardise": False},
}  # fmt: skip
CHANGES = {
    tacit.MinimaxFilter: {"rho": 2.0},
    tacit.EIGAN: {"epochs": 7, "weight_decay": 0.0},
    tacit.AnonymizingAutoencoder: {"epochs": 3},
    tacit.TaskMask: {"epochs": 3},
    tacit.baselines.PrivatePLS: {},
}


@pytest.mark.parametrize("kind", STATED, ids=lambda kind: kind.__name__)
def test_as_printed_has_the_settings_of_the_paper_and_takes_changes(kind):
    printed = kind.as_printed().get_params()
    assert {name: printed[name] for name in STATED[kind]} == STATED[kind]
    changed = kind.as_printed(**CHANGES[kind])
    assert {name: changed.get_params()[name] for name in CHANGES[kind]} == CHANGES[kind]
    assert clone(changed).get_params() == changed.get_params()


def test_eigan_as_printed_trains_with_dropout_and_weight_decay():
    f = tacit.EIGAN.as_printed()
    assert f.dropout > 0
    assert f.weight_decay > 0
