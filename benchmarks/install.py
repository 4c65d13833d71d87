"""Megabytes and seconds of every way to install Tacit, and the seconds of `import tacit`.

    python benchmarks/install.py [tables train ...]
    python benchmarks/install.py --import

Each goes into an environment of its own, in a temporary folder. Megabytes (2**20 bytes) are those of all files that pip
put there, as the disk counts them, without pip itself; with and without the byte code that pip compiles (--no-compile
leaves it out). Seconds depend on the network and on pip's cache: they are printed, not compared. `--import` prints the
median of ten fresh processes, above that of an empty process, and installs nothing. Writes benchmarks/install.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEVICE = ["numpy", "onnxruntime"]  # with --no-deps: all that a bundle runs on
INSTALLS = {
    "release-only": DEVICE,
    "tables": [""],
    "train": ["[train]"],
    "deep": ["[deep]"],
    "serve": ["[serve]"],
    "federated": ["[federated]"],
    "all": ["[all]"],
}
OWN = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")
LIMITS = {"release-only": 150, "tables": 700}


def megabytes(folder: Path, byte_code: bool = True) -> float:
    """What a folder takes on the disk, without what the environment itself came with."""
    blocks = 0
    for path in folder.rglob("*"):
        top = path.relative_to(folder).parts[0]
        if top.split("-")[0] in OWN or path.is_dir() or path.is_symlink():
            continue
        if byte_code or "__pycache__" not in path.parts:
            blocks += path.stat().st_blocks
    return blocks * 512 / 2**20


def measure(name: str, wheel: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        one = name == "release-only"
        asked = ["--no-deps", str(wheel), *DEVICE] if one else [f"{wheel}{INSTALLS[name][0]}"]
        start = time.perf_counter()
        install = [python, "-P", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *asked]
        subprocess.run(install, check=True)
        seconds = time.perf_counter() - start
        subprocess.run([python, "-c", "import tacit; tacit.load"], check=True)
        site = next(Path(folder).glob("lib/python*/site-packages"))
        found = {"megabytes": megabytes(site), "without_byte_code": megabytes(site, False), "seconds": seconds}
        return {k: round(v, 1) for k, v in found.items()}


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("installs", nargs="*", choices=[*INSTALLS, []], help="which; all without it")
    parser.add_argument("--import", dest="importing", action="store_true", help="only the seconds of `import tacit`")
    chosen = parser.parse_args()
    kept = ROOT / "benchmarks" / "install.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    empty, ours = (statistics.median(seconds(code) for _ in range(10)) for code in ("pass", "import tacit"))
    results["import_seconds"] = ours - empty
    print(f"import tacit: {ours - empty:.3f} s above an empty process ({empty:.3f} s); at most .5 s are allowed")
    kept.write_text(json.dumps(results, indent=1) + "\n")
    if chosen.importing:
        return
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-P", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(build, check=True)
        wheel = next(Path(folder).glob("*.whl"))
        print(f"{'install':<14}{'MB':>8}{'MB, no byte code':>18}{'seconds':>9}{'limit':>7}")
        for name in chosen.installs or list(INSTALLS):
            results[name] = found = measure(name, wheel)
            limit = LIMITS.get(name, "")
            print(f"{name:<14}{found['megabytes']:>8}{found['without_byte_code']:>18}{found['seconds']:>9}{limit:>7}")
    kept.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
