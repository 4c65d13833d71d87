"""Section III of the task-mask paper: Tables I and II, Figures 2 and 3.

Table I tells the full run of `protocol.py` on FER+. The paper's second data set (CelebA, hair colour) is
not here: Table II and Figure 2 are on CMU faces, sunglasses kept. Figure 3 is drawn after a short training on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import tacit
from papers.common.mask_figures import draw_masks
from papers.common.pictures import packed, unpacked
from papers.common.recogniser import face_embedding
from papers.common.run import Run
from tacit.audit.likeness import similarity
from tacit.audit.stats import accuracy, balanced_accuracy
from tacit.baselines import BlockMask, BlurMask

from . import protocol

# similarity, accuracy
TABLE_1 = {
    "original": (1.00, 0.9249), "block": (0.16, 0.8134), "blur": (0.35, 0.8778), "CIAGAN": (0.19, 0.8779),
    "DeepPrivacy": (0.26, 0.8801), "task mask, non-adversarial": (0.48, 0.8981), "task mask": (0.20, 0.8864),
}  # fmt: skip
TABLE_2 = {
    "original": (1.00, 0.8901), "block": (0.36, 0.7889), "blur": (0.72, 0.8586), "CIAGAN": (0.31, 0.8557),
    "DeepPrivacy": (0.49, 0.8449), "task mask, non-adversarial": (0.47, 0.8673), "task mask": (0.35, 0.8559),
}  # fmt: skip
MASKS = ("task mask, non-adversarial", "task mask")


def table1(run: Run) -> None:
    """Face similarity and emotion accuracy; then who is named by a network that learned from masked images."""
    found = run.recorded("python -m papers.task-mask.protocol --device cuda --minutes 20", "NVIDIA H200")
    more = [n for n in found if "emotion" in found[n] and n not in TABLE_1]
    for name in [*TABLE_1, *more]:
        printed, of = TABLE_1.get(name, (None, None)), found.get(name)
        label = name if of or name in MASKS else f"{name} (as printed)"
        alike, emotion = (of["similarity"], of["emotion"]) if of else (None, None)
        run.row(label, "similarity to the face", printed[0], of and alike["value"], interval=of and ends(alike))
        run.row(label, "emotion, accuracy", printed[1], of and emotion["value"], interval=of and ends(emotion),
                guessing=of and emotion["guessing"])  # fmt: skip
        if of and "emotion by the bare mask" in of:
            bare = of["emotion by the bare mask"]
            run.row(f"{name}, its bare mask", "emotion, accuracy", None, None, bare["value"], ends(bare), "CNN",
                    bare["guessing"])  # fmt: skip
    for data, kept in (("cmu_faces", "a mask for sunglasses"), ("orl_faces", "FER+'s mask")):
        floor = found[f"{data}, label-only"]["balanced"]
        for what in ("original", "blur", "masked", "bare mask"):
            who = found[f"{data}, {what}"]["identity"]
            run.row(f"{data} ({kept}), {what}", "identity, accuracy", None, None, who["value"], ends(who), "CNN",
                    who["guessing"])  # fmt: skip
            if what != "original":
                release = {
                    "blur": "blur, sigma 2",
                    "masked": f"task mask, keep {found['chosen']['keep']:g}",
                    "bare mask": "task mask, bare mask",
                }
                run.audited(release[what], data, named(found[f"{data}, {what}"]["balanced"], floor))
    chosen = found["chosen"]
    sizes = ", ".join(f"{n:,}" for n in found["settings"]["sizes"])
    run.note(
        f"Fixed on validation images: keep {chosen['keep']:g}, blur of deviation {chosen['sigma']:g}. Images: {sizes} "
        f"(train, validation, test)."
    )


def table2(run: Run) -> None:
    """The same comparison where people are known: the attribute, the similarity, and who it is."""
    of = run.part("cmu_faces", on_faces, run.settings)
    for name, printed in TABLE_2.items():
        if name not in of["figures"]:
            run.row(f"{name} (as printed)", "similarity to the face", printed[0])
            run.row(f"{name} (as printed)", "attribute, accuracy", printed[1])
            continue
        alike, kept, who = (of["figures"][name][k] for k in ("similarity", "kept", "identity"))
        run.row(name, "similarity to the face", printed[0], alike[0], interval=alike[1:3])
        run.row(name, "attribute, accuracy", printed[1], kept[0], interval=kept[1:3], guessing=kept[3])
        run.row(name, "identity, accuracy", None, None, who[0], who[1:3], "CNN", who[3])
        label = {k: measure(v) for k, v in of["label_only"].items()}
        audit = named(measure(of["figures"][name]["balanced"]), label["identity"], {"sunglasses": measure(kept)})
        run.audited(name, "cmu_faces", {**audit, "label_only_utility": {"sunglasses": label["kept"]}})
    run.figure("fig2", drawn(of["shown"]))


def fig3(run: Run) -> None:
    """Masks at reduced size: to be looked at; the full figures are Table I's."""
    of = run.part("fer_plus", on_emotions, run.settings)
    for name, figures in of["figures"].items():
        printed = TABLE_1[name]
        run.row(
            name, "similarity to the face", printed[0], figures["similarity"][0], interval=figures["similarity"][1:3]
        )
        run.row(name, "emotion, accuracy", printed[1], figures["kept"][0], interval=figures["kept"][1:3],
                guessing=figures["kept"][3])  # fmt: skip
    run.figure("fig3", drawn(of["shown"]))


EXPERIMENTS: dict[str, Callable[[Run], None]] = {"table1": table1, "table2": table2, "fig3": fig3}


