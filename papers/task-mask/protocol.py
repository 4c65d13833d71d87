"""How a release of faces is measured: the task by a network trained afresh, the similarity, and who it is.

Every measurement is of one release and one seed (of the mask and of the networks), on one split: masks and networks
learn from training images, settings are chosen on validation images, figures are of test images. Accuracy is that of
*our* network (the paper: FERAtt, SlimCNN), trained on what was released of the training images. Similarity is the
cosine between a recogniser's embeddings (the paper: FaceNet) of a face and of its release, centred on validation faces
so that strangers are at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import tacit
from papers.common.recogniser import face_embedding
from tacit.auditing.likeness import similarity
from tacit.auditing.measurements.baseline import labels_alone
from tacit.auditing.stats import accuracy, balanced_accuracy
from tacit.baselines import BlockMask, BlurMask, Pixelate, RandomMask
from tacit.nets.convolutional import image_classifier
from tacit.training.device import choose_device

CENTRE = 0.75  # of each side: what the block and the blur cover. The paper says "the center" and no size


class Part(NamedTuple):
    """Images (n, channels, height, width), the task's answers as numbers, and who it is where that is known."""

    X: np.ndarray
    y: np.ndarray
    person: Any = None


class Faces(NamedTuple):
    """The parts of a data set.

    Attributes
    ----------
    train : what the masks learn from
    validation : what settings are chosen by, and what similarity is centred on
    test : what is told
    learn : what the networks learn from; None: the training images, as in the paper
    known : images of people who are to be named; None: nobody is
    """

    train: Part
    validation: Part
    test: Part
    learn: Part | None = None
    known: Part | None = None


# -- releases ------------------------------------------------------------------------------------------


def release_of(spec: Mapping[str, Any], seed: int, size: tuple[int, ...], s: Mapping[str, Any]) -> Any:
    """What a row of the settings means: {"kind": "as printed", "keep": 0.3, ...}. None: the original images."""
    more = {k: v for k, v in spec.items() if k not in ("kind", "augment", "pixels")}
    more |= {"fill": None} if spec.get("fill") == "mean" else {}
    training = {
        "epochs": s["epochs"],
        "batch_size": s["batch"],
        "augment": mirror_and_shift if spec.get("augment") else None,
        "random_state": seed,
        "device": s["device"],
    }
    match spec["kind"]:
        case "original":
            return None
        case "block":
            return BlockMask(share=CENTRE)
        case "blur":
            return BlurMask(**{"sigma": blur_deviation(size), "share": CENTRE, **more})
        case "pixelate":
            return Pixelate(**{"share": CENTRE, **more})
        case "random mask":
            return RandomMask(random_state=seed, **more)
        case "as printed":
            return tacit.TaskMask.as_printed(**{**training, **more})
        case "ours":
            return tacit.TaskMask(**{**training, **more})
    raise ValueError(spec["kind"])


def blur_deviation(size: tuple[int, ...]) -> float:
    """By a rule, not by print's similarity: a kernel a third as wide as the centre, its deviation as OpenCV derives it.

    Examples
    --------
    >>> [round(blur_deviation((side, side)), 1) for side in (30, 48, 64)]
    [1.4, 2.0, 2.6]
    """
    edge = round(min(size) * (1 - CENTRE) / 2)
    kernel = (min(size) - 2 * edge) // 3
    kernel -= kernel % 2 == 0  # a kernel is odd
    return 0.3 * ((kernel - 1) * 0.5 - 1) + 0.8


# -- one release measured ------------------------------------------------------------------------------


