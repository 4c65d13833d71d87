"""One run of one experiment: its settings, what is finished, its rows, its figures.

An experiment is a function of a `Run`. It asks `run.part(...)` for each piece of work, so that an interrupted
full run goes on where it stopped; it tells its figures with `run.row`, `run.audited` and `run.figure`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from papers.common.papers import Paper
from papers.common.part import Work, finished, machine
from papers.common.shown import shown
from papers.common.tables import script_of
from papers.common.waves import Wanted, done
from tacit.errors import InputError
from tacit.files import write_whole
from tacit.report.report import Report, provenance
from tacit.report.results import AnyResult, NumberResult

Tell = Callable[[str], None]


class Run:
    """What an experiment is given.

    Parameters
    ----------
    paper, experiment : what is run
    quick : the small settings; nothing under `papers/` is written
    seeds : how many, over what settings.toml says
    out : where a quick run, or one on data of your own, writes its entry and figures
    again : forget finished parts
    data : a set that the paper uses and that only its owners have; settings.toml has its `[EXPERIMENT.owned.NAME]`

    Attributes
    ----------
    settings : the experiment's section of settings.toml, full or quick
    seeds : range of the seeds to run
    """

    def __init__(
        self,
        paper: Paper,
        experiment: str,
        quick: bool = False,
        seeds: int | None = None,
        out: Path | None = None,
        again: bool = False,
        tell: Tell | None = None,
        data: str | None = None,
    ) -> None:
        if (quick or data) and out is None:
            raise InputError("a quick run and one on data of your own need a folder (out=); results.json is not theirs")
        self.paper, self.experiment, self.quick, self.data = paper, experiment, quick, data
        self.settings = paper.settings_of(experiment, quick, data)
        if seeds is not None:
            self.settings["seeds"] = seeds
        self.seeds = range(int(self.settings["seeds"]))
        self.folder = out if (quick or data) and out is not None else paper.folder
        self.tell = tell or (lambda text: None)
        self._missing: dict[str, Work] | None = None
        self._begin()
        self._finished = {} if quick or again else self._earlier()

    def _begin(self) -> None:
        """Nothing has been told yet."""
        self.rows: list[dict[str, Any]] = []
        self.summary: list[dict[str, Any]] = []
        self.figures: list[str] = []
        self.measured_by: list[dict[str, str]] = []
        self.notes: list[str] = []
        self._asked: dict[str, dict[str, Any]] = {}

    # -- work -----------------------------------------------------------------------------------

    def part(self, key: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """`work(*arguments)`, or what it gave before: finished parts of a full run are not done again.

        The result must be plain data (it is kept as JSON). A part is done again when its arguments have
        changed (in a table of settings other than in title and number of seeds), or its function's text.
        """
        asked = Work(work, arguments)
        same, stamp = self._finished.get(key), asked.stamp
        if same is None or same["stamp"] != stamp:
            if self._missing is not None:
                self._missing[key] = asked
                return Wanted()
            self.tell(f"{self.paper.name}/{self.experiment}: {key}")
            same = finished(asked)
        self._asked[key] = same
        self._keep_part(key, same)
        return same["value"]

    def parts_in_parallel(self, jobs: int) -> None:
        """Work out the parts in so many processes; a part that needs another's value comes in a later wave."""
        while missing := self._still_missing():
            for key, result in done(missing, jobs):
                self.tell(f"{self.paper.name}/{self.experiment}: {key}")
                self._keep_part(key, result)

    def _still_missing(self) -> dict[str, Work]:
        """What the experiment asks for up to the first value that is not there."""
        self._missing = {}
        try:
            self.paper.experiments[self.experiment](self)
        except Exception:  # for want of a value; where none is missing it is an error of the experiment's own
            if not self._missing:
                raise
        missing, self._missing = self._missing, None
        self._begin()
        return missing

    def _keep_part(self, key: str, part: dict[str, Any]) -> None:
        self._finished[key] = part
        if not self.quick:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._unfinished, json.dumps(self._finished))

    def recorded(self, command: str, machine: str) -> Any:
        """Figures that a script wrote beside itself; the entry says by which command, on which machine."""
        path = self.paper.folder.parent.parent / script_of(command).with_suffix(".json")
        if not path.exists():
            raise InputError(f"no figures {path.name}; run `{command}` first")
        self.measured_by.append({"command": command, "machine": machine})
        return json.loads(path.read_text(encoding="utf-8"))

    # -- what was found -------------------------------------------------------------------------

    def row(
        self,
        what: str,
        measure: str,
        printed: float | str | None = None,
        ours: float | None = None,
        adaptive: float | None = None,
        interval: Sequence[float] | None = None,
        by: str | None = None,
        guessing: float | None = None,
    ) -> None:
        """One line of the table "printed | ours | ours, strong adaptive attacker".

        `interval` is that of `adaptive`, or of `ours` where there is no attacker; `by` names the attacker;
        `guessing` is what somebody gets in this measure who sees no release, told beside its name.
        """
        if adaptive is not None and interval is None:
            raise InputError(f"{self.experiment}, {what}: an attacker's figure needs its interval")
        self.rows.append(
            {
                "what": what,
                "measure": measure if guessing is None else f"{measure} (guessing {shown(guessing)})",
                "printed": printed,
                "ours": ours,
                "adaptive": adaptive,
                "interval": None if interval is None else [float(v) for v in interval],
                "by": by,
            }
        )

    def audited(
        self,
        method: str,
        data: str,
        audits: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        floor: Mapping[str, Any] | None = None,
        compared: bool = False,
    ) -> None:
        """Lines of the summary of all papers: the honest columns of an audit (see `honest`).

        Several seeds' audits are told as one (`together`).
        `floor` is an audit on the same rows that measured the label-only release, where these did not.
        `compared` lines are cells of the summary's grid, methods by data, all measured by one protocol.
        """
        chosen = together([audits] if isinstance(audits, Mapping) else list(audits))
        floor = chosen if floor is None else floor
        for secret, leakage in chosen["leakage"].items():
            for target in chosen["utility"] or {"": None}:
                self.summary.append(
                    {
                        "method": method,
                        "data": data,
                        "target": target,
                        "utility": chosen["utility"].get(target),
                        "secret": secret,
                        "leakage": leakage,
                        "certificate": chosen["certificate"].get(secret),
                        "label_only": floor["label_only"].get(secret),
                        "label_only_utility": floor["label_only_utility"].get(target),
                        "seeds": leakage["seeds"],
                        "compared": compared,
                    }
                )

    def figure(self, name: str, figure: Figure) -> None:
        """Write a figure beside the README; the same figure gives the same bytes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            figure.savefig(self.folder / f"{name}.svg", metadata={"Date": None}, dpi=64)
        self.figures.append(f"{name}.svg")

    def note(self, text: str) -> None:
        """A sentence under the table."""
        self.notes.append(text)

    # -- keeping it -----------------------------------------------------------------------------

    def entry(self) -> dict[str, Any]:
        """What results.json keeps of this run."""
        flags = (f" --data {self.data}" if self.data else "") + (" --quick" if self.quick else "") + self._seeds_flag()
        return {
            "title": self.settings.get("title", self.experiment),
            "command": f"tacit reproduce {self.paper.name}/{self.experiment}{flags}",
            "measured_by": self.measured_by,
            "settings": {k: v for k, v in self.settings.items() if k != "title"},
            "seeds": list(self.seeds),
            "versions": _versions(),
            "machine": "; ".join(sorted({p["machine"] for p in self._asked.values()})) or machine(),
            "seconds": round(sum(p["seconds"] for p in self._asked.values()), 1),
            "rows": self.rows,
            "summary": self.summary,
            "figures": self.figures,
            "notes": self.notes,
            "raw": self._asked,
        }

    def keep(self) -> Path:
        """Write the entry: into results.json, or for a quick run into a file of its own."""
        path = self.folder / ("quick.json" if self.quick else "results.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known[self.experiment] = self.entry()
        order = [e for e in self.paper.experiments if e in known]
        write_whole(path, json.dumps({e: known[e] for e in order}, indent=1) + "\n")
        if not self.quick:
            self._unfinished.unlink(missing_ok=True)
        return path

    def _earlier(self) -> dict[str, Any]:
        """Finished parts: of the last whole run, and over them those of one that was interrupted."""
        path = self.folder / "results.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        entry = known.get(self.experiment, {})
        done = {key: {"machine": entry["machine"], **part} for key, part in entry.get("raw", {}).items()}
        if self._unfinished.exists():
            done |= json.loads(self._unfinished.read_text(encoding="utf-8"))
        return done

    @property
    def _unfinished(self) -> Path:
        return self.folder / f".unfinished-{self.experiment}.json"

    def _seeds_flag(self) -> str:
        usual = self.paper.settings_of(self.experiment, self.quick, self.data)["seeds"]
        return "" if usual == len(self.seeds) else f" --seeds {len(self.seeds)}"


def honest(report: Report) -> dict[str, Any]:
    """An audit as plain data: what `Run.audited` shows, with every attacker's figure."""
    bounds = {s: None if c is None else round(c.bound, 5) for s, c in report.certificate.items()}
    return {
        "utility": {k: _result(r) for k, r in report.utility.items()},
        "leakage": {k: _result(r) for k, r in report.leakage.items()},
        "certificate": bounds,
        "label_only": {k: _result(r) for k, r in report.label_only.items()},
        "label_only_utility": {k: _result(r) for k, r in report.label_only_utility.items()},
    }


