"""Folders of images: read as they are, or refused with the file and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import tacit


@pytest.fixture
def folder(tmp_path):
    """Four grey images of 6x4 pixels, one in a folder below, and their labels."""
    rng = np.random.default_rng(0)
    (tmp_path / "deep").mkdir()
    names = ["a.png", "b.png", "c.pgm", "deep/d.png"]
    for name in names:
        Image.fromarray(rng.integers(256, size=(6, 4), dtype=np.uint8)).save(tmp_path / name)
    pd.DataFrame(
        {"file": names, "smile": ["yes", "no", "yes", None], "who": [1, 1, 2, 2], "sex": ["f", "f", "m", "m"]}
    ).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path


ROLES = dict(target="smile", sensitive=["who", "sex"], unit="who")


def test_read_images(folder):
    (folder / "._a.png").write_bytes(b"what some systems leave beside a file")
    data = tacit.read_images(folder, **ROLES)
    assert data.X.shape == (4, 1, 6, 4)
    assert data.X.dtype == np.float32
    assert data.modality == "image"
    assert np.allclose(data.X[3, 0] * 255, np.asarray(Image.open(folder / "deep" / "d.png")), atol=1e-4)
    assert data.y["smile"].isna().tolist() == [False, False, False, True]
    assert data.units_of().tolist() == [1, 1, 2, 2]
    assert tacit.read_images(folder, folder / "labels.csv", size=(3, 8), **ROLES).X.shape == (4, 1, 3, 8)
    assert tacit.read_images(folder, size=5).X.shape == (4, 1, 5, 5)


def test_depths_and_colours(folder):
    Image.fromarray(np.full((6, 4), 65535, dtype=np.uint16)).save(folder / "a.png")
    assert (tacit.read_images(folder).X[0] == 1).all()
    red = np.zeros((6, 4, 3), dtype=np.uint8)
    red[..., 0] = 255
    Image.fromarray(red).save(folder / "b.png")
    X = tacit.read_images(folder).X
    assert X.shape == (4, 3, 6, 4)
    assert X[1].mean(axis=(1, 2)).tolist() == [1, 0, 0]
    assert (X[0] == 1).all()
    assert (X[2, 0] == X[2, 1]).all()  # grey stays grey
    Image.fromarray(np.zeros((6, 4), dtype=np.float32)).save(folder / "e.tiff")
    table = pd.DataFrame({"file": ["a.png", "b.png", "c.pgm", "deep/d.png", "e.tiff"]})
    with pytest.raises(tacit.TacitError, match=r"e.tiff holds floats"):
        tacit.read_images(folder, table)


def test_bad_folders_are_refused_with_advice(folder, tmp_path_factory):
    def refused(message, where=folder, labels=None, **changes):
        with pytest.raises(tacit.TacitError, match=message):
            tacit.read_images(where, labels, **{**ROLES, **changes})

    table = pd.read_csv(folder / "labels.csv")
    refused("no column 'age' \\(target\\); its columns are file, smile", target="age")
    refused("no folder .*none", where=folder / "none")
    refused("no labels.csv or labels.parquet", where=tmp_path_factory.mktemp("empty"))
    refused("row 4: no image 'x.png' in .*1 such rows", labels=pd.concat([table, pd.DataFrame({"file": ["x.png"]})]))
    refused("holds 'deep/d.png', which the table of labels does not name", labels=table[:3])
    refused("row 4: 'a.png' is named a second time", labels=pd.concat([table, table[:1]]))
    refused("row 1: no file name", labels=table.assign(file=["a.png", None, "c.pgm", "deep/d.png"]))
    refused("size must be", size=(3, 0))
    content = (folder / "b.png").read_bytes()
    Image.fromarray(np.zeros((9, 9), dtype=np.uint8)).save(folder / "b.png")
    refused(r"b.png is 9x9 pixels but most images are 6x4 \(1 of 4 differ\); size=\(6, 4\)")
    assert tacit.read_images(folder, size=(6, 4)).X.shape == (4, 1, 6, 4)
    (folder / "b.png").write_bytes(b"hello")
    refused("b.png is not an image")
    (folder / "b.png").write_bytes(content[: len(content) // 2])
    refused("b.png")
