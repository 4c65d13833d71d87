"""Layer separation: a network cut at a named layer into a client half and a cloud half (DPFE, section 4.1).

A chain (`nn.Sequential`, nested ones opened) is cut between its layers. Any other network is traced by `torch.fx`
and can be cut wherever a single value crosses from what came before to what comes after.
"""

from __future__ import annotations

import copy
import difflib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, fx, nn

from tacit.errors import InputError, InputTypeError, check_number
from tacit.nets.forward import forward

BYTES = 4  # of a number in single precision, on the device and on the wire


class Halves(NamedTuple):
    """What runs on the person's device and what runs in the cloud: ``cloud(client(x))`` is the whole network."""

    client: nn.Module
    cloud: nn.Module


def cut_names(network: nn.Module) -> list[str]:
    """The layers after which the network can be cut, in the order in which a record passes them.

    Examples
    --------
    >>> cut_names(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    ['0', '1']
    """
    return [name for name, _ in _places(network)[1]]


def cut_network(network: nn.Module, name: str) -> Halves:
    """Cut after the named layer. Both halves are copies: the network itself is left alone.

    Parameters
    ----------
    network : an `nn.Sequential`, or any network with one input that `torch.fx` can trace
    name : one of `cut_names`

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> client, cloud = cut_network(net, "1")
    >>> x = torch.ones(3, 4)
    >>> client(x).shape, bool((cloud(client(x)) == net(x)).all())
    (torch.Size([3, 8]), True)
    """
    form, places = _places(network)
    where = dict(places)
    if name not in where:
        near = difflib.get_close_matches(str(name), where, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"the network has no cut called {name!r}; {hint}it can be cut after {', '.join(where)}")
    # copied in one go, so that a weight used on both sides stays one weight
    if isinstance(form, fx.GraphModule):
        form = copy.deepcopy(form)
        return _cut_graph(form, where[name])
    layers = copy.deepcopy(form)
    at = where[name] + 1
    return Halves(nn.Sequential(dict_of(layers[:at])), nn.Sequential(dict_of(layers[at:])))


def default_cut(network: nn.Module) -> str:
    """The deepest cut that leaves the cloud something to do: higher layers lose more of what is not the task."""
    for name in reversed(cut_names(network)):
        if any(True for _ in cut_network(network, name).cloud.parameters()):
            return name
    raise InputError("the network has a single layer, so it cannot be cut; put a hidden layer before its output")


def cost_of_cuts(network: nn.Module, example: Tensor, repeats: int = 5) -> pd.DataFrame:
    """What each cut asks of the person's device, and what it sends (DPFE, section 6.4).

    Parameters
    ----------
    example : one or several records; costs are per record, times are of one record at a time on one thread

    Returns
    -------
    One row a cut, the last one ("all") being the whole network on the device. Columns: ``cut``; ``values`` and
    ``bytes`` sent (single precision, before any reduction of dimension); ``parameters`` and ``multiply_adds``
    (of convolutions and dense layers) and ``memory`` (bytes: parameters, and the largest input with its output)
    of the client half; ``milliseconds``, the median of `repeats` passes. The cuts take turns, so that a machine that is
    busy for a while slows all of them alike.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> cost_of_cuts(net, torch.ones(1, 4))[["cut", "bytes", "parameters", "multiply_adds"]].values.tolist()
    [['0', 32, 40, 32], ['1', 32, 40, 32], ['all', 8, 58, 48]]
    """
    check_number("repeats", repeats, 1, whole=True)
    check_takes(network, example)
    clients = {name: cut_network(network, name).client for name in cut_names(network)} | {"all": network}
    took = _milliseconds(list(clients.values()), example[:1], repeats)
    rows = [{"cut": n, **_cost(c, example[:1])} for n, c in clients.items()]
    return pd.DataFrame([{**row, "milliseconds": t} for row, t in zip(rows, took, strict=True)])