def validated(faces: Faces, spec: Mapping[str, Any], seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracy and similarity on validation images: what settings are chosen by. No test image is looked at."""
    f = fitted(faces, spec, seed, s)
    released = [shown(f, part.X) for part in (faces.train, faces.validation)]
    guess = fresh_network(released[0], faces.train.y, released[1:], s, seed)[0]
    some = slice(0, s["embedded"])
    alike = likeness(faces, faces.validation.X[some], released[1][some], s)
    return {"accuracy": list(accuracy(faces.validation.y, guess)), "similarity": alike}


def measured(faces: Faces, spec: Mapping[str, Any], seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about one release: kept, similarity, who it is; of a mask also the same of the bare mask."""
    f, learn, known = fitted(faces, spec, seed, s), faces.learn or faces.train, faces.known
    released, test = shown(f, learn.X), shown(f, faces.test.X)
    some = slice(0, s["embedded"])
    out: dict[str, Any] = {
        "kept": list(accuracy(faces.test.y, fresh_network(released, learn.y, [test], s, seed)[0])),
        "similarity": likeness(faces, faces.test.X[some], test[some], s),
    }
    if known is not None:
        out["identity"] = identity(shown(f, known.X), known.person, s, seed)
    if known is not None and f is None:  # the answer alone, by who saw the whole image
        answers = fresh_network(faces.train.X, faces.train.y, [faces.test.X, known.X], s, seed)
        out["label only"] = {
            "kept": list(accuracy(faces.test.y, answers[0])),
            "person": label_leak(answers[1], known.person),
        }
    if isinstance(f, tacit.TaskMask):
        masks = [f.mask(p.X).astype(np.float32) for p in (learn, faces.test)]
        guess = fresh_network(masks[0], learn.y, masks[1:], s, seed)[0]
        out["kept by the bare mask"] = list(accuracy(faces.test.y, guess))
        out["pixels"] = sorted({int(n) for m in masks for n in m.sum(axis=(1, 2, 3))})
        if known is not None:
            out["identity by the bare mask"] = identity(f.mask(known.X).astype(np.float32), known.person, s, seed)
        if seed == 0 and s["drawn"]:
            out["shown"] = shown_pixels(f, faces.test, s["drawn"])
    return out


def fitted(faces: Faces, spec: Mapping[str, Any], seed: int, s: Mapping[str, Any]) -> Any:
    f = release_of(spec, seed, faces.train.X.shape[2:], s)
    return None if f is None else f.fit(faces.train.X, faces.train.y)


def shown(f: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(X if f is None else f.transform(X), dtype=np.float32)


def likeness(faces: Faces, original: np.ndarray, released: np.ndarray, s: Mapping[str, Any]) -> list[float]:
    """Value, interval, and what strangers have, centred on validation faces."""
    embed = face_embedding(faces.validation.X[: s["embedded"]], device=s["device"])
    return list(similarity(np.asarray, embed(original), embed(released)))


def identity(X: np.ndarray, person: np.ndarray, s: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Who it is, by a network trained afresh on half of these images and asked about the others."""
    y = np.unique(person, return_inverse=True)[1]
    half = halves(len(X), seed)
    guess = fresh_network(X[half], y[half], [X[~half]], {**s, "network_epochs": s["naming_epochs"]}, seed, False)[0]
    return {
        "accuracy": list(accuracy(y[~half], guess)),
        "balanced": list(balanced_accuracy(y[~half], guess, int(y.max()) + 1)),
    }


def label_leak(labels: np.ndarray, person: np.ndarray) -> list[float]:
    """Who it is, balanced, by counting the task's answers on half of the images."""
    half = halves(len(labels), 0)
    who = [pd.DataFrame({"person": person[h]}) for h in (half, ~half)]
    parts = [tacit.Dataset(labels[h, None].astype(float), y, y) for h, y in zip((half, ~half), who, strict=True)]
    leaked = labels_alone(parts[0].X, parts[0], parts[1].X, parts[1])[1]["person"]
    return [leaked.value, leaked.low, leaked.high, leaked.guessing]


def halves(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(n) < n // 2


def shown_pixels(f: tacit.TaskMask, test: Part, n: int) -> dict[str, Any]:
    """Count, pixel by pixel, the masks of the first test images of each class, `n` in all, that show it."""
    by_class = [np.flatnonzero(test.y == c)[: -(-n // len(np.unique(test.y)))] for c in np.unique(test.y)]
    masks = np.asarray(f.mask(test.X[np.sort(np.concatenate(by_class)[:n])])).any(axis=1)
    return {"images": len(masks), "rows": [" ".join(map(str, row)) for row in masks.sum(axis=0)]}


def centre(size: tuple[int, int]) -> np.ndarray:
    """The pixels that block and blur cover, as 1."""
    block = BlockMask(share=CENTRE).fit(np.ones((1, 1, *size)))
    return np.asarray(block.transform(np.ones((1, 1, *size)))[0, 0] != 1, float)


# -- the network ---------------------------------------------------------------------------------------


def fresh_network(
    X: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray], s: Mapping[str, Any], seed: int, augment: bool = True
) -> list[np.ndarray]:
    """A network trained afresh on (X, y), the same for every release; its answers on the others."""
    torch.manual_seed(seed)
    rng, device = np.random.default_rng(seed), choose_device(s["device"])
    mean, scale = float(X.mean()), float(X.std()) or 1.0
    x = torch.as_tensor((X - mean) / scale, dtype=torch.float32, device=device)
    labels = torch.as_tensor(y, device=device)
    width = 32 if device.type == "cuda" else 16
    net = image_classifier(X.shape[1:], int(y.max()) + 1, width).to(device)
    batch = min(128 if len(x) > 4000 else 32, len(x))
    epochs, steps = s["network_epochs"], len(x) // batch
    adam = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs * steps)
    for _ in range(epochs):
        net.train()
        order = torch.as_tensor(rng.permutation(len(x)), device=device)
        for i in range(steps):
            rows = order[i * batch : (i + 1) * batch]
            images = mirror_and_shift(x[rows]) if augment else x[rows]
            loss = nn.functional.cross_entropy(net(images), labels[rows], label_smoothing=0.05)
            adam.zero_grad()
            loss.backward()
            adam.step()
            decay.step()
    net.eval()
    answers = []
    with torch.no_grad():
        for Z in others:
            parts = np.array_split(Z, -(-len(Z) // 1024))
            scaled = [torch.as_tensor((p - mean) / scale, dtype=torch.float32, device=device) for p in parts]
            answers.append(np.concatenate([net(p).argmax(1).cpu().numpy() for p in scaled]))
    return answers


def mirror_and_shift(x: Tensor) -> Tensor:
    """Half of the images mirrored, each moved by up to three pixels, with the border repeated."""
    x = torch.where((torch.rand(len(x), device=x.device) < 0.5)[:, None, None, None], x.flip(-1), x)
    padded = nn.functional.pad(x, (3, 3, 3, 3), mode="replicate")
    h, w = x.shape[-2:]
    down, right = torch.randint(7, (2, len(x), 1), device=x.device)
    rows = torch.arange(h, device=x.device) + down
    columns = torch.arange(w, device=x.device) + right
    return padded[
        torch.arange(len(x), device=x.device)[:, None, None], :, rows[:, :, None], columns[:, None, :]
    ].permute(0, 3, 1, 2)
