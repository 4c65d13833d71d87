"""`python -m papers.data`: list the data sets; `python -m papers.data NAME FOLDER`: pack a publisher's own files."""

from __future__ import annotations

import argparse

from papers.data import REGISTRY, prepare

parser = argparse.ArgumentParser(prog="python -m papers.data", description=__doc__)
parser.add_argument("name", nargs="?", choices=sorted(REGISTRY))
parser.add_argument("folder", nargs="?", help="what the publisher hands out: a folder or an archive")
parser.add_argument("--out", help="where to write; the folder of TACIT_DATA by default, else the cache")
given = parser.parse_args()
if given.name and given.folder:
    for path in prepare(given.name, given.folder, given.out):
        print(f"wrote {path}")
else:
    for name, known in sorted(REGISTRY.items()):
        if given.name in (None, name):
            print(f"{name:12}{'here' if known.present else 'not here':10}{known.where}")
