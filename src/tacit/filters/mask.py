"""TaskMask: reveal the few pixels that the task needs, and hide the rest.

Implements the adversarial task mask (the task-mask paper, IEEE 2021, section II): a U-Net scores every pixel,
the top K % are shown to a predictor, the others to an obfuscator that shares the predictor's weights. Needs
labels of the task only. Beyond the paper: what is released are the pixels under a *hard* mask, so their values
do not carry the mask's confidence; the predictor trains on hard masks too (gradients pass through the soft
scores), so it is trained on what is released; exactly K % of the pixels are revealed in every image; training
starts from the whole image and closes to K %; and each place of the image has a learned score of its own, for
each class of the task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import Filter, Knob, Problem
from tacit.filters.masking import AT_ONCE, MaskGame, top_k
from tacit.filters.mechanism import Learned
from tacit.filters.notes import note
from tacit.filters.out_of_fold import release_by_folds
from tacit.filters.registry import register_filter
from tacit.labels import MISSING
from tacit.noise.support import Finite
from tacit.records.pixels import check_images, check_region
from tacit.training.stack import choose_device

FOLDS = 3  # trainings that release_training_rows costs

Factory = Callable[[Any, int], nn.Module]


@register_filter("mask", modality="images", offered=False, examples=[{"keep": 0.25, "epochs": 2}])
class TaskMask(Filter):
    """Images in, images out: the same size and units, with all but a share `keep` of the pixels hidden.

    Parameters
    ----------
    keep : the knob, above 0 and up to 1: the share of pixels revealed, the same in every image
    complement : what the obfuscator sees. "paper": (m - m_topK) x, the hidden pixels by their soft scores;
        "rest": (1 - m_topK) x, all that is hidden
    adversarial : False trains masker and predictor alone (the paper's non-adversarial variant)
    class_maps : each class of the task has a map of where to look, and the masker learns to tell the classes. Then
        the mask's *shape* tells most of the answer, and few pixels are enough. False: one map for all, and more is
        left to the pixels, though a shape may still tell much (`tacit.audit` attacks the bare mask). Where people
        are to judge the images, compare with a region that is the same in all of them (`always`)
    always, never : pixels revealed (hidden) in every image: a box (top, left, bottom, right), or booleans
        (height, width). They count towards `keep`
    fill : the value of hidden pixels; None: the training images' mean, per channel
    masker : factory (shape of an image, 1) -> module from images to scores (n, 1, height, width); a U-Net
    predictor : factory (shape of an image, n_out) -> module from images to scores; four convolutions
    augment : function on a batch of training images (a torch tensor, scaled), such as mirror images; it draws from
        torch's generator. More kinds of images teach a mask that holds for images it has not met
    epochs, batch_size, learning_rate : training; batch_size None suits the data
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file that is written after every epoch; a fit that finds it goes on where it stopped

    Attributes
    ----------
    masker_, predictor_ : the trained networks, on images scaled by `fill_` and `scale_`
    history_ : list of dicts: epoch, losses of predictor and obfuscator, and the held-out accuracy through
        the mask, by which the best epoch is kept. They steer training; `tacit.audit` measures what leaks

    Examples
    --------
    >>> import numpy as np, tacit
    >>> digits = tacit.load_dataset("digits")
    >>> images = digits.X[:200].reshape(-1, 1, 8, 8)
    >>> f = tacit.TaskMask(keep=.25, epochs=6, random_state=0).fit(images, digits.y.iloc[:200])
    >>> f.transform(images).shape, set(f.mask(images).sum(axis=(1, 2, 3)).tolist())
    ((200, 1, 8, 8), {16})
    """

    refuse = staticmethod(check_images)
    knob = Knob("keep", utility_rises=True, values=(0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5))

    def __init__(
        self,
        keep: float = 0.2,
        *,
        complement: str = "rest",
        adversarial: bool = True,
        class_maps: bool = True,
        always: Any = None,
        never: Any = None,
        fill: float | None = None,
        masker: Factory | None = None,
        predictor: Factory | None = None,
        augment: Callable[[Tensor], Tensor] | None = None,
        epochs: int = 30,
        batch_size: int | None = None,
        learning_rate: float = 3e-3,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.keep = keep
        self.complement = complement
        self.adversarial = adversarial
        self.class_maps = class_maps
        self.always = always
        self.never = never
        self.fill = fill
        self.masker = masker
        self.predictor = predictor
        self.augment = augment
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.checkpoint = checkpoint

    def mask(self, X: Any) -> np.ndarray:
        """The bare masks, (n, 1, height, width): True where a pixel is revealed. Their shape is information too."""
        check_is_fitted(self)
        code: Any = self.mechanism_.learned.code
        return code.masks(self.mechanism_.schema.encode(X))

    def _as_given(self, checked: Any) -> bool:
        # revealed pixels leave as they came, to the last bit: the networks scale them, the release does not
        return True

    def _learn(self, problem: Problem) -> Learned:
        self._check_parameters()
        size = problem.X.shape[2:]
        self._always = check_region(self.always, size, "always")
        self._never = check_region(self.never, size, "never")
        self.n_revealed_ = self._count_revealed(size)
        scaling: Any = problem.scaling
        self.scale_ = scaling.scale
        self.fill_ = scaling.mean if self.fill is None else np.full_like(scaling.mean, self.fill)
        game = MaskGame(self, problem)
        self.history_ = game.train(self.checkpoint)
        self.masker_, self.predictor_ = game.masker.cpu(), game.predictor.cpu()
        self._warn_if_collapsed(problem)
        # two pixels of nearly one score may change places; the others are equal to the last bit
        return Learned(self._revealed(self.masker_), int(np.prod(problem.X.shape[1:])), support=Finite())

    def _revealed(self, masker: nn.Module) -> Revealed:
        return Revealed(masker, self.n_revealed_, self._always, self._never, self.fill_, self.scale_, self.device)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """Each training image masked by a masker that was trained without it (nor its unit)."""

        def learn(part: Problem) -> Any:
            game = MaskGame(self, part)
            game.train(None)
            return self._revealed(game.masker)

        return release_by_folds(problem, learn, FOLDS)

    def _check_parameters(self) -> None:
        check_number("keep", self.keep, 0, 1)
        if self.keep == 0:
            raise InputError("keep must be above 0 and at most 1; found 0, which would reveal nothing")
        if self.complement not in ("paper", "rest"):
            raise InputError(f"complement must be 'paper' or 'rest'; found {self.complement!r}")
        check_number("fill", self.fill, -np.inf, optional=True)
        check_number("epochs", self.epochs, 1, whole=True)
        check_number("batch_size", self.batch_size, 2, whole=True, optional=True)
        check_number("learning_rate", self.learning_rate, 1e-12)
        if self.checkpoint is not None and self.random_state is None:
            raise InputError(
                "checkpoint needs random_state: a training that goes on must draw what the one that stopped would "
                "have drawn; pass a number, such as random_state=0"
            )

    def _count_revealed(self, size: tuple[int, ...]) -> int:
        """round(K h w), and whether the fixed regions leave room for it."""
        pixels = int(np.prod(size))
        wanted = max(1, round(self.keep * pixels))
        shown, hidden = int(self._always.sum()), int(self._never.sum())
        if (self._always & self._never).any():
            row, column = np.argwhere(self._always & self._never)[0]
            raise InputError(f"the pixel in row {row}, column {column} is in both always and never; leave one out")
        if shown > wanted:
            raise InputError(
                f"always has {shown} pixels but keep={self.keep:g} reveals {wanted} of {pixels}; "
                f"raise keep to {shown / pixels:.3f} or more, or make the region smaller"
            )
        if wanted > pixels - hidden:
            raise InputError(
                f"never leaves {pixels - hidden} pixels but keep={self.keep:g} reveals {wanted} of {pixels}; "
                f"lower keep to {(pixels - hidden) / pixels:.3f} or less, or make the region smaller"
            )
        return wanted

    def _warn_if_collapsed(self, problem: Problem) -> None:
        best = max(line["accuracy"] for line in self.history_)
        codes = problem.targets.codes
        guesses = [np.bincount(c[c != MISSING]).max() / (c != MISSING).sum() for c in codes.T]
        if best <= np.mean(guesses) and len(problem.X) >= 100:
            note(
                self,
                f"collapsed: through the mask the task is predicted no better than by its commonest class (held-out "
                f"accuracy {best:.3f}, guessing {np.mean(guesses):.3f}); raise keep (now {self.keep:g}) or "
                f"epochs (now {self.epochs}), or check that the images tell anything about y",
                CollapseWarning,
            )


@dataclass(frozen=True, eq=False)
class Revealed:
    """Images of which the mask shows k pixels, and the rest is filled.

    Attributes
    ----------
    masker : scaled images to scores
    k : pixels that are shown
    always, never : regions that are, and are not
    fill, scale : of each channel
    device : where the masker runs
    """

    masker: nn.Module
    k: int
    always: np.ndarray
    never: np.ndarray
    fill: np.ndarray
    scale: np.ndarray
    device: str

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.where(self.masks(X), X, self.fill)

    def masks(self, X: np.ndarray) -> np.ndarray:
        """True where a pixel is shown."""
        device = choose_device(self.device)
        masker = self.masker.to(device).eval()
        fixed = torch.as_tensor(self.always, device=device), torch.as_tensor(self.never, device=device)
        parts = []
        with torch.no_grad():
            for i in range(0, len(X), AT_ONCE):
                x = torch.as_tensor((X[i : i + AT_ONCE] - self.fill) / self.scale, dtype=torch.float32)
                parts.append(top_k(masker(x.to(device)), self.k, *fixed).cpu().numpy())
        masker.cpu()
        return np.concatenate(parts)

    def graph(self, g: Any, x: str) -> str:
        fill = g.constant("fill", self.fill)
        scaled = g.op("Div", g.op("Sub", x, fill), g.constant("scale", self.scale))
        masks = g.torch(_HardMask(self.masker, self.k, self.always, self.never), scaled, "masker")
        return g.op("Where", g.op("Greater", masks, g.number(0.5)), x, fill)


class _HardMask(nn.Module):
    """Images to masks of zeros and ones, for the exported graph."""

    def __init__(self, masker: nn.Module, k: int, always: np.ndarray, never: np.ndarray) -> None:
        super().__init__()
        self.masker, self.k = masker, k
        self.register_buffer("always", torch.as_tensor(always))
        self.register_buffer("never", torch.as_tensor(never))

    def forward(self, x: Tensor) -> Tensor:
        return top_k(self.masker(x), self.k, self.always.bool(), self.never.bool()).to(x.dtype)  # type: ignore[operator]
