"""Section III of the task-mask paper: Tables I and II, Figures 2 and 3.

Table I and Figure 3 are on FER+, the paper's own. Table II and Figure 2 are on CMU faces, sunglasses kept, or with
`--data celeba` on the paper's own: hair colour. Each method that we changed stands twice: as printed, and ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from papers.common.run import Run, over_seeds
from papers.common.shown import shown

from . import data, protocol

# similarity, accuracy
TABLE_1 = {
    "original": (1.00, 0.9249), "block": (0.16, 0.8134), "blur": (0.35, 0.8778), "CIAGAN": (0.19, 0.8779),
    "DeepPrivacy": (0.26, 0.8801), "non-adversarial": (0.48, 0.8981), "mask": (0.20, 0.8864),
}  # fmt: skip
TABLE_2 = {
    "original": (1.00, 0.8901), "block": (0.36, 0.7889), "blur": (0.72, 0.8586), "CIAGAN": (0.31, 0.8557),
    "DeepPrivacy": (0.49, 0.8449), "non-adversarial": (0.47, 0.8673), "mask": (0.35, 0.8559),
}  # fmt: skip
GENERATORS = ("CIAGAN", "DeepPrivacy")  # other groups' face generators: their figures are the paper's
BLOCK, BLUR = "block, the centre", "blur, the centre"
PRINTED, PRINTED_ALONE = "task mask as printed (one map)", "task mask as printed, non-adversarial"
OURS, OURS_ALONE = "task mask, ours (a map for each class)", "task mask, ours, non-adversarial"
REGIONS = "task mask, ours (one map, regions)"
LARGE = "task mask as printed, images of 64x64"
IN_PRINT = {"original": "original", BLOCK: "block", BLUR: "blur", PRINTED: "mask", PRINTED_ALONE: "non-adversarial"}
BLURRED: dict[str, Any] = {"kind": "blur"}
COVERS: dict[str, dict[str, Any]] = {"original": {"kind": "original"}, BLOCK: {"kind": "block"}, BLUR: BLURRED}
DRAWN = ("original", BLUR, BLOCK, PRINTED_ALONE, PRINTED, OURS, REGIONS)
ALIKE = "similarity (our recogniser; print: FaceNet)"


def table1(run: Run) -> None:
    """Covers on test images; the mask as printed on validation images, beside the blur; ours, recorded before."""
    s, tried = run.settings, tries(run, run.settings["tries"])
    blurred = tries(run, [BLURRED])[0]
    found = {name: seeds_of(run, name, spec) for name, spec in COVERS.items()}
    tell(run, found, [*COVERS, *GENERATORS], IN_PRINT, TABLE_1, "emotion", "our CNN; print: FERAtt", "orl_faces",
         "ORL faces: identity")  # fmt: skip
    chosen = best(s["tries"], tried, blurred)
    for spec, of in zip([BLURRED, *s["tries"]], [blurred, *tried], strict=True):
        name = BLUR if spec is BLURRED else f"{PRINTED}, keep {shown(spec['keep'])}"
        name += ": validation images, one seed"
        printed = TABLE_1["mask"] if spec is chosen else (None, None)
        run.row(name, ALIKE, printed[0], of["similarity"][0], interval=of["similarity"][1:3])
        run.row(name, "emotion, accuracy, our CNN; print: FERAtt", printed[1], of["accuracy"][0],
                interval=of["accuracy"][1:3], guessing=of["accuracy"][3])  # fmt: skip
    tell_recorded(run, found["original"], "table1", "emotion", "our CNN", "orl_faces", "ORL faces: identity")
    run.note(
        "The mask as printed was trained at full size and read on validation images only: time on the GPU was up. "
        "`tacit reproduce task-mask/table1-full` has every mask on test images with three seeds."
    )


def table1_full(run: Run) -> None:
    """Every mask of Table I on test images, three seeds; that as printed with settings chosen on validation images."""
    s = run.settings
    tried, blurred = tries(run, s["tries"]), tries(run, [BLURRED])[0]
    ours = {
        OURS: {"kind": "ours", **s["ours"]},
        OURS_ALONE: {"kind": "ours", **s["ours"], "adversarial": False},
        REGIONS: {"kind": "ours", **s["regions"]},
    }
    found = {name: seeds_of(run, name, spec) for name, spec in {**COVERS, **ours}.items()}
    first = best(s["tries"], tried, blurred)
    more = [{**first, **change} for change in s["changes"]]
    chosen = best([*s["tries"], *more], [*tried, *tries(run, more)], blurred)
    printed = {
        PRINTED: chosen,
        PRINTED_ALONE: {**chosen, "adversarial": False},
        LARGE: {**chosen, "pixels": s["large"]},
        **{told(spec): spec for spec in s["others"]},
    }
    found |= {name: seeds_of(run, name, spec) for name, spec in printed.items()}
    order = ["original", BLOCK, BLUR, *GENERATORS, PRINTED_ALONE, PRINTED, LARGE, *ours, *map(told, s["others"])]
    tell(run, found, order, IN_PRINT, TABLE_1, "emotion", "our CNN; print: FERAtt", "orl_faces", "ORL faces: identity")
    run.note(f"As printed here means: {told(chosen)}; chosen on validation images.")
    run.figure("table1-full", draw_masks(found))


def table2(run: Run) -> None:
    """The same comparison where people are known: the attribute, the similarity, and who it is."""
    s = run.settings
    masks: dict[str, dict[str, Any]] = {
        PRINTED_ALONE: {"kind": "as printed", **s["printed"], "adversarial": False},
        PRINTED: {"kind": "as printed", **s["printed"]},
        **({OURS: {"kind": "ours", **s["ours"]}} if "ours" in s else {}),
    }
    found = {
        name: [run.part(f"{name}, seed {seed}", on_attribute, spec, seed, s) for seed in run.seeds]
        for name, spec in {**COVERS, **masks}.items()
    }
    order, by = ["original", BLOCK, BLUR, *GENERATORS, *masks], "our CNN; print: SlimCNN"
    tell(run, found, order, IN_PRINT, TABLE_2, s["label"], by, s["data"], "identity")
    if "ours" not in s:
        tell_recorded(run, found["original"], "table2", s["label"], by, s["data"], "identity")
    run.figure("fig2", draw_masks(found))


def fig3(run: Run) -> None:
    """Masks after a short training on few images."""
    printed: dict[str, Any] = {"kind": "as printed", **run.settings["printed"]}
    specs = {**COVERS, PRINTED_ALONE: {**printed, "adversarial": False}, PRINTED: printed}
    found = {name: seeds_of(run, name, spec) for name, spec in specs.items()}
    tell(run, found, list(specs), {}, {}, "emotion", "our CNN", "orl_faces", "ORL faces: identity")
    run.figure("fig3", draw_masks(found))


EXPERIMENTS: dict[str, Callable[[Run], None]] = {
    "table1": table1, "table1-full": table1_full, "fig3": fig3, "table2": table2,
}  # fmt: skip


# -- the work ------------------------------------------------------------------------------------------


def try_emotions(spec: dict[str, Any], s: dict[str, Any]) -> dict[str, Any]:
    """One setting on validation images."""
    return protocol.validated(data.emotions(s), spec, 0, s)


def on_emotions(spec: dict[str, Any], seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """One release of FER+ with one seed, on test images."""
    return protocol.measured(data.emotions(s, spec.get("pixels", 48)), spec, seed, s)


def on_attribute(spec: dict[str, Any], seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """One release of the faces of Table II with one seed."""
    return protocol.measured(data.attribute(s), spec, seed, s)


def tries(run: Run, specs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings on validation images, each with one seed."""
    names = ["blur" if spec is BLURRED else told(spec) for spec in specs]
    return [
        run.part(f"tried: {n}", try_emotions, spec, work_settings(run)) for n, spec in zip(names, specs, strict=True)
    ]


