"""Fetch what runs a filter in the browser: onnxruntime-web, from npm, at build time: python -m tacit.serve.browser

The package comes from the registry that npm is configured for. Its hash is pinned here, and so are the hashes of the
three files that are unpacked from it; they are not part of this repository.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tacit.errors import InputError
from tacit.files import write_whole

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
# SHA-384 of each, of the package above: they are checked again whenever a service starts
FILES = {
    "ort.wasm.min.mjs": "SfFfy/pvthiOsgaw3KX0bV5TfQ6Iq+oY9KutMe4SxIuHH4cl+DCSD4rTsYOoG1tJ",
    "ort-wasm-simd-threaded.mjs": "XcXA/MtAf0WpB8e023xQH9CM7RIjiugakT7x99DIwpFf7k56BIFFcAPerIF7FDad",
    "ort-wasm-simd-threaded.wasm": "vjBJ1z7qrhkTyYsNqKeF6c7N+nOJSU94czEo+tvZcu8G75JparGq9kB+kTnEUNVM",
}
FOLDER = Path(__file__).parent / "page" / "runtime"


def present() -> bool:
    """Return whether the files are here, as they were pinned."""
    check_files()
    return all((FOLDER / name).is_file() for name in FILES)


def check_files() -> None:
    """Raise `InputError` where a file is here and is not the pinned one. A service calls this when it starts."""
    for name, pinned in FILES.items():
        path = FOLDER / name
        if path.is_file() and base64.b64encode(hashlib.sha384(path.read_bytes()).digest()).decode() != pinned:
            raise InputError(
                f"{path} is not the file that was pinned; delete it and run: python -m tacit.serve.browser"
            )


def fetch() -> Path:
    """Fetch, check and unpack the files, unless they are here. Returns their folder."""
    if present():
        return FOLDER
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("npm is not here; install Node.js to fetch the browser's runtime (the service runs without)")
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent"], cwd=folder, capture_output=True, text=True, timeout=600
        )
        archives = list(Path(folder).glob("*.tgz"))
        if ran.returncode or len(archives) != 1:
            raise InputError(f"npm could not fetch {PACKAGE}@{VERSION}: {ran.stderr.strip()[-300:]}")
        unpack(archives[0])
    return FOLDER


def unpack(archive: Path, folder: Path = FOLDER) -> None:
    """Unpack the needed files of the package if its hash is the pinned one."""
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        raise InputError(f"{archive.name} is not the package that was pinned: its SHA-512 is {found}; nothing was used")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as package:
        for name in FILES:
            member = package.extractfile(f"package/dist/{name}")
            assert member is not None  # the hash says so
            write_whole(folder / name, member.read())


if __name__ == "__main__":
    try:
        print(f"{PACKAGE} {VERSION}: {fetch()}")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
