"""What each paper can run: the folders `papers/<name>/`, all of the same shape."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from papers.common.run import Run

PAPERS = Path(__file__).parents[1]
Experiment = Callable[["Run"], None]


@dataclass(frozen=True)
class Paper:
    """One folder of `papers/`: its experiments, their settings, and the results so far."""

    folder: Path
    settings: Mapping[str, Any]
    experiments: Mapping[str, Experiment]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def results(self) -> dict[str, Any]:
        """Entries of results.json by experiment; empty before the first full run."""
        path = self.folder / "results.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def settings_of(self, experiment: str, quick: bool, data: str | None = None) -> dict[str, Any]:
        """What settings.toml says, with the entries of `[experiment.quick]` over the full ones in a quick run.

        `data` lays `[experiment.owned.DATA]` over both: what changes when the owner of a set runs the experiment on it.
        """
        full = dict(self.settings.get(experiment, {}))
        small, owned = full.pop("quick", {}), full.pop("owned", {})
        out = {"seeds": 1, **full, **(small if quick else {})}
        if data is None:
            return out
        if data not in owned:
            known = f"it takes {', '.join(owned)}" if owned else "it has its own data only"
            raise InputError(f"{self.name}/{experiment} does not take --data {data}; {known}")
        of = dict(owned[data])
        small = of.pop("quick", {})
        return {**out, "needs": [data], **of, **(small if quick else {})}

    def missing_data(self, experiment: str, data: str | None = None) -> list[str]:
        """Data sets the experiment needs that are not on this machine."""
        from papers.data import REGISTRY

        needs = self.settings_of(experiment, quick=False, data=data).get("needs", [])
        return [name for name in needs if name in REGISTRY and not REGISTRY[name].present]


def all_papers(folder: Path = PAPERS) -> list[str]:
    """Names of the papers that can be run."""
    return sorted(p.parent.name for p in folder.glob("*/reproduce.py"))


def load_paper(name: str, folder: Path = PAPERS) -> Paper:
    """One paper, its `reproduce.py` imported.

    Examples
    --------
    >>> load_paper("no-such-paper", Path("papers"))  # doctest: +SKIP
    Traceback (most recent call last):
    tacit.errors.InputError: no paper is called 'no-such-paper'; the papers are ...
    """
    if name not in all_papers(folder):
        raise InputError(f"no paper is called {name!r}; the papers are {', '.join(all_papers(folder)) or 'none yet'}")
    home = folder / name
    settings = tomllib.loads((home / "settings.toml").read_text(encoding="utf-8"))
    module = import_script(home / "reproduce.py", f"papers.{name}")
    return Paper(home, settings, module.EXPERIMENTS)


def choose(asked: str | None, everything: bool, folder: Path = PAPERS) -> list[tuple[Paper, str]]:
    """`eigan/table1`, `eigan` (all of it), or everything -> the experiments to run, in order.

    A figure that an experiment makes beside the one it is named for will do: `[also]` in settings.toml says whose.
    """
    if (asked is None) != everything:
        raise InputError("say which: PAPER/EXPERIMENT (tacit reproduce --list shows them), PAPER, or --all")
    if asked is None:
        return [(paper, e) for n in all_papers(folder) for paper in [load_paper(n, folder)] for e in paper.experiments]
    name, _, experiment = asked.strip("/").partition("/")
    paper = load_paper(name, folder)
    experiment = paper.settings.get("also", {}).get(experiment, experiment)
    if experiment and experiment not in paper.experiments:
        raise InputError(f"{name} has no experiment {experiment!r}; it has {', '.join(paper.experiments)}")
    return [(paper, e) for e in ([experiment] if experiment else paper.experiments)]


def import_script(path: Path, name: str) -> ModuleType:
    """A script as a module, without putting its folder on the import path.

    The script can import what lies beside it, as `from .protocol import audit`.
    """
    for old in [m for m in sys.modules if m.startswith(f"{name}.")]:
        del sys.modules[old]  # a file beside the script is read afresh with it
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    assert spec is not None
    assert spec.loader is not None  # a .py file always has both
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