def seeds_of(run: Run, name: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    s = work_settings(run) if name in DRAWN else {**work_settings(run), "drawn": 0}
    return [run.part(f"{name}, seed {seed}", on_emotions, spec, seed, s) for seed in run.seeds]


def work_settings(run: Run) -> dict[str, Any]:
    """What a part's work reads: another list of tries does not ask for everything again."""
    read = ("rows", "epochs", "batch", "network_epochs", "naming_epochs", "embedded", "drawn", "device")
    return {k: run.settings[k] for k in read}


def best(specs: Sequence[dict[str, Any]], tried: Sequence[Mapping[str, Any]], blur: Mapping[str, Any]) -> Any:
    """Of settings less similar on validation faces than the blur the most accurate there; else the least similar."""
    less = [i for i, of in enumerate(tried) if of["similarity"][0] < blur["similarity"][0]]
    if not less:
        return specs[int(np.argmin([of["similarity"][0] for of in tried]))]
    return specs[max(less, key=lambda i: tried[i]["accuracy"][0])]


# -- telling it ---------------------------------------------------------------------------------------


def tell(
    run: Run, found: Mapping[str, Any], order: Sequence[str], in_print: Mapping[str, str],
    printed: Mapping[str, tuple[float, float]], label: str, by: str, known: str, who: str,
) -> None:  # fmt: skip
    """Rows of a table, means over seeds; and the summary's lines about who it is."""
    measure = f"{label}, accuracy, {by}"
    floor = found["original"][0].get("label only")
    for name in order:
        if name in GENERATORS:
            run.row(f"{name} (figures of the paper)", ALIKE, printed[name][0])
            run.row(f"{name} (figures of the paper)", measure, printed[name][1])
            continue
        seeds, print_of = found[name], printed.get(in_print.get(name, ""), (None, None))
        alike, kept = cosine([of["similarity"] for of in seeds]), one([of["kept"] for of in seeds])
        run.row(name, ALIKE, print_of[0], alike["value"], interval=ends(alike))
        run.row(name, measure, print_of[1], kept["value"], interval=ends(kept), guessing=kept["guessing"])
        if "kept by the bare mask" in seeds[0]:
            bare = one([of["kept by the bare mask"] for of in seeds])
            run.row(f"{name}: its bare mask", f"{label}, accuracy", None, None, bare["value"], ends(bare), "CNN",
                    bare["guessing"])  # fmt: skip
        for key, kept_by, what in (
            ("identity", "kept", name),
            ("identity by the bare mask", "kept by the bare mask", f"{name}: its bare mask"),
        ):
            if key not in seeds[0]:
                continue
            named = one([of[key]["accuracy"] for of in seeds])
            run.row(what, f"{who}, accuracy", None, None, named["value"], ends(named), "CNN", named["guessing"])
            same = known != "orl_faces"  # ORL's people are not those whose emotion is kept
            run.audited(
                what,
                known,
                [audit(of[key]["balanced"], floor, {label: of[kept_by]} if same else {}) for of in seeds],
            )


def tell_recorded(
    run: Run, original: Sequence[Mapping[str, Any]], table: str, label: str, by: str, known: str, who: str
) -> None:
    """Rows of masks that were measured before, each with one seed: `recorded.json`."""
    earlier = json.loads((run.paper.folder / "recorded.json").read_text(encoding="utf-8"))[table]
    found: dict[str, Any] = {f"{name}: recorded, one seed": [of] for name, of in earlier["rows"].items()}
    tell(run, {"original": original, **found}, list(found), {}, {}, label, by, known, who)
    run.note(
        f"Rows that say *recorded* are by {earlier['by']} ({earlier['machine']}), on test images; the rest is anew."
    )


def audit(who: Sequence[float], floor: Mapping[str, Any] | None, kept: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The honest columns, as an audit gives them: a network trained afresh on the released images."""
    return {
        "utility": {k: measure(v) for k, v in kept.items()},
        "leakage": {"person": {**measure(who), "by": "CNN"}},
        "certificate": {},
        "label_only": {"person": measure(floor["person"])} if floor else {},
        "label_only_utility": {k: measure(floor["kept"]) for k in kept} if floor else {},
    }


def measure(values: Sequence[float]) -> dict[str, float]:
    return dict(zip(("value", "low", "high", "guessing"), map(float, values), strict=True))


def one(seeds: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Several seeds as one figure."""
    return over_seeds([measure(v) for v in seeds])


def cosine(seeds: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The same of cosines, which begin at -1."""
    of = over_seeds([{k: (1 + v) / 2 for k, v in measure(m).items()} for m in seeds])
    return {**of, **{k: 2 * of[k] - 1 for k in ("value", "low", "high", "guessing")}}


def ends(of: Mapping[str, float]) -> tuple[float, float]:
    return of["low"], of["high"]


def told(spec: Mapping[str, Any]) -> str:
    """A setting in words: 'as printed, keep .300, epochs 48'."""
    words = {k: shown(v) if isinstance(v, float) else str(v) for k, v in spec.items() if k != "kind"}
    return ", ".join([spec["kind"], *(f"{k.replace('_', ' ')} {v}" for k, v in words.items())])


def draw_masks(found: Mapping[str, Any]) -> Figure:
    """Draw how often each mechanism shows a pixel: the average of its masks over the test images drawn.

    No image is drawn: the data sets' terms do not allow it, and the mask of one image outlines a face.
    """
    short = {
        PRINTED_ALONE: "as printed,\nnon-adversarial", PRINTED: "as printed", OURS: "ours,\nclass maps",
        REGIONS: "ours,\nregions",
    }  # fmt: skip
    counts = {short[n]: seeds[0]["shown"] for n, seeds in found.items() if n in short}
    shares = {n: np.loadtxt(of["rows"], ndmin=2) / of["images"] for n, of in counts.items()}
    height, width = next(iter(shares.values())).shape
    shares = {"block and blur,\nthe centre": 1.0 - protocol.centre((height, width)), **shares}
    figure = Figure(figsize=(2.1 * len(shares) + 0.5, 2.6), layout="constrained")
    for axes, (name, share) in zip(figure.subplots(1, len(shares)), shares.items(), strict=True):
        axes.set_facecolor("black")
        for level in np.unique(share[share > 0]):
            axes.add_patch(PathPatch(pixels(share == level), facecolor=str(level), linewidth=0, antialiased=False))
        axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal", xticks=[], yticks=[])
        axes.set_title(name, fontsize=8)
    figure.supxlabel("White pixels are shown in every image, black ones in none", fontsize=8)
    return figure


def pixels(chosen: np.ndarray) -> Path:
    """One path around the chosen pixels, a rectangle for each run of a row: no raster image in the file."""
    edges = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(int), axis=1)
    starts, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    boxes = [Path([(a, y), (b, y), (b, y + 1), (a, y + 1), (a, y)], closed=True)
             for (y, a), (_, b) in zip(starts, ends, strict=True)]  # fmt: skip
    return Path.make_compound_path(*boxes)
