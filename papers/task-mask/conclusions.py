"""What the task mask's tables say, in sentences that are recomputed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.common.conclusions import Conclusion, Figure, Reading
from papers.common.shown import shown

from .reproduce import BLOCK, BLUR, OURS, PRINTED, PRINTED_ALONE

SEEDS = 3
VALIDATION, RECORDED = ": validation images, one seed", ": recorded, one seed"
KEEPS = ("keep .100", "keep .200", "keep .300", "keep .500")


def covers_as_in_print(read: Reading) -> str:
    original, block, blur = (read.ours(n, "emotion") for n in ("original", BLOCK, BLUR))
    alike = [read.ours(n, "similarity") for n in (BLOCK, BLUR)]
    read.holds(original.value > blur.value > block.value)
    read.holds(alike[0].value < alike[1].value)
    return (
        f"As in print, the block hides more than the blur and keeps less: similarity {alike[0]} and {alike[1]}, "
        f"emotion "
        f"{block:interval} and {blur:interval}, of the original's {original:interval} (guessing {guessing(read)})."
    )


def as_printed_against_the_blur(read: Reading) -> str:
    kept, alike = ({k: on_validation(read, f"{PRINTED}, {k}", m) for k in KEEPS} for m in ("emotion", "similarity"))
    blur, blurred = (on_validation(read, BLUR, m) for m in ("emotion", "similarity"))
    best = max(KEEPS, key=lambda k: kept[k].value)
    ahead = [k for k in KEEPS if kept[k].value > blur.value]
    read.holds(max(f.value for f in alike.values()) < blurred.value)
    read.holds(kept[best].value > blur.value)
    read.holds(kept["keep .300"].value < kept["keep .200"].value)
    read.holds(kept[best].low is not None and blur.high is not None and kept[best].low < blur.high)
    return (
        f"The mask as printed, trained at full size and read on validation images with one seed, comes level with "
        f"the blur: "
        f"{best} keeps {kept[best]:interval} where the blur keeps {blur:interval}, at a similarity of {alike[best]} "
        f"against {blurred}. {len(ahead)} of the {len(KEEPS)} shares tried are ahead of the blur in accuracy "
        f"({', '.join(f'{k} {kept[k]}' for k in KEEPS)}), all in similarity. They do not rise with the share, "
        "so one seed's chance is as large as the lead. Print has the mask ahead in both; here the intervals overlap, "
        "and test images were not read."
    )


def our_one_map_stays_below_the_blur(read: Reading) -> str:
    one = recorded(read, "task mask, ours, one map", "emotion")
    blur = read.ours(BLUR, "emotion")
    read.holds(one.high is not None and blur.low is not None and one.high < blur.low)
    return (
        f"*Our* training with one map for all classes (a tenth of the pixels; recorded, one seed) stays below the "
        f"blur: "
        f"{one:interval} against {blur:interval}."
    )


def ours_is_near_the_original_and_its_shape_tells(read: Reading) -> str:
    kept, alike = (recorded(read, OURS, m) for m in ("emotion", "similarity"))
    original, bare = read.ours("original", "emotion"), shape(read, f"{OURS}{RECORDED}", "emotion", 1)
    read.holds(original.value - kept.value < 0.03)
    read.holds(abs(bare.value - kept.value) < 0.02)
    return (
        f"*Ours*, a map for each class, keeps {kept} of the original images' {original} with a tenth of the pixels, "
        f"at a "
        f"similarity of {alike} (recorded, one seed). But the *shape* of its mask tells the emotion: {bare} is read "
        f"from "
        f"the bare mask, without a pixel."
    )


def a_known_face_is_named(read: Reading) -> str:
    whole, block, blur = (read.leak(n, "person") for n in ("original", BLOCK, BLUR))
    mask = read.leak(f"{OURS}{RECORDED}", "person")
    read.holds(min(block.value, blur.value) > whole.value - 0.05)
    read.holds(mask.above_guessing)
    return (
        f"A low similarity is not privacy: a network that has seen released images of ORL's people names them, "
        f"balanced, in "
        f"{block:interval} of cases behind the block and {blur:interval} behind the blur, which leave the border; "
        f"original "
        f"{whole:interval}, guessing {shown(whole.guessing or 0)}. Behind our mask {mask:interval} (recorded, one "
        f"seed)."
    )


# -- Table II ------------------------------------------------------------------------------------------


def order_of_table_2(read: Reading) -> str:
    kept = {n: read.ours(n, "sunglasses") for n in ("original", BLOCK, BLUR, PRINTED, PRINTED_ALONE)}
    ours = recorded(read, OURS, "sunglasses")
    read.holds(kept[PRINTED].value > kept[BLOCK].value)
    return (
        f"Sunglasses are told right in {kept[PRINTED]:interval} as printed ({kept[PRINTED_ALONE]} non-adversarial), "
        f"{ours:interval} ours (recorded, one seed), {kept[BLUR]:interval} blurred, {kept[BLOCK]:interval} with the "
        f"block, which covers the glasses; original {kept['original']:interval}. As in print, the mask is above "
        f"the block."
    )


def covers_name_people(read: Reading) -> str:
    whole, block, blur, printed = (read.leak(n, "person") for n in ("original", BLOCK, BLUR, PRINTED))
    ours = read.leak(f"{OURS}{RECORDED}", "person")
    read.holds(min(block.value, blur.value) > max(printed.value, ours.value))
    read.holds(printed.above_guessing and ours.above_guessing)
    return (
        f"Block and blur leave the border, and people are named by it in {block} and {blur} of cases, balanced "
        f"(original {whole}); behind the mask as printed in {printed:interval}, behind ours in {ours:interval} "
        f"(recorded, one seed), guessing {shown(whole.guessing or 0)}. None hides who it is from a network "
        f"that knows the person."
    )


CONCLUSIONS: Mapping[str, Sequence[Conclusion]] = {
    "table1": [
        covers_as_in_print, as_printed_against_the_blur, our_one_map_stays_below_the_blur,
        ours_is_near_the_original_and_its_shape_tells, a_known_face_is_named,
    ],
    "table2": [order_of_table_2, covers_name_people],
}  # fmt: skip


def on_validation(read: Reading, name: str, measure: str) -> Figure:
    """A figure of validation images: one seed, whatever the table's others have."""
    of = read.ours(f"{name}{VALIDATION}", measure)
    return read.figure(of.value, 1, of.low, of.high)


def recorded(read: Reading, name: str, measure: str) -> Figure:
    """A figure measured before, of one seed."""
    of = read.ours(f"{name}{RECORDED}", measure)
    return read.figure(of.value, 1, of.low, of.high)


def shape(read: Reading, name: str, label: str, seeds: int) -> Figure:
    """The task by the bare mask."""
    what = f"{name}: its bare mask"
    row = next(r for r in read.rows(seeds) if r["what"] == what and r["measure"].startswith(label))
    return read.figure(row["adaptive"], seeds, *row["interval"])


def guessing(read: Reading) -> str:
    row = next(r for r in read.rows(SEEDS) if r["measure"].startswith("emotion"))
    return row["measure"].partition("guessing ")[2].rstrip(")")
