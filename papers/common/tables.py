"""The READMEs' tables, written from results.json between markers: no figure is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from papers.common import items, moved
from papers.common.conclusions import conclusions_of, overall, sentence
from papers.common.papers import Paper, all_papers, load_paper
from papers.common.shown import shown
from tacit.errors import InputError
from tacit.files import write_whole
from tacit.report.results import beats

BLOCK = re.compile(r"(<!-- results: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.S)
SAID, GRID, SUMMARY, MOVED, ITEMS = "conclusions", "grid", "summary", "moved", "items"  # blocks of papers/README.md
SOON = 60  # seconds: what takes less is told in seconds, or not at all beside a script that took far longer


def write_readme(paper: Paper) -> Path:
    """Rewrite the blocks of a paper's README from its results.json."""
    path = paper.folder / "README.md"
    return write_whole(path, readme(paper, path.read_text(encoding="utf-8")))


def readme(paper: Paper, text: str) -> str:
    """The README with every block `<!-- results: EXPERIMENT -->` ... `<!-- end -->` written anew."""
    found = [m["name"] for m in BLOCK.finditer(text)]
    if sorted(found) != sorted(paper.experiments):
        raise InputError(
            f"papers/{paper.name}/README.md has blocks for {', '.join(found) or 'nothing'}, but the experiments are "
            f"{', '.join(paper.experiments)}; give each a line `<!-- results: NAME -->` and a line `<!-- end -->`"
        )
    results, said = paper.results, conclusions_of(paper)

    def written(name: str) -> str:
        told = [sentence(c, results, name) for c in said.get(name, ())] if name in results else []
        return block(results.get(name), told)

    return BLOCK.sub(lambda m: f"{m[1]}{written(m['name'])}{m[3]}", text)


def block(entry: Mapping[str, Any] | None, said: Sequence[str] = ()) -> str:
    """One experiment: table, figures, what it says, notes, command, machine, minutes."""
    if entry is None:
        return "Not run yet.\n"
    out = [
        "| | measure | printed | ours | ours, strong adaptive attacker |",
        "|---|---|---|---|---|",
        *(_line(r) for r in entry["rows"]),
        "",
        *(f"![{entry['title']}]({f})" for f in entry["figures"]),
        *([""] if entry["figures"] else []),
        *(f"- {text}" for text in said),
        *([""] if said else []),
        *(line for n in entry["notes"] for line in (n, "")),
    ]
    for other in entry["measured_by"]:
        out += [f"Figures by `{other['command']}` ({other['machine']}).", ""]
    seeds = len(entry["seeds"])
    if entry["measured_by"] and entry["seconds"] < SOON:
        read = " and ".join(f"`{s.with_suffix('.json')}`" for s in scripts(entry))
        out.append(f"`{entry['command']}` reads them from {read}.")
    else:
        size = "".join(f", {k} {entry['settings'][k]}" for k in ("rows", "epochs") if k in entry["settings"])
        code = sorted({p["code"] for p in entry.get("raw", {}).values() if p.get("code")})
        took = f"{effort(entry)} on {entry['machine']}" + (f"; commit {', '.join(code)}" if code else "")
        out.append(f"`{entry['command']}`: {seeds} seed{'s' if seeds > 1 else ''}{size}; {took}.")
    return "\n".join(out) + "\n"


def effort(entry: Mapping[str, Any]) -> str:
    """What a full run took, or the scripts whose figures it read.

    Examples
    --------
    >>> effort({"seconds": 507.5, "measured_by": []})
    '8.5 min'
    >>> effort({"seconds": 0, "measured_by": [{"command": "python -m papers.eigan.federated --only iid"}]})
    'federated.py'
    """
    seconds = entry["seconds"]
    if entry["measured_by"] and seconds < SOON:
        return ", ".join(s.name for s in scripts(entry))
    return f"{seconds:.0f} s" if seconds < SOON else f"{seconds / 60:.1f} min"


def scripts(entry: Mapping[str, Any]) -> list[Path]:
    """The scripts that measured the figures of an entry."""
    return list(dict.fromkeys(script_of(other["command"]) for other in entry["measured_by"]))


def script_of(command: str) -> Path:
    """The script that a command runs, from the root of the checkout.

    Examples
    --------
    >>> [script_of(c).as_posix() for c in ("python benchmarks/adult.py", "python -m papers.task-mask.protocol -x")]
    ['benchmarks/adult.py', 'papers/task-mask/protocol.py']
    """
    words = command.split()
    return Path(words[2].replace(".", "/") + ".py" if words[1] == "-m" else words[1])


def write_summary(folder: Path) -> Path:
    """Rewrite the table of `papers/README.md` from all results."""
    path = folder / "README.md"
    return write_whole(path, summary(folder, path.read_text(encoding="utf-8")))


