"""Training steps as CUDA graphs: hundreds of small kernels are launched as one where shapes are static."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tacit.errors import TacitWarning

WARM_UP = 3  # eager steps before the capture: libraries choose their kernels, optimisers make their state


def replayed(
    step: Callable[..., Any], draw: Callable[[], tuple[Tensor, ...]], device: torch.device
) -> Callable[[], Any]:
    """A function that draws (on the CPU) and steps (on the device), through a CUDA graph where there is one.

    Every call is a true step: the first few run eagerly, then the step is captured (which runs nothing) and replayed.
    What it returns is overwritten by the next call. Where capturing fails, training continues eagerly, with a warning.

    Examples
    --------
    >>> total = torch.zeros(1)
    >>> go = replayed(lambda x: total.add_(x), lambda: (torch.ones(1),), torch.device("cpu"))
    >>> [go().item() for _ in range(3)]
    [1.0, 2.0, 3.0]
    """
    if device.type != "cuda":
        return lambda: step(*(drawn.to(device) for drawn in draw()))
    return Replay(step, draw, device)


class Replay:
    """See `replayed`."""

    def __init__(self, step: Callable[..., Any], draw: Callable[[], tuple[Tensor, ...]], device: torch.device) -> None:
        self.step, self.draw, self.device = step, draw, device
        self.calls, self.eager = 0, False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.stream = torch.cuda.Stream(device)

    def __call__(self) -> Any:
        drawn = tuple(d.pin_memory() for d in self.draw())
        self.calls += 1
        if self.graph is None and self.calls > WARM_UP and not self.eager:
            self._capture(drawn)
        if self.graph is not None:
            for static, now in zip(self.inputs, drawn, strict=True):
                static.copy_(now, non_blocking=True)
            self.graph.replay()
            return self.outputs
        # warming up happens beside the main stream, as a capture will
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            out = self.step(*(d.to(self.device, non_blocking=True) for d in drawn))
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return out

    def _capture(self, drawn: tuple[Tensor, ...]) -> None:
        self.inputs = tuple(d.to(self.device) for d in drawn)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.outputs = self.step(*self.inputs)
        except RuntimeError as error:
            self.eager = True
            torch.cuda.synchronize(self.device)
            reason = str(error).splitlines()[0]
            warnings.warn(f"the step cannot be a CUDA graph ({reason}); training continues without", TacitWarning, 2)
        else:
            self.graph = graph
