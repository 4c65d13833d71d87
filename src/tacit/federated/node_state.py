"""A node's game as named arrays: the encoder that travels, and the state that stays and survives the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from tacit.federated.protocol import Arrays, under
from tacit.filters.eigan import Game


def parameters_of(module: nn.Module) -> dict[str, np.ndarray]:
    """All floating-point weights and buffers by name, as arrays of their own."""
    return {
        name: value.detach().cpu().numpy().copy()
        for name, value in module.state_dict().items()
        if value.is_floating_point()
    }


def set_parameters(module: nn.Module, arrays: Arrays) -> None:
    """Write arrays over the weights and buffers of these names, in place: optimisers keep pointing at them."""
    state = module.state_dict()
    with torch.no_grad():
        for name, array in arrays.items():
            state[name].copy_(torch.from_numpy(array))


def game_state(game: Game) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything a game needs to resume with the same bits: weights, optimisers, shuffles, noise, history."""
    arrays: dict[str, np.ndarray] = {}
    for name, module in game.modules.items():
        arrays |= {f"{name}/{k}": v.detach().cpu().numpy().copy() for k, v in module.state_dict().items()}
    for name, optimiser in game.optimisers.items():
        for number, moments in optimiser.state_dict()["state"].items():
            arrays |= {f"{name}/{number}/{k}": torch.as_tensor(v).cpu().numpy() for k, v in moments.items()}
    arrays["batches/left"] = game.batches.left.copy()
    arrays["noise/generator"] = game.generators[0].get_state().numpy()
    return arrays, {"shuffle": game.batches.generators[0].bit_generator.state, "history": game.history[0]}


def restore_game(game: Game, arrays: Arrays, facts: Mapping[str, Any]) -> None:
    """Put a fresh game of the same shape into a state that `game_state` gave."""
    for name, module in game.modules.items():
        module.load_state_dict({k: torch.from_numpy(v) for k, v in under(f"{name}/", arrays).items()})
    for name, optimiser in game.optimisers.items():
        states: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in under(f"{name}/", arrays).items():
            number, word = key.split("/", 1)
            states.setdefault(int(number), {})[word] = torch.from_numpy(np.array(value))
        optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    game.batches.left = arrays["batches/left"]
    game.generators[0].set_state(torch.from_numpy(arrays["noise/generator"]))
    game.batches.generators[0].bit_generator.state = facts["shuffle"]
    game.history[0] = list(facts["history"])


def encoder_of(game: Game) -> nn.Module:
    """The one encoder of a game that is not stacked."""
    assert game.encoders.alone is not None
    return game.encoders.alone
