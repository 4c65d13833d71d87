"""TaskMask: reveal the few pixels that the task needs, and hide the rest.

Implements the adversarial task mask (the task-mask paper, IEEE 2021, section II): a U-Net scores every pixel,
the top K % are shown to a predictor, the others to an obfuscator that shares the predictor's weights. Needs
labels of the task only. Exactly K % of the pixels are revealed in every image, under a *hard* mask, so their values
do not carry the mask's confidence. `TaskMask.as_printed()` trains as the paper does. Beyond the paper, by default:
the predictor trains on hard masks too (gradients pass through the soft scores), so it is trained on what is released;
training starts from the whole image and closes to K %; and each place of the image has a learned score of its own,
for each class of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import (
    FEW_FOLDS,
    Knob,
    Problem,
    TrainedFilter,
    check_training,
    release_by_folds,
    training_settings,
)
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING
from tacit.nets.convolutional import image_classifier, plain_classifier, slim_classifier
from tacit.nets.forward import forward
from tacit.nets.top_k import HardMask, Smooth, top_k
from tacit.nets.unet import Masker, plain_masker, slim_masker
from tacit.noise.keyed import Finite
from tacit.records.dataset import cross_folds
from tacit.records.pixels import check_images, check_region
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.loop import Training, column_losses, descend

PREDICTOR_BATCHES = 3  # for one batch of the obfuscator (section II-B)
HELD_OUT = 10  # one image in this many judges which state is best
AT_ONCE = 256  # images released at a time

Factory = Callable[[Any, int], nn.Module]


@register_filter("mask", modality="images", offered=False, examples=[{"keep": 0.25, "epochs": 2}])
@dataclass(eq=False, repr=False)
class TaskMask(TrainedFilter):
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
    soft : True trains as in print, on m_topK x: the revealed pixels times their soft scores. False: on hard masks,
        which is what is released; gradients pass through the soft scores
    narrowing : share of the epochs over which the mask closes from the whole image to `keep`. 0, as in print: never
        open. A mask at random shows too little to learn from
    temperature : the soft scores are sigmoid(scores / temperature): low, they are nearly 0 or 1
    smooth : deviation in pixels of a Gaussian over the scores, before the top K % are taken: regions that people can
        look at, for scattered pixels. 0, as in print: none
    always, never : pixels revealed (hidden) in every image: a box (top, left, bottom, right), or booleans
        (height, width). They count towards `keep`
    fill : the value of hidden pixels; None: the training images' mean, per channel
    masker : factory (shape of an image, 1) -> module from images to scores (n, 1, height, width); a U-Net
    predictor : factory (shape of an image, n_out) -> module from images to scores; four convolutions
    augment : function on a batch of training images (a torch tensor, scaled), such as mirror images; it draws from
        torch's generator. More kinds of images teach a mask that holds for images it has not met
    epochs, batch_size, learning_rate : training; batch_size None suits the data
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file that is written after every epoch; a fit that finds it resumes where it stopped

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

    keep: float = 0.2
    _: KW_ONLY
    complement: str = "rest"
    adversarial: bool = True
    class_maps: bool = True
    soft: bool = False
    narrowing: float = 0.5
    temperature: float = 1.0
    smooth: float = 0.0
    always: Any = None
    never: Any = None
    fill: float | None = None
    masker: Factory | None = None
    predictor: Factory | None = None
    augment: Callable[[Tensor], Tensor] | None = None
    epochs: int = 30
    learning_rate: float = 3e-3

    @classmethod
    def as_printed(cls, **settings: Any) -> Self:
        """The paper's own training (section II): a U-Net alone, one map for all classes, no class head.

        Soft top-K scores in training, complement (m - m_topK) x, three predictor batches for one of the obfuscator,
        a shared predictor without dropout, hidden pixels black. Not stated in print, so ours: K, the U-Net's widths,
        Adam, its rate and epochs. Released under a hard mask.

        Parameters
        ----------
        settings : over the printed ones, by their names

        Examples
        --------
        >>> f = TaskMask.as_printed(keep=.25, epochs=4, random_state=0)
        >>> f.soft, f.class_maps, f.complement, f.narrowing
        (True, False, 'paper', 0.0)
        """
        printed = {
            "complement": "paper",
            "class_maps": False,
            "soft": True,
            "narrowing": 0.0,
            "fill": 0.0,
            "masker": plain_masker,
            "predictor": plain_classifier,
        }
        return cls(**{**printed, **settings})

    @classmethod
    def for_photos(cls, **settings: Any) -> Self:
        """A mask for a few hundred photos on two cores: half the widths, few epochs, regions that people can look at.

        One map for all classes, so that annotators judge the image and not the masker. Give images of 64x64 pixels
        (`tacit.read_images(folder, size=64)` scales photos of any sizes).

        Parameters
        ----------
        settings : over these, by their names

        Examples
        --------
        >>> TaskMask.for_photos(keep=.1).epochs
        20
        """
        few = {
            "class_maps": False,
            "smooth": 2.0,
            "masker": slim_masker,
            "predictor": slim_classifier,
            "epochs": 20,
            "batch_size": 32,
        }
        return cls(**{**few, **settings})

    def mask(self, X: Any) -> np.ndarray:
        """The bare masks, (n, 1, height, width): True where a pixel is revealed. Their shape is information too."""
        check_is_fitted(self)
        code: Any = self.mechanism_.code
        return code.masks(self.mechanism_.schema.encode(X))

    def _as_given(self, checked: Any) -> bool:
        # revealed pixels leave as they came, to the last bit: the networks scale them, the release does not
        return True

    def _learn(self, problem: Problem) -> Mechanism:
        self._check_parameters()
        size = problem.X.shape[2:]
        self._always = check_region(self.always, size, "always")
        self._never = check_region(self.never, size, "never")
        self.n_revealed_ = self._count_revealed(size)
        scaling: Any = problem.scaling
        self.scale_ = scaling.scale
        self.fill_ = scaling.mean if self.fill is None else np.full_like(scaling.mean, self.fill)
        game = MaskGame(self, problem)
        self.history_ = game.train()
        self.masker_, self.predictor_ = game.masker.cpu(), game.predictor.cpu()
        self._warn_if_collapsed(problem)
        # two pixels of nearly one score may change places; the others are equal to the last bit
        return Mechanism(self._revealed(self.masker_), int(np.prod(problem.X.shape[1:])), support=Finite())

    def _revealed(self, masker: nn.Module) -> Revealed:
        net = HardMask(masker, self.n_revealed_, self._always, self._never, self.smooth)
        return Revealed(net, self.fill_, self.scale_, self.device)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """Each training image masked by a masker that was trained without it (nor its unit)."""

        def learn(part: Problem) -> Any:
            game = MaskGame(self, part)
            game.train()
            return self._revealed(game.masker)

        return release_by_folds(problem, learn, FEW_FOLDS)

    def _check_parameters(self) -> None:
        check_number("keep", self.keep, 0, 1)
        if self.keep == 0:
            raise InputError("keep must be above 0 and at most 1; found 0, which would reveal nothing")
        if self.complement not in ("paper", "rest"):
            raise InputError(f"complement must be 'paper' or 'rest'; found {self.complement!r}")
        check_number("fill", self.fill, -np.inf, optional=True)
        check_number("narrowing", self.narrowing, 0, 1)
        check_number("temperature", self.temperature, 1e-6)
        check_number("smooth", self.smooth, 0)
        check_training(self, min_batch=2)

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
    net : scaled images to masks of zeros and ones
    fill, scale : of each channel
    device : where the masker runs
    """

    net: HardMask
    fill: np.ndarray
    scale: np.ndarray
    device: str

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.where(self.masks(X), X, self.fill)

    def masks(self, X: np.ndarray) -> np.ndarray:
        """True where a pixel is shown."""
        scaled = lambda part: (part - self.fill) / self.scale  # noqa: E731
        return forward(self.net, X, AT_ONCE, choose_device(self.device), scaled) > 0.5

    def graph(self, g: Any, x: str) -> str:
        fill = g.constant("fill", self.fill)
        scaled = g.op("Div", g.op("Sub", x, fill), g.constant("scale", self.scale))
        masks = g.torch(self.net, scaled, "masker")
        return g.op("Where", g.op("Greater", masks, g.number(0.5)), x, fill)


