"""The task mask on FER+ (three emotions, official split), and who can still be told on CMU and ORL faces.

    python -m papers.task-mask.protocol --device cuda                 # in full, minutes on a GPU
    python -m papers.task-mask.protocol --rows 1200 --epochs 4        # reduced, on a CPU
    python -m papers.task-mask.protocol --pack carry/data             # only what it reads, for another machine

Emotion: accuracy of a convolutional network trained afresh on the released training images, measured on the
official test part. Similarity: cosine between a recogniser's embeddings of a test face and of its release, centred
on validation faces (guessing: other people's faces), and as printed by the plain embedding. The knob: the
smallest `keep` whose accuracy on the validation part is within ALLOWANCE of the original images' and MARGIN above
the blur's; `blur` is the one whose similarity on validation faces is nearest the paper's. Answers on the test
part are scored once everything is fixed. Identity: a network trained afresh on masked images, and on bare masks,
of the same people. Partial results are written as they come.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import tacit
from papers.common.recogniser import face_embedding
from tacit.audit.floor import labels_alone
from tacit.audit.likeness import similarity
from tacit.audit.stats import Measure, accuracy, balanced_accuracy
from tacit.baselines import BlockMask, BlurMask, Pixelate, RandomMask
from tacit.datasets.faces import winners
from tacit.datasets.store import require
from tacit.nets.convolutional import image_classifier
from tacit.training.device import choose_device

PAPER = {  # Table I: similarity, accuracy
    "original": (1.00, 0.9249),
    "task mask": (0.20, 0.8864),
    "task mask, non-adversarial": (0.48, 0.8981),
    "block": (0.16, 0.8134),
    "blur": (0.35, 0.8778),
    "CIAGAN (quoted)": (0.19, 0.8779),
    "DeepPrivacy (quoted)": (0.26, 0.8801),
}
KEEPS = (0.1, 0.2, 0.3, 0.4, 0.5)
SIGMAS = (1.0, 1.5, 2.0, 3.0, 4.0)
ALLOWANCE = 0.03  # of accuracy on validation, so that 4 points on test are likely
MARGIN = 0.005  # above the blur on validation


class Faces:
    """FER+ in three parts, the embeddings, and the measurements on them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device, self.began = options, choose_device(options.device), time.perf_counter()
        parts = tacit.load_dataset("fer_plus").split("official")
        rows = [options.rows, options.rows // 4, options.rows // 2] if options.rows else [len(p) for p in parts]
        rng = np.random.default_rng(0)
        self.train, self.validation, self.test = (
            p.take(np.sort(rng.permutation(len(p))[:n])) for p, n in zip(parts, rows, strict=True)
        )
        classes = np.unique(self.train.y["emotion"])
        self.y = [np.searchsorted(classes, p.y["emotion"]) for p in (self.train, self.validation, self.test)]
        self.faces = self.validation.X[:1000]
        self.embed = face_embedding(device=options.device)
        self.embedded = self.embed(self.faces)
        self.centre = self.embedded.mean(axis=0)
        self.test_embedded = self.embed(self.test.X)
        self.results: dict = {
            "settings": {
                **{k: v for k, v in vars(options).items() if k not in ("out", "figure", "pack")},
                "device": str(self.device),
                "sizes": [len(y) for y in self.y],
            }
        }
        print(f"train, validation, test: {[len(y) for y in self.y]}; {classes}", flush=True)

    def note(self, name: str, line: dict) -> None:
        self.results[name] = {**line, "seconds": round(time.perf_counter() - self.began)}
        Path(self.options.out).write_text(json.dumps(self.results, indent=1, default=float))

    def left(self) -> float:
        return self.options.minutes * 60 - (time.perf_counter() - self.began)

    def alike(self, original: np.ndarray, released: np.ndarray) -> Measure:
        """Similarity of embeddings, centred on validation faces."""
        return similarity(lambda e: e - self.centre, original, released)

    def learn(self, released: list[np.ndarray]) -> tuple[float, np.ndarray]:
        """Accuracy on validation and answers on test, by a network trained afresh on what was released of train."""
        guesses = fresh_network(released[0], self.y[0], released[1:], self.options.cnn_epochs, self.device)
        return float((guesses[0] == self.y[1]).mean()), guesses[1]

    def measure(self, name: str, release, validated: tuple[float, np.ndarray] | None = None) -> dict:
        """Everything about one release; only called when its settings are fixed."""
        out = [p.X if release is None else release.transform(p.X) for p in (self.train, self.validation, self.test)]
        score, guess = validated or self.learn(out)
        emotion = accuracy(self.y[2], guess)
        embedded = self.test_embedded if release is None else self.embed(out[2])
        alike = self.alike(self.test_embedded, embedded)
        raw = similarity(np.asarray, self.test_embedded, embedded)
        line = {
            "emotion": emotion._asdict(),
            "similarity": alike._asdict(),
            "plain cosine": raw._asdict(),
            "validation": score,
            "paper": PAPER.get(name),
        }
        if hasattr(release, "mask"):
            masks = [release.mask(p.X).astype(np.float32) for p in (self.train, self.validation, self.test)]
            line["pixels revealed"] = sorted({float(s) for m in masks for s in m.sum(axis=(1, 2, 3))})
            if isinstance(release, tacit.TaskMask):
                line["emotion by the bare mask"] = accuracy(self.y[2], self.learn(masks)[1])._asdict()
        self.note(name, line)
        printed = "" if name not in PAPER else f" | paper {PAPER[name][0]:.2f} / {PAPER[name][1]:.4f}"
        bare = line.get("emotion by the bare mask")
        print(
            f"{name:34s} similarity {alike.value:.3f} [{alike.low:.3f}, {alike.high:.3f}] (strangers "
            f"{alike.guessing:.3f}; plain {raw.value:.3f}, strangers {raw.guessing:.3f}), emotion {emotion.value:.4f} "
            f"[{emotion.low:.4f}, {emotion.high:.4f}] (guessing {emotion.guessing:.3f})"
            + (f", bare mask {bare['value']:.4f}" if bare else "")
            + printed,
            flush=True,
        )
        return line


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--rows", type=int, default=0, help="training images; 0: all")
    arguments.add_argument("--epochs", type=int, default=28, help="of a mask")
    arguments.add_argument("--cnn-epochs", type=int, default=16, help="of a network trained afresh")
    arguments.add_argument("--keeps", type=float, nargs="*", default=KEEPS, help="tried in this order")
    arguments.add_argument("--minutes", type=float, default=9.0, help="variants that are left then are skipped")
    arguments.add_argument("--complement", default="rest", choices=("rest", "paper"))
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    arguments.add_argument("--figure", default="", help="file for the figure of masks")
    arguments.add_argument("--pack", default="", help="write the data this needs into a folder, and stop")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    if options.pack:
        pack(Path(options.pack))
        return
    faces = Faces(options)
    original = faces.learn([p.X for p in (faces.train, faces.validation, faces.test)])
    print(f"original images: validation {original[0]:.4f} ({-faces.left() + 60 * options.minutes:.0f} s)", flush=True)
    sigma = nearest_blur(faces)
    blurs = {s: validated(faces, BlurMask(s)) for s in SIGMAS}
    fitted, needed = {}, max(original[0] - ALLOWANCE, blurs[sigma][0] + MARGIN)
    for keep in options.keeps:
        f = task_mask(keep, options).fit(faces.train.X, faces.train.y)
        fitted[keep] = f, validated(faces, f)
        print(
            f"   validation keep={keep}: {fitted[keep][1][0]:.4f} (needed {needed:.4f}), best epoch "
            f"{np.argmax([h['score'] for h in f.history_])} ({-faces.left() + 60 * options.minutes:.0f} s)",
            flush=True,
        )
        if fitted[keep][1][0] >= needed or faces.left() < 150:
            break
    chosen = next((k for k, (_, v) in fitted.items() if v[0] >= needed), max(fitted, key=lambda k: fitted[k][1][0]))
    print(f"fixed on validation: keep={chosen}, blur sigma={sigma}", flush=True)

    first = faces.measure("original", None, original)
    f = fitted[chosen][0]
    mask = faces.measure("task mask", f, fitted[chosen][1])
    blur = faces.measure("blur", BlurMask(sigma), blurs[sigma])
    block = faces.measure("block", BlockMask())
    faces.note("chosen", {"keep": chosen, "sigma": sigma, "validation": {k: v[0] for k, (_, v) in fitted.items()}})
    tell(faces, first, mask, blur, block, f)
    draw(options.figure, faces, f, sigma)
    faces.measure("random mask, same keep", RandomMask(chosen, fill=float(f.fill_.mean())))
    for s in SIGMAS:
        if s != sigma:
            faces.measure(f"blur, sigma {s:g}", BlurMask(s), blurs[s])
    for cell in (4, 6, 8):
        faces.measure(f"pixelate, cell {cell}", Pixelate(cell))
    identity(faces, f)
    other = "paper" if options.complement == "rest" else "rest"
    for name, change in (
        ("task mask, one map for all", {"class_maps": False}),
        ("task mask, non-adversarial", {"adversarial": False}),
        (f"task mask, complement {other}", {"complement": other}),
    ):
        if faces.left() > 90 or options.rows:
            g = task_mask(chosen, options).set_params(**change).fit(faces.train.X, faces.train.y)
            faces.measure(name, g)
        else:
            print(f"{name}: skipped, out of time", flush=True)
    print(f"{time.perf_counter() - faces.began:.0f} s in all; written to {options.out}", flush=True)


def task_mask(keep: float, options: argparse.Namespace) -> tacit.TaskMask:
    return tacit.TaskMask(
        keep,
        complement=options.complement,
        augment=mirror_and_shift,
        epochs=options.epochs,
        batch_size=128,
        random_state=0,
        device=options.device,
    )


def nearest_blur(faces: Faces) -> float:
    """The blur whose similarity on validation faces is nearest the paper's: set by no accuracy at all."""
    blurred = {s: faces.embed(BlurMask(s).transform(faces.faces)) for s in SIGMAS}
    alike = {s: faces.alike(faces.embedded, e).value for s, e in blurred.items()}
    print("   similarity on validation: " + ", ".join(f"sigma {s:g} {v:.3f}" for s, v in alike.items()), flush=True)
    return min(SIGMAS, key=lambda s: abs(alike[s] - PAPER["blur"][0]))


def validated(faces: Faces, release) -> tuple[float, np.ndarray]:
    found = faces.learn([release.transform(p.X) for p in (faces.train, faces.validation, faces.test)])
    if isinstance(release, BlurMask):
        print(f"   validation {release}: {found[0]:.4f}", flush=True)
    return found


def tell(faces: Faces, original: dict, mask: dict, blur: dict, block: dict, f: tacit.TaskMask) -> None:
    """What was promised, and whether it held."""
    at = {k: v["emotion"]["value"] for k, v in (("o", original), ("m", mask), ("u", blur), ("b", block))}
    checks = {
        "within 4 points of the original": (at["o"] - at["m"], at["m"] >= at["o"] - 0.04),
        "above the block": (at["m"] - at["b"], at["m"] > at["b"]),
        "no less accurate than the blur": (at["m"] - at["u"], at["m"] >= at["u"]),
        "less similar than the blur": (
            blur["similarity"]["value"] - mask["similarity"]["value"],
            mask["similarity"]["high"] < blur["similarity"]["low"],
        ),
        f"exactly {f.n_revealed_} pixels in every image": (0.0, mask["pixels revealed"] == [float(f.n_revealed_)]),
    }
    for name, (by, met) in checks.items():
        print(f"   {name}: {'met' if met else 'NOT MET'} ({by:+.4f})", flush=True)
    faces.note("checks", {name: [by, bool(met)] for name, (by, met) in checks.items()})


def identity(faces: Faces, f: tacit.TaskMask) -> None:
    """Who is it? A network trained afresh on half of the masked images (or bare masks), tested on the others."""
    cmu = tacit.load_dataset("cmu_faces")
    orl = tacit.load_dataset("orl_faces").X[:, :, :, 10:82].astype(np.float32)  # square, then FER+'s size
    orl = nn.functional.interpolate(torch.as_tensor(orl), (48, 48), mode="bilinear", antialias=True).numpy()
    who = {
        "cmu_faces": (cmu.X, cmu.sensitive["person"].to_numpy()),
        "orl_faces": (orl, tacit.load_dataset("orl_faces").sensitive["person"].to_numpy()),
    }
    # CMU: a mask of its own, for sunglasses. ORL has no task: FER+'s mask for the emotion meets new people
    third = cmu.split((0.34, 0.66), random_state=0)
    own = task_mask(f.keep, faces.options).set_params(batch_size=32, epochs=max(faces.options.epochs, 10), augment=None)
    own.fit(third[0].X, third[0].y)
    releases = {"cmu_faces": own, "orl_faces": f}
    for name, (X, person) in who.items():
        rows = third[1].rows if name == "cmu_faces" else np.arange(len(X))
        X, y = X[rows], np.unique(person[rows], return_inverse=True)[1]
        half = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
        masks = releases[name].mask(X).astype(np.float32)
        shown = {"original": X, "masked": releases[name].transform(X).astype(np.float32), "bare mask": masks}
        shown["blur"] = BlurMask(2.0).transform(X)
        for what, Z in shown.items():
            guess = fresh_network(Z[half], y[half], [Z[~half]], 40, faces.device, augment=False)[0]
            found = accuracy(y[~half], guess)
            balanced = balanced_accuracy(y[~half], guess, int(y.max()) + 1)
            print(
                f"{name}, {what:10s} identity {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] "
                f"(guessing {found.guessing:.3f}), balanced {balanced.value:.3f} (guessing {balanced.guessing:.3f})",
                flush=True,
            )
            faces.note(f"{name}, {what}", {"identity": found._asdict(), "balanced": balanced._asdict()})
    labels = task_labels(faces, third[0], cmu.X[third[1].rows], orl)
    for name, predicted in labels.items():
        rows = third[1].rows if name == "cmu_faces" else np.arange(len(predicted))
        leaked = label_leak(predicted, who[name][1][rows])
        print(f"{name}, label-only: identity {leaked.value:.3f} balanced (guessing {leaked.guessing:.3f})", flush=True)
        faces.note(f"{name}, label-only", {"balanced": leaked._asdict()})


def task_labels(faces: Faces, train: tacit.Dataset, cmu: np.ndarray, orl: np.ndarray) -> dict[str, np.ndarray]:
    """The task's answer alone, by networks that learned from original images of other rows."""
    worn = np.unique(train.y["sunglasses"], return_inverse=True)[1]
    shades = fresh_network(train.X, worn, [cmu], 40, faces.device, augment=False)[0]
    emotion = fresh_network(faces.train.X, faces.y[0], [orl], faces.options.cnn_epochs, faces.device)[0]
    return {"cmu_faces": shades, "orl_faces": emotion}


def label_leak(labels: np.ndarray, person: np.ndarray) -> Measure:
    """Who it is, balanced, by counting labels on half of the images; the same halves as for the networks."""
    half = np.random.default_rng(0).permutation(len(labels)) < len(labels) // 2
    who = [pd.DataFrame({"person": person[h]}) for h in (half, ~half)]
    parts = [tacit.Dataset(labels[h, None].astype(float), y, y) for h, y in zip((half, ~half), who, strict=True)]
    leaked = labels_alone(parts[0].X, parts[0], parts[1].X, parts[1])[1]["person"]
    return Measure(leaked.value, leaked.low, leaked.high, leaked.guessing)


def draw(path: str, faces: Faces, f: tacit.TaskMask, sigma: float) -> None:
    if path:
        from papers.common.mask_figures import draw_masks

        releases = {"blur": BlurMask(sigma), "block": BlockMask(), "task mask": f}
        draw_masks(faces.test.X[:8], releases).savefig(path, dpi=120)


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


def fresh_network(
    X: np.ndarray, y: np.ndarray, others: list[np.ndarray], epochs: int, device: torch.device, augment: bool = True
) -> list[np.ndarray]:
    """A network trained afresh on (X, y), the same for every release; its answers on the others."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    mean, scale = float(X.mean()), float(X.std()) or 1.0
    x = torch.as_tensor((X - mean) / scale, dtype=torch.float32, device=device)
    labels = torch.as_tensor(y, device=device)
    width = 32 if device.type == "cuda" else 16
    net = image_classifier(X.shape[1:], int(y.max()) + 1, width).to(device)
    batch = min(128 if len(x) > 4000 else 32, len(x))
    steps = len(x) // batch
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


def pack(folder: Path) -> None:
    """The rows of FER+ that are used, in the layout of the whole file, and the small files beside it."""
    source = require("fer2013_ferplus/fer2013_ferplus.npz", "FER2013 with the FER+ votes, packed as npz")
    file = np.load(source)
    names = [str(n) for n in file["vote_names"]]
    elected = winners(file["votes"].astype(int), 0.5)
    keep = np.isin(elected, [names.index(e) for e in ("neutral", "happiness", "surprise")])
    target = folder / "fer2013_ferplus" / "fer2013_ferplus.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as out:
        for key in file.files:
            memory = io.BytesIO()
            np.save(memory, file[key][keep] if len(file[key]) == len(keep) else file[key])
            out.writestr(f"{key}.npy", memory.getvalue())
    for relative in (
        "face_recogniser/face_recogniser.safetensors",
        "cmu_faces/cmu_faces_30x32.npz",
        "orl_faces/orl_faces_112x92.npz",
    ):
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(require(relative, "see its README"), folder / relative)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 2**20
    print(f"{keep.sum():,} images and what goes with them: {size:.1f} MiB in {folder}")


if __name__ == "__main__":
    main()
