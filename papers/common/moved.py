"""Two runs of the same experiments, on two machines: which figures move, by how much, and whether the sentences hold.

    python -m papers.common.moved papers/minimax-filter OTHER/results.json

adds a line to `papers/moved.json` for each experiment that both have run, on machines that differ, with the same
settings and seeds; papers/README.md tells them. Machines are what the entries themselves recorded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.common.conclusions import conclusions_of, sentence
from papers.common.papers import PAPERS, Paper, load_paper
from papers.common.shown import shown
from tacit.errors import TacitError
from tacit.files import write_whole

KEPT = "moved.json"
FIGURES = ("ours", "adaptive")


def moved(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Rows that both entries have, with how far their figures are apart; the farthest first."""
    rows = [{(r["what"], r["measure"].partition(" (")[0]): r for r in e["rows"]} for e in (one, other)]
    apart = [
        (" ".join(key), abs(rows[0][key][f] - rows[1][key][f]))
        for key in rows[0].keys() & rows[1].keys()
        for f in FIGURES
        if rows[0][key][f] is not None and rows[1][key][f] is not None
    ]
    return sorted(apart, key=lambda found: (-found[1], found[0]))


def failing(paper: Paper, results: Mapping[str, Any], experiment: str) -> list[str]:
    """Names of the sentences that do not hold in these results."""
    out = []
    for conclusion in conclusions_of(paper).get(experiment, ()):
        try:
            sentence(conclusion, {**paper.results, **results}, experiment)
        except TacitError:
            out.append(conclusion.__name__)
    return out


def stamps_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """What was worked out, part by part; nothing where the figures were only read from a script's file."""
    return {} if entry["measured_by"] else {name: part["stamp"] for name, part in entry["raw"].items()}


def compared(paper: Paper, other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One line for each experiment that ran on two machines; a copy is no second run, nor is that of other code."""
    lines = []
    for experiment, entry in other.items():
        kept = paper.results.get(experiment, entry)
        if kept["machine"] == entry["machine"] or any(kept[k] != entry[k] for k in ("settings", "seeds")):
            continue
        if not (stamps := stamps_of(entry)) or stamps != stamps_of(kept):
            continue
        apart = moved(kept, entry)
        if not apart:
            continue
        n = len(conclusions_of(paper).get(experiment, ()))
        lines.append(
            {
                "experiment": f"{paper.name}/{experiment}",
                "machines": [kept["machine"], entry["machine"]],
                "figures": len(apart),
                "moved": sum(d > 0.0005 for _, d in apart),
                "most": apart[0][1],
                "which": apart[0][0],
                "sentences": n,
                "failing": failing(paper, {experiment: entry}, experiment),
            }
        )
    return lines


def told(folder: Path) -> str:
    """The block of papers/README.md."""
    path = folder / KEPT
    if not path.exists():
        return "Not run yet.\n"
    return table(json.loads(path.read_text(encoding="utf-8")))


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    out = [
        "| experiment | kept results by | other machine | figures | move | by at most | which | sentences that hold |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        holds = f"{line['sentences'] - len(line['failing'])} of {line['sentences']}"
        holds += f" (not: {', '.join(line['failing'])})" if line["failing"] else ""
        out.append(
            f"| {line['experiment']} | {line['machines'][0]} | {line['machines'][1]} | {line['figures']} "
            f"| {line['moved']} | {shown(line['most'])} | {line['which'].replace('|', ' ')} | {holds} |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("paper", type=Path)
    asked.add_argument("other", type=Path)
    given = asked.parse_args()
    paper = load_paper(given.paper.name, given.paper.parent)
    lines = compared(paper, json.loads(given.other.read_text(encoding="utf-8")))
    path = PAPERS / KEPT
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [k for k in kept if k["experiment"] not in {line["experiment"] for line in lines}] + lines
    write_whole(path, json.dumps(sorted(kept, key=lambda k: k["experiment"]), indent=1) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
