"""The state of every equation, algorithm, table and figure of a paper: `items.toml`, told in papers/README.md.

[[item]]
number = "29"                                  # the review's
item = "Fig. 3 and its conclusion"
state = "done"                                 # done, partial or missing
where = "papers/minimax-filter/reproduce.py: fig3"
test = "tests/test_conclusions.py: test_every_sentence_is_what_the_results_say"
remark = "EMO-DB stands in for eNTERFACE"
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.common.papers import all_papers

STATES = ("done", "partial", "missing")
KEYS = ("number", "item", "state", "where", "test", "remark")


def items_of(folder: Path) -> list[dict[str, str]]:
    """The items of one paper, in its order; none before the file is written."""
    path = folder / "items.toml"
    if not path.exists():
        return []
    return [dict.fromkeys(KEYS, "") | item for item in tomllib.loads(path.read_text(encoding="utf-8"))["item"]]


def told(papers: Path) -> str:
    """The block of papers/README.md: how many are in which state, then every item."""
    found = {name: items_of(papers / name) for name in all_papers(papers)}
    found = {name: items for name, items in found.items() if items}
    if not found:
        return "Not written yet.\n"
    out = ["| paper | " + " | ".join(STATES) + " |", "|---|" + "---|" * len(STATES)]
    out += [f"| {name} | " + " | ".join(str(_count(items, s)) for s in STATES) + " |" for name, items in found.items()]
    for name, items in found.items():
        out += ["", f"**{name}**", "", "| # | item | state | where | test | remark |", "|---|---|---|---|---|---|"]
        out += ["| " + " | ".join(_cell(k, i[k]) for k in KEYS) + " |" for i in items]
    return "\n".join(out) + "\n"


def _count(items: Sequence[Mapping[str, str]], state: str) -> int:
    return Counter(i["state"] for i in items)[state]


def _cell(key: str, text: str) -> str:
    text = text.replace("|", "\\|")
    return f"`{text}`" if key in ("where", "test") and text else text