class MaskGame:
    """Masker, predictor and obfuscator in training (section II)."""

    def __init__(self, f: TaskMask, problem: Problem) -> None:
        self.f, self.problem, self.device = f, problem, choose_device(f.device)
        shape, targets = problem.X.shape[1:], problem.targets
        self.widths = [len(c) for c in targets.classes]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.told_kinds = f.class_maps and f.masker is None
            self.masker = f.masker(shape, 1) if f.masker else Masker(shape, self.widths if f.class_maps else (1,))
            self.masker.to(self.device)
            self.smooth = Smooth(f.smooth).to(self.device)
            self.predictor = (f.predictor or image_classifier)(shape, sum(self.widths)).to(self.device)
        self.X = torch.as_tensor((problem.X - f.fill_) / f.scale_, dtype=torch.float32, device=self.device)
        self.y = torch.as_tensor(targets.codes, device=self.device)
        self.fixed = (
            torch.as_tensor(f._always, device=self.device),
            torch.as_tensor(f._never, device=self.device),
        )
        both = [*self.masker.parameters(), *self.predictor.parameters()]
        self.adam = torch.optim.Adam(both, lr=f.learning_rate)
        # the masker's steps against the obfuscator have moments of their own
        self.adam_obfuscator = torch.optim.Adam(self.masker.parameters(), lr=f.learning_rate)
        folds = cross_folds(targets.codes, HELD_OUT, problem.seed, problem.units)
        enough = len(problem.X) >= 4 * HELD_OUT  # else every image must both teach and judge
        self.learn, self.judge = (
            (np.flatnonzero(folds > 0), np.flatnonzero(folds == 0)) if enough else (np.arange(len(problem.X)),) * 2
        )
        self.n_revealed, self.n_allowed = f.n_revealed_, int((~f._never).sum())
        self.batch_size = min(choose_batch_size(f.batch_size, len(self.learn)), len(self.learn))

    def masks(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The soft mask m = sigmoid(scores), and the hard top K % (ranked before the sigmoid, which would tie)."""
        scores = self.smooth(scores)
        return torch.sigmoid(scores / self.f.temperature), top_k(scores.detach(), self.n_revealed, *self.fixed)

    def shown(self, soft: Tensor, hard: Tensor) -> Tensor:
        """What the predictor sees the image through: m_topK as printed, or the hard mask."""
        # hard forwards, soft backwards: each pixel learns whether showing it would have helped
        return soft * hard if self.f.soft else hard.float() + soft - soft.detach()

    def predictor_step(self, rows: Tensor) -> Tensor:
        """L_Predictor: masker and predictor learn the task from the revealed pixels."""
        x, y = self._images(rows), self.y[rows]
        learnt = torch.zeros((), device=self.device)
        if self.told_kinds:
            scores, kinds = self.masker.scores_and_kinds(x)  # type: ignore[operator]
            learnt = column_losses(kinds, y, self.widths).mean()
        else:
            scores = self.masker(x)
        soft, hard = self.masks(scores)
        loss = column_losses(self.predictor(self.shown(soft, hard) * x), y, self.widths).mean()
        descend(self.adam, loss + learnt)
        return loss.detach()

    def obfuscator_step(self, rows: Tensor) -> Tensor:
        """L_Obfuscator: the masker alone learns to make the hidden pixels say nothing (cross-entropy to uniform)."""
        x = self._images(rows)
        soft, hard = self.masks(self.masker(x))
        hidden = soft * ~hard if self.f.complement == "paper" else (~hard).float() - soft + soft.detach()
        # not training: else the hidden pixels would enter the shared weights' running means
        self.predictor.eval()
        loss = uniform_loss(self.predictor(hidden * x), self.widths)
        self.predictor.train()
        descend(self.adam_obfuscator, loss)
        return loss.detach()

    def train(self) -> list[dict[str, Any]]:
        f, steps = self.f, max(1, len(self.learn) // self.batch_size)
        modules = {"masker": self.masker, "predictor": self.predictor}
        optimisers = {"adam": self.adam, "obfuscator": self.adam_obfuscator}
        with Training(modules, optimisers, label="TaskMask", **training_settings(f, self.problem)) as training:
            for epoch in training.epochs():
                self._set_rate(f.learning_rate * (1 + np.cos(np.pi * epoch / f.epochs)) / 2)
                self.n_revealed = self.revealed_at(epoch)
                self.masker.train()
                self.predictor.train()
                order = training.rng.permutation(self.learn)
                kept, hidden = [], []
                for i in range(steps):
                    rows = order[i * self.batch_size : (i + 1) * self.batch_size]
                    kept.append(self.predictor_step(torch.as_tensor(rows, device=self.device)))
                    if f.adversarial and (i + 1) % PREDICTOR_BATCHES == 0:
                        rows = training.rng.choice(self.learn, self.batch_size, replace=False)
                        hidden.append(self.obfuscator_step(torch.as_tensor(rows, device=self.device)))
                losses = {"predictor": float(torch.stack(kept).mean())}
                losses |= {"obfuscator": float(torch.stack(hidden).mean())} if hidden else {}
                losses["accuracy"] = self.accuracy()
                # of epochs that are equally accurate the last: the mask has had longer to close
                training.record(score=losses["accuracy"] + 1e-9 * epoch, **losses)
        return training.history

    @torch.no_grad()
    def accuracy(self) -> float:
        """Of the predictor on held-out images under the hard mask; over targets, the mean."""
        self.n_revealed = self.f.n_revealed_
        self.masker.eval()
        self.predictor.eval()
        right, known = 0.0, 0.0
        for part in np.array_split(self.judge, -(-len(self.judge) // AT_ONCE)):
            rows = torch.as_tensor(part, device=self.device)
            x, y = self.X[rows], self.y[rows]
            soft, hard = self.masks(self.masker(x))
            scores = self.predictor((soft * hard if self.f.soft else hard) * x)
            guesses = torch.stack([s.argmax(1) for s in scores.split(self.widths, dim=1)], dim=1)
            right += float((guesses == y).sum())
            known += float((y != MISSING).sum())
        return right / max(known, 1.0)

    def revealed_at(self, epoch: int) -> int:
        """Pixels shown in this epoch: all at first, K % from `narrowing` of the epochs on.

        A mask at random shows too little for the predictor to learn from, and without a predictor the masker
        learns nothing: so the predictor meets the whole image first, and the mask closes on what it uses.
        """
        pixels, closing = self.n_allowed, self.f.narrowing * self.f.epochs
        share = min(1.0, epoch / closing) if closing else 1.0
        return round(pixels + share * (self.f.n_revealed_ - pixels))

    def _images(self, rows: Tensor) -> Tensor:
        x = self.X[rows]
        return x if self.f.augment is None else self.f.augment(x)

    def _set_rate(self, rate: float) -> None:
        for optimiser in (self.adam, self.adam_obfuscator):
            for group in optimiser.param_groups:
                group["lr"] = rate


def uniform_loss(scores: Tensor, widths: Sequence[int]) -> Tensor:
    """-sum_i 1/N log y_o,i: lowest where the prediction is uniform over the N classes."""
    return torch.stack([-torch.log_softmax(head, 1).mean() for head in scores.split(list(widths), dim=1)]).mean()
