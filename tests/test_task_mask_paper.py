"""The task-mask paper's experiments: what is compared with print, and what is drawn."""

from __future__ import annotations

import numpy as np

from papers.common.papers import load_paper
from tacit.baselines import BlockMask, BlurMask

PAPER = load_paper("task-mask")
TABLE = __import__("sys").modules["papers.task-mask"]


def test_block_and_blur_cover_the_same_centre_and_leave_the_border():
    protocol = TABLE.protocol
    X = np.random.default_rng(0).random((2, 1, 48, 48))
    block, blur = (protocol.release_of({"kind": k}, 0, (48, 48), {"epochs": 1, "batch": 2, "device": "cpu"})
                   for k in ("block", "blur"))  # fmt: skip
    assert isinstance(block, BlockMask)
    assert isinstance(blur, BlurMask)
    changed = [(f.transform(X) != X).any(axis=(0, 1)) for f in (block, blur)]
    assert np.array_equal(*changed)
    assert changed[0][6:42, 6:42].all()
    assert changed[0].sum() == 36 * 36


def test_as_printed_and_ours_are_two_rows_and_print_stands_beside_its_own():
    s = {"epochs": 1, "batch": 2, "device": "cpu"}
    printed, ours = (
        TABLE.protocol.release_of({"kind": k, "keep": 0.2}, 0, (48, 48), s) for k in ("as printed", "ours")
    )
    assert (printed.soft, printed.class_maps, printed.complement, printed.augment) == (True, False, "paper", None)
    assert (ours.soft, ours.class_maps) == (False, True)
    for experiment, entry in PAPER.results.items():
        rows = {r["what"] for r in entry["rows"]}
        beside = {r["what"] for r in entry["rows"] if r["printed"] is not None}
        assert any(r.startswith(TABLE.PRINTED) for r in rows), experiment
        assert experiment == "fig3" or any(r.startswith(TABLE.OURS) for r in rows), experiment
        assert not any("ours" in r for r in beside)


def test_the_setting_as_printed_is_chosen_by_validation_alone():
    blur = {"accuracy": [0.90], "similarity": [0.40]}
    tried = [{"accuracy": [a], "similarity": [s]} for a, s in ((0.85, 0.1), (0.89, 0.3), (0.95, 0.5))]
    assert TABLE.best(["a", "b", "c"], tried, blur) == "b"  # c is more accurate, and more similar than the blur
    assert TABLE.best(["c"], tried[2:], blur) == "c"


def test_the_figure_shows_masks_alone():
    """The share of images that show a pixel, as grey; a face is nowhere among the arguments."""

    class Half:
        def mask(self, X):
            return np.stack([np.tri(8, dtype=bool)[None], np.zeros((1, 8, 8), bool)])

    test = TABLE.protocol.Part(np.zeros((6, 1, 8, 8)), np.array([0, 0, 0, 1, 1, 1]))
    counted = TABLE.protocol.shown_pixels(Half(), test, 2)
    assert counted["images"] == 2
    assert counted["rows"][:2] == ["1 0 0 0 0 0 0 0", "1 1 0 0 0 0 0 0"]
    figure = TABLE.draw_masks({"original": [{}], TABLE.PRINTED: [{"shown": counted}]})
    _, drawn = figure.axes
    assert [len(axes.images) for axes in figure.axes] == [0, 0]
    assert [p.get_facecolor()[0] for p in drawn.patches] == [0.5]
    shown = drawn.patches[0].get_path().contains_points([(0.5, 0.5), (2.5, 0.5), (1.5, 3.5)])
    assert shown.tolist() == [True, False, True]