def by_attacker(result: Mapping[str, Any] | None) -> dict[str, Any]:
    """A result of `honest` as the arguments of `Run.row` that tell it; nothing where there is none."""
    if result is None:
        return {}
    return {"adaptive": result["value"], "interval": (result["low"], result["high"]), "by": result["by"]}


def together(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several seeds' audits of one release (plain data of `honest`) as one, of the same shape.

    Values are means; intervals are over seeds and rows together (`over_seeds`). Of the seeds' bounds on any
    attacker the largest is told, and none where one seed has none.
    """
    out: dict[str, Any] = {}
    for kind in ("utility", "leakage", "label_only", "label_only_utility"):
        of = [a.get(kind) or {} for a in audits]
        out[kind] = {k: over_seeds([a[k] for a in of]) for k in of[0] if all(a.get(k) is not None for a in of)}
    bounds = {s: [a["certificate"].get(s) for a in audits] for s in audits[0]["certificate"]}
    out["certificate"] = {s: None if None in found else max(found) for s, found in bounds.items()}
    return out


def over_seeds(results: Sequence[Mapping[str, Any]], lowest: float = 0.0) -> dict[str, Any]:
    """One figure of several seeds: the mean, and a 95 % interval over seeds and rows together.

    The seeds share their test rows, so that what the rows leave open (the mean arm of the seeds' intervals) does not
    shrink with more seeds. What the seeds leave open is Student's interval of their mean. The two add as squares.
    The interval is cut at `lowest` (minus infinity for R², which has no lower limit) and at 1.

    Examples
    --------
    >>> one = {"low": 0.5, "high": 0.7, "value": 0.6, "by": "mlp"}
    >>> two = over_seeds([one, {**one, "low": 0.6, "high": 0.8, "value": 0.7, "by": "trees"}])
    >>> [round(two[k], 2) for k in ("value", "low", "high")], two["by"], two["seeds"]
    ([0.65, 0.01, 1.0], 'mlp, trees', 2)
    """
    first, values = results[0], np.array([r["value"] for r in results], float)
    value = float(values.mean())
    numbers = [k for k, v in first.items() if isinstance(v, float) and all(r.get(k) is not None for r in results)]
    told = {
        **first,
        **{k: round(float(np.mean([r[k] for r in results])), 5) for k in numbers},
        "value": round(value, 5),
    }
    spread = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    told["value"] = round(value, 5)
    if "low" in first:
        arms = [np.hypot(np.mean([abs(r[end] - r["value"]) for r in results]), spread) for end in ("low", "high")]
        told |= {
            "low": round(float(max(lowest, value - arms[0])), 5),
            "high": round(float(min(1.0, value + arms[1])), 5),
        }
    if "by" in first:
        told["by"] = ", ".join(sorted({str(r["by"]) for r in results}))
    return {**told, "seeds": len(results), "values": values.tolist()}


def run_experiment(run: Run, jobs: int = 1) -> Path:
    """Run it, its parts in so many processes, and keep what it found."""
    if run.quick:
        shutil.rmtree(run.folder, ignore_errors=True)
    if jobs > 1:
        run.parts_in_parallel(jobs)
    run.paper.experiments[run.experiment](run)
    if not run.rows:
        raise InputError(f"{run.paper.name}/{run.experiment} told no row; call run.row for each printed figure")
    return run.keep()


def _result(r: AnyResult) -> dict[str, Any]:
    assert not isinstance(r, NumberResult), "the papers' tables are of classes"
    return {
        "value": round(r.value, 5),
        "low": round(r.low, 5),
        "high": round(r.high, 5),
        "guessing": round(r.guessing, 5),
        "accuracy": round(r.accuracy.value, 5),
        "auc": round(r.auc.value, 5),
        "by": r.attacker,
        "n": r.n,
        "attackers": {k: round(m.value, 5) for k, m in r.attackers.items()},
    }


def _versions() -> dict[str, str]:
    import torch

    return {**provenance()["versions"], "torch": torch.__version__}
