"""The process that loads a stranger's bundle first: python -m tacit.release.first_use NAME BYTES SECONDS < FILE"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np

from tacit.errors import TacitError
from tacit.release.answer import Answerer
from tacit.release.bundle import Bundle, parse_bundle
from tacit.release.first_load import trust
from tacit.release.runtime import Release

ROWS = 3


def limit(memory: int, seconds: int) -> None:
    """From now on this process may take so much more memory, and so many seconds of the processor."""
    try:
        import resource  # not on Windows, where time alone is limited
    except ImportError:
        return
    pages = Path("/proc/self/statm")
    if pages.exists():
        taken = int(pages.read_text().split()[5]) * resource.getpagesize()  # data and stack
        resource.setrlimit(resource.RLIMIT_DATA, (taken + memory, taken + memory))
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds + 1, used + seconds + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def use(bundle: Bundle) -> None:
    """Load all that is in a bundle, and release a few records that are nobody's."""
    trust(bundle)  # in here it is used at once
    release = Release(bundle)
    if bundle.manifest.get("analyzer") is not None:
        Answerer(bundle)
    made = release._schema.made_up(ROWS, np.random.default_rng(0))
    release.noiseless(made)
    release.encoded(made)


def main() -> None:
    """Try the bundle on stdin; say on stdout why it is refused."""
    name, memory, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit(memory, seconds)
    try:
        data = sys.stdin.buffer.read()
        use(parse_bundle(io.BytesIO(data), len(data), name))
    except MemoryError:
        said = f"{name} takes more than {memory // 2**20} MB; it is refused"
    except TacitError as error:
        said = str(error)
    else:
        return
    print(json.dumps({"refused": said}))
    sys.exit(3)


if __name__ == "__main__":
    main()