# -- the work ------------------------------------------------------------------------------------------


def on_faces(s: dict[str, Any]) -> dict[str, Any]:
    """A third of the images for the masks; of the others half for the networks trained afresh, half for the test."""
    data = tacit.load_dataset("cmu_faces")
    train, fresh = data.split((0.34, 0.66), random_state=0)
    if s["rows"] < len(train):
        train = train.take(np.arange(s["rows"]))
        fresh = fresh.take(np.arange(2 * s["rows"]))
    half = np.random.default_rng(0).permutation(len(fresh)) < len(fresh) // 2
    labels = {"kept": codes(fresh.y["sunglasses"]), "identity": codes(fresh.sensitive["person"])}
    releases = masks(train, s, batch=32)
    return {**compared(releases, fresh.X, labels, half, train.X, s), "label_only": label_only(train, fresh, half, s)}


def label_only(train: tacit.Dataset, fresh: tacit.Dataset, half: np.ndarray, s: dict[str, Any]) -> dict[str, Any]:
    """The answer about sunglasses alone, by a network that learned from the masks' own third of the images."""
    worn = codes(train.y["sunglasses"])
    answer = protocol.fresh_network(train.X, worn, [fresh.X], s["network_epochs"], torch.device("cpu"), True)[0]
    kept = accuracy(codes(fresh.y["sunglasses"])[~half], answer[~half])
    return {"kept": list(kept), "identity": list(protocol.label_leak(answer, fresh.sensitive["person"].to_numpy()))}


def on_emotions(s: dict[str, Any]) -> dict[str, Any]:
    """A few images of the official parts: the masks and the fresh network learn from the same ones, as in Table I."""
    train, _, test = tacit.load_dataset("fer_plus").split("official")
    rng = np.random.default_rng(0)
    train, test = (d.take(np.sort(rng.permutation(len(d))[: s["rows"]])) for d in (train, test))
    X = np.concatenate([train.X, test.X])
    labels = {"kept": codes(np.concatenate([train.y["emotion"], test.y["emotion"]]))}
    return compared(masks(train, s, batch=64), X, labels, np.arange(len(X)) < len(train), train.X, s)


def masks(train: tacit.Dataset, s: dict[str, Any], batch: int) -> dict[str, Any]:
    releases: dict[str, Any] = {"original": None, "blur": BlurMask(s["sigma"]), "block": BlockMask()}
    for name in MASKS:
        f = tacit.TaskMask(
            s["keep"],
            adversarial=name == "task mask",
            epochs=s["epochs"],
            batch_size=batch,
            random_state=0,
            device="cpu",
        )
        releases[name] = f.fit(train.X, train.y)
    return releases


def compared(
    releases: Mapping[str, Any], X: np.ndarray, labels: Mapping[str, np.ndarray], half: np.ndarray, faces: np.ndarray,
    s: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Similarity, centred on other faces, and what a fresh network tells; images of the test half to look at."""
    embed, cpu = face_embedding(device="cpu"), torch.device("cpu")
    most = s["embedded"]
    centre = embed(faces[:most]).mean(axis=0)
    test = X[~half]
    some = np.linspace(0, min(len(test), 200) - 1, 5).astype(int)
    before = embed(test[:most])
    figures: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    for name, release in releases.items():
        out = (X if release is None else release.transform(X)).astype(np.float32)
        alike = similarity(lambda e: e - centre, before, embed(out[~half][:most]))
        figures[name] = {"similarity": list(alike)}
        for label, y in labels.items():
            guess = protocol.fresh_network(out[half], y[half], [out[~half]], s["network_epochs"], cpu, label == "kept")[
                0
            ]
            figures[name][label] = list(accuracy(y[~half], guess))
            if label == "identity":
                figures[name]["balanced"] = list(balanced_accuracy(y[~half], guess, int(y.max()) + 1))
        shown[name] = {"images": packed(out[~half][some])}
        if name in MASKS:
            shown[name]["mask"] = packed(release.mask(test[some]))
    return {"figures": figures, "shown": shown}


def codes(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels), return_inverse=True)[1]


# -- telling it ---------------------------------------------------------------------------------------


class Shown:
    """Images released before, for `draw_masks`."""

    def __init__(self, of: Mapping[str, Any]) -> None:
        self.of = of
        if "mask" in of:
            self.mask = lambda X: unpacked(of["mask"])

    def transform(self, X: Any) -> np.ndarray:
        return unpacked(self.of["images"])


def drawn(shown: Mapping[str, Any]) -> Any:
    """Original, blur, block, non-adversarial, ours; with the bare masks beside."""
    short = {"task mask, non-adversarial": "non-adversarial", "task mask": "task mask"}
    releases = {short.get(n, n): Shown(of) for n, of in shown.items() if n != "original"}
    figure = draw_masks(unpacked(shown["original"]["images"]), releases)
    for image in (i for axis in figure.axes for i in axis.images):
        image.set_interpolation("none")  # kept at its own few pixels, so that the file is small
    return figure


def ends(measure: Mapping[str, float]) -> tuple[float, float]:
    return measure["low"], measure["high"]


def measure(values: Any) -> dict[str, float]:
    return dict(zip(("value", "low", "high", "guessing"), values, strict=True))


def named(who: Mapping[str, float], floor: Mapping[str, float], utility: Mapping[str, Any] | None = None) -> Any:
    """The honest columns, as an audit gives them: a network trained afresh on the released images."""
    return {
        "utility": dict(utility or {}),
        "leakage": {"person": {**who, "by": "CNN"}},
        "certificate": {},
        "label_only": {"person": floor},
        "label_only_utility": {},
    }
