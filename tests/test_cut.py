"""Layer separation: both halves together are the whole, and every cut's cost is what it is by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tacit.errors import InputError, InputTypeError
from tacit.nets.backbone import backbone
from tacit.nets.cut import cost_of_cuts, cut_names, cut_network, default_cut


class Residual(nn.Module):
    """A skip over two layers, a function call, a bare parameter, and a reshape by the batch's size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.full((4, 1, 1), 0.5))
        self.out = nn.Linear(4 * 36, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        y = torch.relu(self.second(x)) * self.scale
        x = (x + y) * self.scale
        return self.out(x.view(x.size(0), -1))


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


NETWORKS = {
    "rows": (backbone(7, 3), (7,)),
    "windows": (backbone((2, 32), 4), (2, 32)),
    "images": (backbone((1, 12, 10), 2), (1, 12, 10)),
    "nested": (nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Sequential(nn.Linear(5, 2))), (4,)),
    "residual": (Residual(), (1, 6, 6)),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_halves_together_are_the_whole_at_every_cut(kind):
    torch.manual_seed(0)
    network, shape = NETWORKS[kind]
    network.eval()
    x = torch.randn(5, *shape)
    whole = network(x)
    names = cut_names(network)
    assert len(names) == len(set(names)) > 1
    for name in names:
        client, cloud = cut_network(network, name)
        assert torch.equal(cloud(client(x)), whole), name
        assert not torch.equal(client(x).flatten()[:3], whole.flatten()[:3])


def test_only_places_where_one_value_crosses_are_offered():
    # within the skip two values are alive: the input of the sum and the branch
    assert cut_names(NETWORKS["residual"][0]) == ["first", "relu", "add", "mul_1", "view"]
    assert cut_names(NETWORKS["nested"][0]) == ["0.0", "0.1"]


def test_halves_are_copies():
    network = backbone(4, 2)
    before = copy.deepcopy(network.state_dict())
    client, cloud = cut_network(network, "relu1")
    with torch.no_grad():
        for p in [*client.parameters(), *cloud.parameters()]:
            p.add_(1)
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())


def test_the_default_cut_is_the_deepest_that_leaves_the_cloud_weights():
    assert default_cut(backbone((2, 32), 4)) == "relu"
    assert default_cut(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(1))) == "1"
    with pytest.raises(InputError, match="single layer"):
        default_cut(nn.Sequential(nn.Linear(3, 2)))


def test_costs_by_hand():
    net = nn.Sequential(nn.Conv1d(2, 3, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(30, 4))
    table = cost_of_cuts(net, torch.zeros(6, 2, 10), repeats=1).set_index("cut")
    assert list(table.index) == ["0", "1", "2", "all"]
    assert table.loc["0", "bytes"] == 3 * 10 * 4
    assert table.loc["0", "parameters"] == 3 * 2 * 5 + 3
    assert table.loc["0", "multiply_adds"] == 30 * (2 * 5)
    assert table.loc["all", "multiply_adds"] == 300 + 4 * 30
    assert table.loc["all", "parameters"] == 33 + 124
    assert table.loc["all", "values"] == 4
    assert table.loc["0", "memory"] == 4 * (33 + 20 + 30)
    assert (table["milliseconds"] > 0).all()


def test_bad_networks_are_named():
    net = backbone((2, 32), 4)
    with pytest.raises(InputError, match=r"no cut called 'pool9'; did you mean 'pool\d'\? .*conv1, norm1, relu1"):
        cut_network(net, "pool9")
    with pytest.raises(InputError, match=r"Branching is not an nn.Sequential, and torch.fx cannot.*nn.Sequential"):
        cut_names(Branching())
    with pytest.raises(InputTypeError, match="network is a str"):
        cut_names("net")
    with pytest.raises(InputError, match=r"cannot take records of shape \(3, 32\).*Pass records of the shape"):
        cost_of_cuts(net, torch.zeros(2, 3, 32))
    with pytest.raises(InputError, match=r"2 inputs \(x, y\)"):
        cut_names(TwoInputs())


class TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y