def summary(folder: Path, text: str) -> str:
    """The README of all papers with its blocks `<!-- results: grid -->` and `<!-- results: summary -->` anew."""
    if [m["name"] for m in BLOCK.finditer(text)] != [SAID, GRID, SUMMARY, MOVED, ITEMS]:
        raise InputError(
            f"papers/README.md needs the blocks {SAID}, {GRID}, {SUMMARY}, {MOVED} and {ITEMS} in this order, each a "
            f"line `<!-- results: NAME -->` and a line `<!-- end -->`"
        )
    papers = [load_paper(name, folder) for name in all_papers(folder)]
    lines = [
        (line["data"], line["target"], line["secret"], line["method"], paper.name, experiment, line)
        for paper in papers
        for experiment, entry in paper.results.items()
        for line in entry["summary"]
    ]
    blocks = {
        SAID: "".join(f"- {text}\n" for text in overall(folder, papers)) or "Not written yet.\n",
        GRID: grid([line[-1] for line in lines if line[-1].get("compared")]),
        SUMMARY: _listed([line for line in lines if not line[-1].get("compared")]),
        MOVED: moved.told(folder),
        ITEMS: items.told(folder),
    }
    return BLOCK.sub(lambda m: f"{m[1]}{blocks[m['name']]}{m[3]}", text)


def grid(cells: Sequence[Mapping[str, Any]]) -> str:
    """Methods by data: what is kept / what the best fresh attacker reads, with the bound on any attacker.

    A cross marks what label-only dominates (see `dominated`).
    """
    if not cells:
        return "Not run yet.\n"
    data = {c["data"]: c for c in cells}
    out = [
        "| kept / read | " + " | ".join(data) + " |",
        "|---|" + "---|" * len(data),
        "| *kept, withheld* | " + " | ".join(f"*{c['target']}, {c['secret']}*" for c in data.values()) + " |",
        "| guessing | "
        + " | ".join(f"{shown(c['utility']['guessing'])} / {shown(c['leakage']['guessing'])}" for c in data.values())
        + " |",
    ]
    for method in dict.fromkeys(c["method"] for c in cells):
        at = {c["data"]: c for c in cells if c["method"] == method}
        out.append(f"| {method} | " + " | ".join(_cell(at[d]) if d in at else "–" for d in data) + " |")
    return "\n".join(out) + "\n"


def dominated(line: Mapping[str, Any]) -> bool:
    """Whether label-only beats it, by the rule of the reports."""
    floor_use, floor_leak, use, leak = (
        SimpleNamespace(**line[k]) for k in ("label_only_utility", "label_only", "utility", "leakage")
    )
    return beats({line["target"]: floor_use}, floor_leak, {line["target"]: use}, leak)  # type: ignore[arg-type]


def _cell(line: Mapping[str, Any]) -> str:
    told = f"{_value(line['utility'])} / {_value(line['leakage'])}"
    if line["certificate"] is not None:
        told += f" ≤ {shown(line['certificate'])}"
    return told + (" ✗" if dominated(line) else "")


def _listed(lines: Sequence[tuple[Any, ...]]) -> str:
    out = [
        "| data | release | kept: accuracy (guessing) | label-only keeps | withheld: best adaptive attacker "
        "| guessing | label-only leaks | any attacker | command |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for data, target, secret, method, paper_name, experiment, line in sorted(lines, key=lambda x: x[:6]):
        leak = line["leakage"]
        kept = f"{target} {_value(line['utility'])}" if line["utility"] else "–"
        if line["utility"] and "guessing" in line["utility"]:
            kept += f" ({shown(line['utility']['guessing'])})"
        out.append(
            f"| {data} | {method} | {kept} "
            f"| {_value(line['label_only_utility'])} "
            f"| {secret} {shown(leak['value'])} [{shown(leak['low'])}, {shown(leak['high'])}] {leak['by']} "
            f"| {shown(leak['guessing'])} | {_value(line['label_only'])} "
            f"| {'none' if line['certificate'] is None else '≤ ' + shown(line['certificate'])} "
            f"| {paper_name}/{experiment} |"
        )
    return "\n".join(out) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    spread = "" if row["interval"] is None else f" [{shown(row['interval'][0])}, {shown(row['interval'][1])}]"
    ours, adaptive = shown(row["ours"]), shown(row["adaptive"])
    if row["adaptive"] is None:
        ours += spread
    else:
        adaptive += spread + (f" {row['by']}" if row["by"] else "")
    return f"| {row['what']} | {row['measure']} | {shown(row['printed'])} | {ours} | {adaptive} |"


def _value(result: Mapping[str, Any] | None) -> str:
    return "–" if result is None else shown(result["value"])
