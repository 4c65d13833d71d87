"""Stacks of networks: one training loop serves one game or hundreds.

A small game leaves a machine idle, and a user never wants one game but a curve. `Stack` holds G
networks of the same shape as ordinary modules whose parameters carry a leading axis G;
`torch.func` runs them as one. Adam works coordinate by coordinate and the loss is summed over
games, so every game trains exactly as it would alone.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from tacit.errors import InputError, TacitWarning

GUESSED_MEMORY = 2**31  # bytes
CACHED = 32  # games: a larger stack leaves a CPU's caches, and its pages are mapped anew at every step


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

    def parameters(self) -> list[Tensor]:
        return list(self.alone.parameters()) if self.alone is not None else list(self.params.values())

    def __call__(self, x: Tensor) -> Tensor:
        """Run game g on x[g]: (G, batch, ...) -> (G, batch, n_out)."""
        if self.alone is not None:
            return self.alone(x[0]).unsqueeze(0)

        def run(params: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
            return functional_call(self.skeleton, (params, buffers), (inputs,))

        return vmap(run, randomness="different")(self.params, self.buffers, x)

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


def can_stack(module: nn.Module) -> bool:
    """Whether networks like this train in a stack as they would alone: no state of batches, no randomness inside."""
    apart = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.modules.rnn.RNNBase)
    return not any(isinstance(m, apart) for m in module.modules())


def games_that_fit(nets: Sequence[nn.Module], inputs: Sequence[Tensor], batch_size: int, device: torch.device) -> int:
    """How many games of these networks half of the free memory holds, roughly; at least one, on a CPU at most `CACHED`.

    A parameter is there six times (itself, its gradient, Adam's two moments, two copies on the way), an activation
    four times. `inputs` are one or two records for each network.
    """
    parameters, activations = 0, 0

    def count(module: nn.Module, given: object, out: object) -> None:
        nonlocal activations
        activations += out.numel() // out.shape[0] if isinstance(out, Tensor) else 0

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for net, x in zip(nets, inputs, strict=True):
            parameters += sum(p.numel() for p in net.parameters())
            activations += x[0].numel()
            hooks = [m.register_forward_hook(count) for m in net.modules() if not list(m.children())]
            net.eval()(x)
            for hook in hooks:
                hook.remove()
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _free_memory()
    fitting = max(1, int(free / 2 / (4 * (6 * parameters + 4 * batch_size * activations))))
    return fitting if device.type == "cuda" else min(fitting, CACHED)


def _free_memory() -> int:
    """Bytes that are free; a modest guess where the system does not say (macOS, Windows)."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return GUESSED_MEMORY


class Batches:
    """Shuffled mini-batches, one order per game; games with the same seed see the same batches."""

    def __init__(self, n_rows: int, batch_size: int, seeds: Sequence[int]) -> None:
        self.n_rows, self.batch_size = n_rows, min(batch_size, n_rows)
        distinct, self.which = np.unique(np.asarray(seeds), return_inverse=True)
        self.generators = [np.random.default_rng((int(seed), 77)) for seed in distinct]
        self.per_epoch = max(1, self.n_rows // self.batch_size)
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


def choose_device(device: str) -> torch.device:
    """ "auto" takes a GPU when there is one; a GPU asked for where there is none falls back to the CPU and says so."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda'; found {device!r}") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        warnings.warn(f"device={device!r}, but PyTorch finds no GPU here; the CPU is used", TacitWarning, stacklevel=2)
        return torch.device("cpu")
    return chosen


def choose_batch_size(batch_size: int | None, n_rows: int) -> int:
    """The user's batch size, or one that gives small data at least some 30 steps an epoch."""
    return batch_size if batch_size is not None else int(np.clip(n_rows // 32, 32, 512))
