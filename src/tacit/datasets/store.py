"""Where data files are looked for: TACIT_DATA, then the cache, then the publisher."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.datasets.where import WHERE
from tacit.errors import InputError


def cache_folder() -> Path:
    """Where downloads are kept; TACIT_CACHE overrides it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TACIT_CACHE") or Path(home) / "tacit")


def locate(relative: str) -> Path | None:
    """The path of a file or folder in TACIT_DATA or in the cache, or None."""
    roots = [Path(os.environ["TACIT_DATA"])] if os.environ.get("TACIT_DATA") else []
    for root in [*roots, cache_folder()]:
        for name in (relative, relative.removesuffix(".gz")):  # a table that was unpacked serves as well
            if (root / name).exists():
                return root / name
    return None


def require(relative: str, where_to_get: str) -> Path:
    """The file's path, or an error that says where to get it and where to put it."""
    found = locate(relative)
    if found is None:
        raise InputError(f"{_not_here(relative, where_to_get)} Put it at {_places(relative)}")
    return found


def packed(relative: str, name: str) -> Path:
    """As `require`, for a file that `tacit data prepare` writes."""
    found = locate(relative)
    if found is None:
        raise InputError(
            f"{_not_here(relative, WHERE[name])} Then: tacit data prepare {name} FOLDER. That packs it as "
            f"{_places(relative)}"
        )
    return found


def _not_here(relative: str, where_to_get: str) -> str:
    return f"data file {relative} is not here. Get it: {where_to_get}."


def _places(relative: str) -> str:
    return (
        f"$TACIT_DATA/{relative} (set the environment variable TACIT_DATA to a folder of your choice), or as "
        f"{relative} in the cache folder ({cache_folder()})"
    )


def download(url: str, checksum: str, folder: str) -> Path:
    """Fetch one file of a publisher into the cache and check it; a partial file is never kept."""
    import pooch  # only those who download need it

    try:
        return Path(pooch.retrieve(url, known_hash=checksum, path=cache_folder() / folder, fname=url.rsplit("/", 1)[1]))
    except Exception as error:
        raise InputError(
            f"{url} could not be downloaded ({error}); check the network, or get "
            f"{WHERE[folder]} elsewhere, and run: tacit data prepare {folder} FOLDER"
        ) from error
