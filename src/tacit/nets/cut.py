"""Layer separation: a network cut at a named layer into a client half and a cloud half (DPFE, section 4.1).

A chain (`nn.Sequential`, nested ones opened) is cut between its layers. Any other network is traced by `torch.fx`
and can be cut wherever a single value crosses from what came before to what comes after.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx, nn

from tacit.errors import InputError, InputTypeError
from tacit.nets.forward import forward


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
