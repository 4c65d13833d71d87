"""The networks of Figures 4 and 5 of the anonymizing autoencoder's paper, layer by layer.

Pictures do not tell everything. Where the text and the figures leave something open (where the regularizers are
halved, that normalization follows the activation) it is as in the authors' published code.
"""

from __future__ import annotations

from torch import Tensor, nn

Shape = tuple[int, int]  # channels, length
PENALTY = 1e-3  # of the regularizers' squared weights, in their loss


class PrintedEncoder(nn.Module):
    """Figure 4: four 1x3 convolutions over a channels x length picture, halved after the second and the third.

    The sensors never meet in it: every channel is read by the same convolutions.

    Examples
    --------
    >>> import torch
    >>> PrintedEncoder((2, 128))(torch.zeros(3, 2, 128)).shape
    torch.Size([3, 2, 32])
    """

    def __init__(self, shape: Shape, n_maps: int = 100) -> None:
        super().__init__()
        self.padding = -shape[1] % 4
        self.body = nn.Sequential(
            *_block(nn.Conv1d(1, n_maps, 3, padding=1), n_maps),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.Conv1d(n_maps, 1, 3, padding=1),
            nn.BatchNorm1d(1),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.padding:
            x = nn.functional.pad(x, (0, self.padding), mode="replicate")
        return _each_channel(self.body, x)


class PrintedDecoder(nn.Module):
    """Figure 4, the mirror: transposed 1x3 convolutions of strides 1, 2, 2, 1, then one linear map."""

    def __init__(self, shape: Shape, n_maps: int = 100) -> None:
        super().__init__()
        self.length = shape[1]
        self.body = nn.Sequential(
            *_block(nn.ConvTranspose1d(1, n_maps, 3, padding=1), n_maps),
            *_block(nn.ConvTranspose1d(n_maps, n_maps, 3, stride=2, padding=1, output_padding=1), n_maps),
            *_block(nn.ConvTranspose1d(n_maps, n_maps, 3, stride=2, padding=1, output_padding=1), n_maps),
            nn.ConvTranspose1d(n_maps, n_maps, 3, padding=1),
            nn.SELU(),
            nn.Conv1d(n_maps, 1, 3, padding=1),
        )

    def forward(self, code: Tensor) -> Tensor:
        return _each_channel(self.body, code)[..., : self.length]


def printed_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Figure 5 on windows (DecReg and ActReg): halved after every convolution but the first, then 256 and 64.

    Examples
    --------
    >>> import torch
    >>> printed_classifier((2, 128), 24)(torch.zeros(3, 2, 128)).shape
    torch.Size([3, 24])
    """
    return _figure5(shape, n_out, halved=(1, 2, 3, 4), hidden=(256, 64))


def printed_latent_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Figure 5 on the code (EncReg): halved after the third and the fifth convolution, then 128 and 32."""
    return _figure5(shape, n_out, halved=(2, 4), hidden=(128, 32))


def _figure5(shape: Shape, n_out: int, halved: tuple[int, ...], hidden: tuple[int, int]) -> nn.Module:
    """Five 2x5 convolutions of 32 maps, each with dropout .25; dense layers with dropout .5."""
    channels, length = shape
    layers: list[nn.Module] = [nn.Unflatten(1, (1, channels))]
    for i in range(5):
        layers += [nn.ZeroPad2d((2, 2, 0, 1)), nn.Conv2d(1 if i == 0 else 32, 32, (2, 5)), nn.ReLU()]
        if i in halved and length > 1:
            layers.append(nn.MaxPool2d((1, 2)))
            length //= 2
        layers.append(nn.Dropout(0.25))
    layers.append(nn.Flatten())
    width = 32 * channels * length
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(0.5)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, n_out))


def penalty(classifier: nn.Module) -> Tensor:
    """L2 of the paper's regularizers: all weights but those of the last layer, no offsets."""
    layers = [m for m in classifier.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Linear)]
    return PENALTY * sum((m.weight.pow(2).sum() for m in layers[:-1]), layers[-1].weight.new_zeros(()))


def _block(layer: nn.Module, n_maps: int) -> list[nn.Module]:
    return [layer, nn.SELU(), nn.BatchNorm1d(n_maps)]


def _each_channel(body: nn.Module, x: Tensor) -> Tensor:
    """A 1xk convolution of a picture is a convolution of each of its rows by itself."""
    return body(x.flatten(0, 1)[:, None]).unflatten(0, (-1, x.shape[1]))[:, :, 0]
