"""Layer separation: both halves together are the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from papers.dpfe.decoder import rebuild
from papers.dpfe.tiny_darknet import CUTS, tiny_darknet, with_outputs
from tacit.errors import InputError, InputTypeError
from tacit.nets.convolutional import backbone
from tacit.nets.cut import check_takes, cut_names, cut_network, default_cut


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


def test_the_default_cut_is_the_deepest_that_leaves_the_cloud_weights():
    assert default_cut(backbone((2, 32), 4)) == "relu"
    assert default_cut(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(1))) == "1"
    with pytest.raises(InputError, match="single layer"):
        default_cut(nn.Sequential(nn.Linear(3, 2)))


def test_bad_networks_are_named():
    net = backbone((2, 32), 4)
    with pytest.raises(InputError, match=r"no cut called 'pool9'; did you mean 'pool\d'\? .*conv1, norm1, relu1"):
        cut_network(net, "pool9")
    with pytest.raises(InputError, match=r"Branching is not an nn.Sequential, and torch.fx cannot.*nn.Sequential"):
        cut_names(Branching())
    with pytest.raises(InputTypeError, match="network is a str"):
        cut_names("net")
    with pytest.raises(InputError, match=r"cannot take records of shape \(3, 32\).*Pass records of the shape"):
        check_takes(net, torch.zeros(2, 3, 32))
    with pytest.raises(InputError, match=r"2 inputs \(x, y\)"):
        cut_names(TwoInputs())


class TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y


# -- the authors' network, and networks of other kinds ----------------------------------------------------


def test_the_seventeen_layers_have_the_authors_sizes():
    network = tiny_darknet((3, 218, 178), 40).eval()
    assert [c for c in cut_names(network) if c in CUTS] == list(CUTS)
    client = cut_network(network, "conv4_2").client
    assert tuple(client(torch.zeros(1, 3, 218, 178)).shape) == (1, 16, 31, 26)  # 12,896 numbers in their files
    assert sum(isinstance(m, nn.Conv2d) for m in network.modules()) == 16
    assert network(torch.zeros(2, 3, 218, 178)).shape == (2, 40)


def test_small_images_pass_all_seventeen_layers_and_every_cut_is_the_whole():
    torch.manual_seed(0)
    network, x = tiny_darknet((1, 30, 32), 4).eval(), torch.rand(2, 1, 30, 32)
    assert sum(isinstance(m, nn.MaxPool2d) for m in network.modules()) == 5
    for cut in CUTS:
        halves = cut_network(network, cut)
        assert torch.allclose(halves.cloud(halves.client(x)), network(x), atol=1e-5)
    fewer = with_outputs(network, [2, 3])
    assert torch.allclose(fewer(x), network(x)[:, 2:], atol=1e-6)


class Words(nn.Module):
    """Text or speech: an embedding, a recurrent layer, its last state."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(20, 8), nn.Linear(6, 2)
        self.past = nn.GRU(8, 6, batch_first=True)

    def forward(self, tokens):
        states, _ = self.past(self.words(tokens.long()))
        return self.out(torch.tanh(states[:, -1]))


def test_a_recurrent_network_is_cut_before_and_after_its_recurrent_layer():
    torch.manual_seed(0)
    network, tokens = Words().eval(), torch.randint(20, (5, 7))
    assert {"words", "getitem_2", "tanh"} <= set(cut_names(network))
    for cut in ("words", "getitem_2", "tanh"):
        halves = cut_network(network, cut)
        assert torch.allclose(halves.cloud(halves.client(tokens)), network(tokens))
    client = cut_network(network, "tanh").client
    assert client(tokens).shape == (5, 6)  # a fixed size, whatever the length of the text
    assert client(torch.randint(20, (5, 11))).shape == (5, 6)


def test_rebuilt_images_are_those_that_the_code_shows():
    rng = np.random.default_rng(0)
    shade = rng.random(120)
    images = np.broadcast_to(shade[:, None, None, None], (120, 1, 16, 16)).copy()
    drawn = rebuild(shade[:90, None], images[:90], shade[90:, None], epochs=60)
    assert np.abs(drawn - images[90:]).mean() < 0.08
    blind = rebuild(rng.random((90, 1)), images[:90], rng.random((30, 1)), epochs=60)  # the control: a code of nothing
    assert np.abs(blind - images[90:]).mean() > 0.15
