"""The weights of a bundle: a safetensors file, read and written by numpy alone."""

from __future__ import annotations

import json
import math

import numpy as np

from tacit.errors import BundleError

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
LARGEST_HEADER = 2**20 * 4


def write_weights(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays by name as the bytes of a safetensors file."""
    from safetensors.numpy import save

    return save({k: np.ascontiguousarray(v).reshape(np.shape(v) or (1,)) for k, v in arrays.items()})


def check_header(data: bytes) -> dict[str, tuple[str, tuple[int, ...], int, int]]:
    """Name -> type, shape, first byte, last byte of a safetensors file whose header is sound."""
    if len(data) < 8:
        raise BundleError("weights.safetensors is cut off")
    length = int.from_bytes(data[:8], "little")
    if length > min(LARGEST_HEADER, len(data) - 8):
        raise BundleError(f"weights.safetensors: its header claims {length:,} bytes; it is refused")
    try:
        header = json.loads(data[8 : 8 + length].decode())
        body = len(data) - 8 - length
        found = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            shape = tuple(entry["shape"])
            size = np.dtype(TYPES[entry["dtype"]]).itemsize * math.prod(shape)
            sound = all(isinstance(n, int) and 0 <= n < 2**40 for n in (*shape, first, last))
            if not sound or not 0 <= first <= last <= body or last - first != size:
                raise BundleError(f"weights.safetensors: {name[:80]!r} does not lie inside the file")
            found[name] = (entry["dtype"], shape, 8 + length + first, 8 + length + last)
        return found
    except BundleError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise BundleError(f"weights.safetensors: its header cannot be read ({type(error).__name__})") from None


def read_weights(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name."""
    return {
        name: np.frombuffer(data[first:last], dtype=TYPES[kind]).reshape(shape)
        for name, (kind, shape, first, last) in check_header(data).items()
    }
