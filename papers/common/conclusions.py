"""Sentences that name a figure, each a function of results.json: recomputed by every run, and true or an error.

A paper's `conclusions.py` has `CONCLUSIONS = {experiment: [function, ...]}`. A function reads figures from a `Reading`,
says with `read.holds(...)` what must be true of them, and returns its sentence; the README's block is written from it.
So no sentence outlives its figures. One that rests on fewer than three seeds must say so ("one seed", "two seeds").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from papers.common.papers import Paper, import_script
from papers.common.shown import shown
from tacit.errors import TacitError

FEWEST = 3  # seeds under a sentence that does not say how many
FEW = re.compile(r"\b(one|two) seeds?\b")


class NotFoundError(TacitError):
    """What a sentence says is not what the results say."""


@dataclass(frozen=True)
class Figure:
    """One number with what belongs to it; in a sentence it is written as the tables write it."""

    value: float
    low: float | None = None
    high: float | None = None
    guessing: float | None = None
    seeds: int = 1

    def __format__(self, spec: str) -> str:
        """`{x}` is .142; `{x:interval}` is .142 [.084, .219]."""
        if spec == "interval" and self.low is not None:
            return f"{shown(self.value)} [{shown(self.low)}, {shown(self.high)}]"
        return shown(self.value)

    @property
    def above_guessing(self) -> bool:
        """Whether the whole interval is above what guessing gets."""
        assert self.low is not None
        assert self.guessing is not None
        return self.low > self.guessing


@dataclass
class Reading:
    """The results that a sentence is read from; it remembers how many seeds they rest on.

    `results` are a paper's entries by experiment; `experiment` is the one meant where none is named.
    """

    results: Mapping[str, Any]
    experiment: str
    fewest: int = field(default=10**6, init=False)
    asked: int = field(default=0, init=False)

    def leak(self, method: str, secret: str, experiment: str | None = None, data: str | None = None) -> Figure:
        """What the best fresh attacker reads (the summary's line of the experiment)."""
        return self._figure(self._line("leakage", method, secret, experiment, data))

    def kept(self, method: str, target: str, experiment: str | None = None, data: str | None = None) -> Figure:
        """What the release keeps, measured beside that attack."""
        return self._figure(self._line("utility", method, target, experiment, data))

    def bound(self, method: str, secret: str, experiment: str | None = None, data: str | None = None) -> float | None:
        """What bounds any attacker, or None."""
        return self._found(self._lines(method, experiment, data), "secret", secret)["certificate"]

    def ours(self, what: str, measure: str, experiment: str | None = None) -> Figure:
        """The column "ours" of the row that is called `what`, its measure beginning with `measure`."""
        entry = self._entry(experiment)
        rows = [r for r in entry["rows"] if r["what"] == what and r["measure"].startswith(measure)]
        if len(rows) != 1 or rows[0]["ours"] is None:
            raise NotFoundError(f"{len(rows)} rows of {self.experiment} are called {what!r}, {measure!r}")
        own = rows[0]["interval"] if rows[0]["adaptive"] is None and rows[0]["interval"] else (None, None)
        return self.figure(rows[0]["ours"], len(entry["seeds"]), *own)

    def figure(self, value: float, seeds: int, low: float | None = None, high: float | None = None) -> Figure:
        """A number read elsewhere (`raw`), of so many seeds."""
        self.fewest = min(self.fewest, seeds)
        return Figure(value, low, high, seeds=seeds)

    def rows(self, seeds: int, experiment: str | None = None) -> list[Mapping[str, Any]]:
        """All rows of the table, of so many seeds: for sentences that count."""
        self.fewest = min(self.fewest, seeds)
        return self._entry(experiment)["rows"]

    def lines(self, experiment: str | None = None) -> list[Mapping[str, Any]]:
        """All audited lines of the summary: for sentences that count."""
        lines = self._entry(experiment)["summary"]
        self.fewest = min([self.fewest, *(line["seeds"] for line in lines)])
        return lines

    def raw(self, part: str, experiment: str | None = None) -> Any:
        """What `run.part(part, ...)` gave. Tell numbers from it with `figure`, so that their seeds are counted."""
        return self._entry(experiment)["raw"][part]["value"]

    @property
    def few(self) -> str:
        """ " (one seed)" or " (two seeds)" where what was read so far rests on so few, else nothing."""
        return {1: " (one seed)", 2: " (two seeds)"}.get(self.fewest, "")

    def holds(self, condition: bool, what: str = "") -> None:
        """What must be true for the sentence to be written."""
        self.asked += 1
        if not condition:
            raise NotFoundError(f"{self.experiment}: the results no longer say so{': ' + what if what else ''}")

    def _entry(self, experiment: str | None) -> Mapping[str, Any]:
        return self.results[experiment or self.experiment]

    def _line(self, kind: str, method: str, label: str, experiment: str | None, data: str | None) -> Mapping[str, Any]:
        key = {"leakage": "secret", "utility": "target"}[kind]
        return self._found(self._lines(method, experiment, data), key, label)[kind]

    def _lines(self, method: str, experiment: str | None, data: str | None) -> list[Mapping[str, Any]]:
        lines = self._entry(experiment)["summary"]
        return [line for line in lines if line["method"] == method and data in (None, line["data"])]

    def _found(self, lines: Sequence[Mapping[str, Any]], key: str, label: str) -> Mapping[str, Any]:
        for line in lines:
            if line[key] == label:
                return line
        raise NotFoundError(f"{self.experiment} has no audited line with {key} {label!r} of that method")

    def _figure(self, told: Mapping[str, Any]) -> Figure:
        seeds = int(told.get("seeds", 1))
        self.fewest = min(self.fewest, seeds)
        return Figure(told["value"], told.get("low"), told.get("high"), told.get("guessing"), seeds)


Conclusion = Callable[[Reading], str]


def conclusions_of(paper: Paper) -> Mapping[str, Sequence[Conclusion]]:
    """What a paper's `conclusions.py` says, by experiment; nothing where there is no such file."""
    path = Path(paper.folder) / "conclusions.py"
    if not path.exists():
        return {}
    return import_script(path, f"papers.{paper.name}.conclusions").CONCLUSIONS


def sentence(conclusion: Conclusion, results: Mapping[str, Any], experiment: str) -> str:
    """The sentence, recomputed. An error where the results do not say so, or seeds are too few and unsaid."""
    read = Reading(results, experiment)
    text = conclusion(read)
    name = getattr(conclusion, "__name__", experiment)
    if not read.asked:
        raise NotFoundError(f"{experiment}, {name}: a sentence must say what has to be true for it (read.holds)")
    if read.fewest < FEWEST and not FEW.search(text):
        raise NotFoundError(f"{experiment}, {name}: rests on {read.fewest} seed(s) and does not say so: {text}")
    return text


def overall(folder: Path, papers: Sequence[Paper]) -> list[str]:
    """The sentences of papers/README.md: `papers/conclusions.py`, whose readings are `PAPER/EXPERIMENT`."""
    path = folder / "conclusions.py"
    if not path.exists():
        return []
    results = {f"{p.name}/{e}": entry for p in papers for e, entry in p.results.items()}
    return [sentence(c, results, "papers/README.md") for c in import_script(path, "papers.conclusions").CONCLUSIONS]
