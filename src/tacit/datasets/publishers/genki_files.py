"""Genki: genki.mat of the minimax filter's authors (16x16, smile and gender), and UCSD's own GENKI-4K (no gender)."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from tacit.datasets.publishers.columns import matrix, same_length
from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

SIDE, SIDE_4K = 16, 64
PICTURE = re.compile(r"\.jpe?g$", re.IGNORECASE)


def pack_genki(source: Source) -> Pack:
    """genki.mat where there is one, else the pictures of GENKI-4K."""
    mat = source.find("genki.mat")
    if mat is None and source.path.suffix.lower() == ".mat":
        mat = source.path.name
    return _from_mat(source, mat) if mat is not None else pack_genki4k(source)


def _from_mat(source: Source, name: str) -> Pack:
    """Xtrain (256, n), y1 (1, n): 2 is a smile, y2 (1, n): 1 is a man; images lie column by column."""
    found = _matlab(source.read(name), source.where(name))
    arrays: dict[str, np.ndarray] = {}
    for part in ("train", "test"):
        X = _array(found, f"X{part}", source.where(name))
        if X.ndim != 2 or X.shape[0] != SIDE * SIDE or not np.isfinite(X).all():
            raise InputError(
                f"{source.where(name)}: X{part} has shape {X.shape}; expected {SIDE * SIDE} numbers a column; "
                f"fetch it again"
            )
        arrays[f"x_{part}"] = X.T.reshape(-1, SIDE, SIDE).transpose(0, 2, 1).astype(np.float32)
        for code, label, yes in (("y1", "smile", 2), ("y2", "male", 1)):
            y = _array(found, f"{code}_{part}", source.where(name)).ravel()
            if len(y) != X.shape[1] or not np.isin(y, (1, 2)).all():
                raise InputError(
                    f"{source.where(name)}: {code}_{part} must have a code, 1 or 2, for each of {X.shape[1]:,} "
                    f"images; found {len(y):,} numbers; fetch it again"
                )
            arrays[f"{label}_{part}"] = (y == yes).astype(np.uint8)
    return Pack(
        f"{len(arrays['x_train']) + len(arrays['x_test']):,} images: {len(arrays['x_train']):,} train, "
        f"{len(arrays['x_test']):,} test",
        {"genki_minimax/genki_minimax.npz": npz(**arrays)},
    )


def pack_genki4k(source: Source) -> Pack:
    """files/*.jpg with labels.txt; or GENKI-R2009a: the names in GENKI-4K_Images.txt, GENKI-4K_Labels.txt beside it.

    A line of labels is: smile (0 or 1), yaw, pitch, roll. Pictures become grey, 64x64.
    """
    pictures = {name.rsplit("/", 1)[-1].lower(): name for name, _ in source.matches(PICTURE)}
    if not pictures:
        raise InputError(
            f"{source.path} has neither genki.mat nor pictures; get {WHERE['genki']}, or {WHERE['genki4k']}"
        )
    labels = source.need("GENKI-4K_Labels.txt", "labels.txt", remedy=f"get {WHERE['genki4k']}")
    values = matrix(source, labels)
    wrong = np.flatnonzero(~np.isin(values[:, 0], (0, 1)) | (values.shape[1] not in (1, 4)))
    if len(wrong):
        raise InputError(
            f"{source.where(labels)}, line {wrong[0] + 1}: expected smile (0 or 1), yaw, pitch, roll; fetch it again"
        )
    listed = source.find("GENKI-4K_Images.txt")
    if listed is None:
        names = sorted(pictures)
        same_length(source, {labels: len(values), "files": len(names)})
    else:
        names = []
        for line, text in source.lines(listed):
            names.append(text.strip().rsplit("/", 1)[-1].lower())
            if names[-1] not in pictures:
                raise InputError(
                    f"{source.where(listed)}, line {line}: no such picture here; get {WHERE['genki4k']} again"
                )
        same_length(source, {labels: len(values), listed: len(names)})
    images = np.array([_grey(source, pictures[name]) for name in names])
    smile = values[:, 0].astype(np.uint8)
    pose = values[:, 1:] if values.shape[1] == 4 else np.full((len(values), 3), np.nan)
    return Pack(
        f"{len(images):,} images: {counted(np.where(smile == 1, 'smile', 'none'))}",
        {"genki4k/genki4k_64x64.npz": npz(images=images, smile=smile, pose=pose.astype(np.float32))},
        ["GENKI-4K has no gender labels: it is loaded as 'genki4k'"],
    )


def _matlab(data: bytes, where: str) -> dict[str, Any]:
    from scipy.io import loadmat  # only those who pack Genki need it

    try:
        return loadmat(
            io.BytesIO(data), variable_names=[f"{n}{p}" for n in ("X", "y1_", "y2_") for p in ("train", "test")]
        )
    except NotImplementedError:
        raise InputError(f"{where} is a file of MATLAB 7.3; save it with -v7, or get {WHERE['genki']}") from None
    except Exception as error:  # a damaged file may raise anything
        raise InputError(
            f"{where} is no whole MATLAB file ({type(error).__name__}); get {WHERE['genki']} again"
        ) from None


def _array(found: dict[str, Any], key: str, where: str) -> np.ndarray:
    if key not in found:
        raise InputError(f"{where} has no array {key}; get {WHERE['genki']} again")
    array = np.asarray(found[key])
    if array.dtype.kind not in "fiub":
        raise InputError(f"{where}: {key} does not hold numbers; get {WHERE['genki']} again")
    return array


def _grey(source: Source, name: str) -> np.ndarray:
    from PIL import Image  # only those who pack pictures need it

    try:
        with Image.open(io.BytesIO(source.read(name))) as image:
            small = image.convert("L").resize((SIDE_4K, SIDE_4K), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{source.where(name)} is no whole picture ({type(error).__name__}); fetch it again") from None
    return np.asarray(small, dtype=np.uint8)
