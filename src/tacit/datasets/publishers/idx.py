"""The IDX format of the MNIST files."""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError


def read_idx(content: bytes, where: str = "the file") -> np.ndarray:
    """Two zero bytes, type 8 (bytes), dimensions, sizes, values.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])).tolist()
    [7, 9]
    """
    if content[:3] != b"\0\0\x08" or len(content) < 4 or len(content) < 4 + 4 * content[3]:
        raise InputError(f"{where} is not an IDX file of bytes; expected it to begin with 00 00 08; fetch it again")
    shape = tuple(int(n) for n in np.frombuffer(content, dtype=">u4", count=content[3], offset=4))
    values = content[4 + 4 * content[3] :]
    if len(values) != np.prod(shape, dtype=object):
        raise InputError(f"{where} is cut: its header says {shape}, but {len(values):,} bytes follow; fetch it again")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)
