"""The seventeen layers of DPFE's experiments: tiny darknet as the authors' attribute network has it."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

# (layer, maps, kernel) and the poolings between, in the order of the authors' network; all are padded by 1, the
# kernels of 1 as well, so that those grow the map by two
LAYERS: tuple[tuple[str, int, int] | str, ...] = (
    ("conv1", 16, 3), "pool1", ("conv2", 32, 3), "pool2", ("conv3", 16, 1), "pool3",
    ("conv4_1", 128, 3), ("conv4_2", 16, 1), ("conv4_3", 128, 3), "pool4",
    ("conv5_1", 32, 1), ("conv5_2", 256, 3), ("conv5_3", 32, 1), ("conv5_4", 256, 3), "pool5",
    ("conv6_1", 64, 1), ("conv6_2", 512, 3), ("conv6_3", 64, 1), ("conv6_4", 512, 3),
    ("conv7", 128, 1), ("conv8", 1000, 1),
)  # fmt: skip
CUTS = ("conv4_2", "conv5_1", "conv6_1", "conv7")  # the paper's four
ATTRIBUTES = "attributes"


def tiny_darknet(n_in: tuple[int, ...], n_out: int) -> nn.Sequential:
    """Sixteen convolutions and a dense layer for images (channels, height, width); every layer has the authors' name.

    Poolings round up, as theirs do, so that images from 30x32 pass all five of them.

    Examples
    --------
    >>> net = tiny_darknet((3, 218, 178), 40)
    >>> sum(isinstance(m, nn.Conv2d | nn.Linear) for m in net.modules())
    17
    """
    channels = n_in[0]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in LAYERS:
        if isinstance(layer, str):
            layers[layer] = nn.MaxPool2d(2, ceil_mode=True)
            continue
        name, maps, kernel = layer
        layers[name] = nn.Conv2d(channels, maps, kernel, padding=1)
        layers[name.replace("conv", "norm")] = nn.BatchNorm2d(maps, affine=False)
        layers[name.replace("conv", "relu")] = nn.LeakyReLU(0.1)
        channels = maps
    layers["pooled"] = MaxAndMean()
    layers[ATTRIBUTES] = nn.Linear(2 * channels, n_out)
    return nn.Sequential(layers)


class MaxAndMean(nn.Module):
    """The largest and the mean value of each map, either list scaled to length 1."""

    def forward(self, maps: Tensor) -> Tensor:
        both = (maps.amax(dim=(2, 3)), maps.mean(dim=(2, 3)))
        return torch.cat([nn.functional.normalize(v, dim=1) for v in both], dim=1)


def with_outputs(network: nn.Sequential, rows: list[int]) -> nn.Sequential:
    """The same layers (not copied) with these of its outputs only: an attribute set of a network trained on more.

    Examples
    --------
    >>> with_outputs(tiny_darknet((1, 30, 32), 6), [4, 5])(torch.zeros(2, 1, 30, 32)).shape
    torch.Size([2, 2])
    """
    last = network.get_submodule(ATTRIBUTES)
    assert isinstance(last, nn.Linear)
    fewer = nn.Linear(last.in_features, len(rows))
    with torch.no_grad():
        fewer.weight.copy_(last.weight[rows])
        fewer.bias.copy_(last.bias[rows])
    return nn.Sequential(OrderedDict([*list(network.named_children())[:-1], (ATTRIBUTES, fewer)]))
