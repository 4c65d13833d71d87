"""Stacks of networks: one training loop serves one game or hundreds.

A small game leaves a machine idle, and a user never wants one game but a curve. `Stack` holds G
networks of the same shape as ordinary modules whose parameters carry a leading axis G;
`torch.func` runs them as one. Adam works coordinate by coordinate and the loss is summed over
games, so every game trains exactly as it would alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


class Stack:
    """G networks made by one factory, each from its own seed.

    Examples
    --------
    >>> import torch
    >>> from tacit.nets.mlp import mlp
    >>> stack = Stack(lambda: mlp(4, 2), seeds=[0, 1, 2])
    >>> stack(torch.zeros(3, 5, 4)).shape
    torch.Size([3, 5, 2])
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        seeds: Sequence[int],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            modules = []
            for seed in seeds:
                torch.manual_seed(seed)
                modules.append(make().to(device=device, dtype=dtype))
        self.size = len(modules)
        self.alone = modules[0] if self.size == 1 else None  # one game needs no stacking: any module will do
        if self.alone is None:
            params, self.buffers = stack_module_state(modules)
            self.params: dict[str, Tensor] = {name: nn.Parameter(value.detach()) for name, value in params.items()}
            self.skeleton = copy.deepcopy(modules[0]).to("meta")
            self.plain = is_plain(self.skeleton)

    @property
    def learned(self) -> nn.Module:
        """All that a checkpoint must carry, as one module."""
        return self.alone if self.alone is not None else nn.ParameterList(self.parameters())

    def parameters(self) -> list[Tensor]:
        return list(self.alone.parameters()) if self.alone is not None else list(self.params.values())

    def __call__(self, x: Tensor) -> Tensor:
        """Run game g on x[g]: (G, batch, ...) -> (G, batch, n_out). One x, (1, batch, ...), serves all games."""
        if self.alone is not None:
            return self.alone(x[0]).unsqueeze(0)
        if self.plain:
            return self._layers(x)
        x = x.expand(self.size, *x.shape[1:])

        def run(params: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
            return functional_call(self.skeleton, (params, buffers), (inputs,))

        return vmap(run, randomness="different")(self.params, self.buffers, x)

    def _layers(self, x: Tensor) -> Tensor:
        """The same for linear layers and rectifiers alone, without a function's overhead; one x is one product."""
        for name, layer in self.skeleton.named_children():
            if isinstance(layer, nn.ReLU):
                x = torch.relu(x)
                continue
            weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
            if len(x) < self.size:
                flat = nn.functional.linear(x[0], weight.flatten(0, 1), bias.flatten())
                x = flat.unflatten(1, (self.size, -1)).transpose(0, 1)
            else:
                x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
        return x

    def train(self, mode: bool = True) -> None:
        (self.alone if self.alone is not None else self.skeleton).train(mode)

    def module(self, game: int) -> nn.Module:
        """Game g's network as an ordinary module on the CPU, ready for use."""
        if self.alone is not None:
            return copy.deepcopy(self.alone).cpu().eval()
        module = copy.deepcopy(self.skeleton).to_empty(device="cpu").to(dtype=next(iter(self.params.values())).dtype)
        state = {**self.params, **self.buffers}
        module.load_state_dict({name: value[game].detach().cpu() for name, value in state.items()})
        return module.eval()


def is_plain(module: nn.Module) -> bool:
    """Whether a network is nothing but linear layers and rectifiers, one after the other."""
    layers = list(module.children()) if isinstance(module, nn.Sequential) else []
    return bool(layers) and all(
        isinstance(m, nn.ReLU) or (isinstance(m, nn.Linear) and m.bias is not None) for m in layers
    )


def can_stack(module: nn.Module) -> bool:
    """Whether networks like this train in a stack as they would alone: no state of batches, no randomness inside."""
    apart = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.modules.rnn.RNNBase)
    return not any(isinstance(m, apart) for m in module.modules())


class Batches:
    """Shuffled mini-batches, one order per game; games with the same seed see the same batches."""

    def __init__(self, n_rows: int, batch_size: int, seeds: Sequence[int]) -> None:
        self.n_rows, self.batch_size = n_rows, min(batch_size, n_rows)
        distinct, self.which = np.unique(np.asarray(seeds), return_inverse=True)
        self.generators = [np.random.default_rng((int(seed), 77)) for seed in distinct]
        self.per_epoch = self.n_rows // self.batch_size
        self.left = np.empty((len(distinct), 0), dtype=np.int64)

    def draw(self) -> Tensor:
        """The next batch of row numbers, (G, batch); a new shuffle begins when one is used up."""
        return self.draw_distinct()[self.which]

    def draw_distinct(self) -> Tensor:
        """The same once per distinct seed, in ascending order: (S, batch). Game g's is row ``which[g]``."""
        if self.left.shape[1] < self.batch_size:
            self.left = np.stack([g.permutation(self.n_rows) for g in self.generators])
        now, self.left = self.left[:, : self.batch_size], self.left[:, self.batch_size :]
        return torch.from_numpy(now)
