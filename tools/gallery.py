"""The reports of docs/gallery, written again by today's template: python tools/gallery.py [--measure]

A report holds the audits that it shows, so it can be written again from itself, and no figure changes. With --measure
the releases are made and attacked anew first (half a minute): the figures are then today's as well.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tacit.report import Report
from tacit.report.page import page_text

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "gallery"
TACIT = [sys.executable, "-P", "-m", "tacit"]
PEOPLE = "people.csv --target income --sensitive sex --out people"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--measure", action="store_true")
    if arguments.parse_args().measure:
        measure()
    for path in sorted(FOLDER.glob("*.html")):
        before = path.read_text(encoding="utf-8")
        after = again(before)
        path.write_text(after, encoding="utf-8")
        print(f"{path.name}: {'as it was' if before == after else 'written again'}")


def again(page: str) -> str:
    """The page that today's template makes of the audits in this one."""
    title, introduction = re.search(r"<h1>(.*?)</h1>\n(?:<p>(.*?)</p>)?", page).groups()  # type: ignore[union-attr]
    data = re.search(r'<script type="application/json" id="audit">(.*?)</script>', page, re.S)
    assert data is not None
    reports = [Report.from_json(json.dumps(plain)) for plain in json.loads(data[1])["reports"]]
    return page_text(reports, html.unescape(title), html.unescape(introduction or ""))


def measure() -> None:
    with tempfile.TemporaryDirectory() as made:
        script = str(ROOT / "examples" / "ten_rows.py")
        for command in (
            [*TACIT, "demo", "--out", "digits"],
            [sys.executable, script, "--write", "people.csv"],
            [*TACIT, "fit", *PEOPLE.split()],
        ):
            subprocess.run(command, cwd=made, check=True)
        for name in ("digits", "people"):
            shutil.copy(Path(made, name, "report.html"), FOLDER / f"{name}.html")


if __name__ == "__main__":
    main()