def check_takes(network: nn.Module, example: Tensor) -> Tensor:
    """The network's output for the example; an error that shows the record's shape where it cannot take it."""
    was_training = network.training
    try:
        with torch.no_grad():
            return network.eval()(example)
    except Exception as error:
        raise InputError(
            f"the network cannot take records of shape {tuple(example.shape[1:])}: {error}. Pass records of the shape "
            f"that the network was made for, or a network made for these"
        ) from error
    finally:
        network.train(was_training)


def dict_of(layers: list[tuple[str, nn.Module]]) -> Any:
    """Named layers as nn.Sequential takes them; dots in names are not allowed there."""
    from collections import OrderedDict

    return OrderedDict((name.replace(".", "_"), layer) for name, layer in layers)


# -- where a network can be cut -----------------------------------------------------------------------


def _places(network: nn.Module) -> tuple[Any, list[tuple[str, int]]]:
    """The network as a list of named layers or as a graph, and its cuts as (name, position)."""
    if not isinstance(network, nn.Module):
        raise InputTypeError(f"network is a {type(network).__name__}; pass a torch.nn.Module")
    if isinstance(network, nn.Sequential) and type(network).forward is nn.Sequential.forward:
        layers = list(_open(network))
        return layers, [(name, i) for i, (name, _) in enumerate(layers[:-1])]
    graph = _trace(network)
    nodes = list(graph.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    if len(inputs) != 1:
        raise InputError(f"the network has {len(inputs)} inputs ({', '.join(map(str, inputs))}); only one can be cut")
    return graph, list(_single_crossings(nodes))


def _open(network: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    for name, layer in network.named_children():
        if isinstance(layer, nn.Sequential) and type(layer).forward is nn.Sequential.forward:
            yield from _open(layer, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", layer


def _trace(network: nn.Module) -> fx.GraphModule:
    was_training = network.training
    try:
        return fx.symbolic_trace(network.eval())
    except Exception as error:
        raise InputError(
            f"{type(network).__name__} is not an nn.Sequential, and torch.fx cannot trace it ({error}); "
            f"write it as an nn.Sequential of its stages, or without branches that depend on the data"
        ) from error
    finally:
        network.train(was_training)


def _single_crossings(nodes: list[fx.Node]) -> Iterator[tuple[str, int]]:
    """Positions after which nothing but that node's own value is used (weights are fetched on either side)."""
    last_use = {n: max((nodes.index(u) for u in n.users), default=-1) for n in nodes}
    output = next(n for n in nodes if n.op == "output")
    taken: set[str] = set()
    for i, node in enumerate(nodes):
        if node.op in ("placeholder", "get_attr", "output") or output in node.users:
            continue
        crossing = [n for n in nodes[: i + 1] if last_use[n] > i and n.op != "get_attr"]
        if crossing == [node]:
            name = str(node.target) if node.op == "call_module" and str(node.target) not in taken else node.name
            taken.add(name)
            yield name, i


def _cut_graph(whole: fx.GraphModule, at: int) -> Halves:
    nodes = list(whole.graph.nodes)
    client, cloud = fx.Graph(), fx.Graph()
    here: dict[fx.Node, fx.Node] = {}
    for node in nodes[: at + 1]:
        here[node] = client.node_copy(node, lambda n: here[n])
    client.output(here[nodes[at]])
    there = {nodes[at]: cloud.placeholder("code")}
    for node in nodes[: at + 1]:
        if node.op == "get_attr":
            there[node] = cloud.node_copy(node, lambda n: there[n])
    for node in nodes[at + 1 :]:
        there[node] = cloud.node_copy(node, lambda n: there[n])
    halves = Halves(fx.GraphModule(whole, client), fx.GraphModule(whole, cloud))
    for half in halves:
        half.graph.eliminate_dead_code()  # type: ignore[union-attr, operator]
        half.delete_all_unused_submodules()  # type: ignore[operator]
        half.recompile()  # type: ignore[operator]
    return halves


# -- what a half costs --------------------------------------------------------------------------------


def _cost(client: nn.Module, record: Tensor) -> dict[str, float]:
    seen = {"multiply_adds": 0, "largest": 0}

    def watch(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        seen["multiply_adds"] += _multiply_adds(layer, out)
        seen["largest"] = max(seen["largest"], given[0].numel() + out.numel())

    leaves = [m for m in client.modules() if not list(m.children())]
    hooks = [m.register_forward_hook(watch) for m in leaves]
    try:
        sent = check_takes(client, record).numel()
    finally:
        for hook in hooks:
            hook.remove()
    parameters = sum(p.numel() for p in client.parameters())
    return {
        "values": sent,
        "bytes": sent * BYTES,
        "parameters": parameters,
        "multiply_adds": seen["multiply_adds"],
        "memory": (parameters + seen["largest"]) * BYTES,
    }


def _multiply_adds(layer: nn.Module, out: Tensor) -> int:
    """Of one record through a convolution or a dense layer: every output number is a dot product."""
    weight = getattr(layer, "weight", None)
    if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d) and isinstance(weight, Tensor):
        return out.numel() * weight[0].numel()
    return 0


def _milliseconds(clients: list[nn.Module], record: Tensor, repeats: int) -> list[float]:
    """The median of each one's passes, in turns: one after the other would time the machine's moods."""
    threads, took = torch.get_num_threads(), np.empty((repeats, len(clients)))
    torch.set_num_threads(1)
    was_training = [c.training for c in clients]
    try:
        with torch.no_grad():
            for client in clients:
                client.eval()(record)  # the first pass also allocates
            for i in range(repeats):
                for j, client in enumerate(clients):
                    began = time.perf_counter()
                    client(record)
                    took[i, j] = time.perf_counter() - began
    finally:
        torch.set_num_threads(threads)
        for client, training in zip(clients, was_training, strict=True):
            client.train(training)
    return [1000 * float(t) for t in np.median(took, axis=0)]


PCA_ROWS = 8192


class LinearCode(nn.Module):
    """``decoder(encoder(h))``: the cut layer's output, of any shape, through a code of few normalized numbers.

    Normalizing fixes the code's total spread, without which the contrastive loss would shrink or blow it up
    (DPFE, theorem 8).
    """

    def __init__(self, shape: tuple[int, ...], n_components: int) -> None:
        super().__init__()
        width = int(np.prod(shape))
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(width, n_components), nn.BatchNorm1d(n_components, affine=False)
        )
        self.decoder = nn.Sequential(nn.Linear(n_components, width), nn.Unflatten(1, shape))

    @classmethod
    def from_pca(cls, client: nn.Module, X: Tensor, n_components: int, seed: int, name: str) -> LinearCode:
        """Start from the principal components of the client half's output (procedure 1)."""
        chosen = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(X))[:PCA_ROWS]))
        H = forward(client, X[chosen.to(X.device)])
        shape = H.shape[1:]
        flat = H.reshape(len(H), -1)
        if n_components > flat.shape[1]:
            raise InputError(
                f"n_components is {n_components}, but layer {name!r} gives {flat.shape[1]} numbers a record; "
                f"ask for fewer, or cut elsewhere"
            )
        mean = flat.mean(axis=0)
        _, spread, axes = np.linalg.svd(flat - mean, full_matrices=False)
        found = min(n_components, int((spread > 1e-6 * max(spread[0], 1e-12)).sum()))
        V, deviation = axes[:found], spread[:found] / np.sqrt(len(flat))
        if found < n_components:  # fewer directions than asked for: others at random, which the decoder ignores
            others = np.random.default_rng(seed).standard_normal((n_components - found, flat.shape[1]))
            V = np.concatenate([V, others / np.linalg.norm(others, axis=1, keepdims=True)])
        code = cls(shape, n_components)
        deviation = np.concatenate([deviation, np.ones(n_components - found)])
        back = V.T * np.where(np.arange(n_components) < found, deviation, 0)
        given = (
            (code.encoder[1].weight, V),
            (code.encoder[1].bias, -V @ mean),
            (code.encoder[2].running_var, deviation**2),
            (code.decoder[0].weight, back),
            (code.decoder[0].bias, mean),
        )
        with torch.no_grad():
            for parameter, value in given:
                assert isinstance(parameter, Tensor)
                parameter.copy_(torch.as_tensor(value))
        return code
