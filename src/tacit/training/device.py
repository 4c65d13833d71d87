"""Where a training runs, in batches of which size, and how many games at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from tacit.errors import InputError, TacitWarning

GUESSED_MEMORY = 2**31  # bytes
CACHED = 32  # games: a larger stack leaves a CPU's caches, and its pages are mapped anew at every step


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


@contextmanager
def searched_kernels(device: torch.device) -> Iterator[None]:
    """On a GPU let cuDNN try its kernels, and leave its setting as it was.

    By its rule of thumb it takes FFTs for the gradients of short 1-d convolutions, five times slower.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


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
