"""The documentation: its Python runs, its commands exist, its site builds without a broken link."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
import typer

import tacit
from tacit.cli import app
from tacit.filters.registry import registered_filters

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
TEXTS = {name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")} | PAGES
FENCE = re.compile(r"^([ ]*)```(\w*)([^\n]*)\n(.*?)^\1```", re.S | re.M)
ADULT = "choosing.md"  # minutes on Adult: run by test_frontier.py, where it is slow


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """(what stands behind the language, the code) of a page's blocks in these languages."""
    return [(title, code) for _, language, title, code in FENCE.findall(TEXTS[page]) if language in languages]


def run_blocks(page: str, given: dict[str, Any], engines: Collection[str] = ()) -> None:
    names = {"__name__": "__main__", **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, code in blocks(page, "python"):
            tree = compile(code, page, "exec", ast.PyCF_ONLY_AST)
            needed = set(re.findall(r"needs (\w+)", title))
            if "not run" not in title and needed <= set(engines):  # the reader sees the title, and why
                exec(compile(tree, page, "exec"), names)  # later blocks go on from earlier ones


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": range(n),
            "job": rng.choice(["nurse", "clerk", "cook"], n),
            "pay": rng.normal(30, 5, n).round(2),
            "age": rng.integers(20, 70, n),
        }
    )


def device_files() -> dict[str, Any]:
    """What device.md takes as given: a bundle, its noise key, and a window."""
    X = np.random.default_rng(0).standard_normal((80, 2, 16))
    f = tacit.EIGAN(n_components=2, epochs=1, noise=0.3, random_state=0)
    tacit.save(f.fit(X, X[:, 0, 0] > 0, sensitive_features=X[:, 1, 0] > 0), "watch.tacit")
    Path("noise.key").write_text((f.noise_key or b"").hex())
    return {"window": X[0]}


def engines_files() -> dict[str, Any]:
    """What engines.md takes as given: a table, and the bundle of a filter fitted on such rows."""
    table = people().assign(person=np.arange(400) // 2, sex=np.where(np.arange(400) // 2 % 2, "f", "m"))
    table.to_parquet("people.parquet")
    X = table[["job", "pay", "age"]]
    f = tacit.CodebookFilter(4, random_state=0)
    f.fit(X, X["pay"] > 30, sensitive_features=X["job"])
    tacit.save(f, "people.tacit")
    return {}


PREPARE: dict[str, Callable[[], dict[str, Any]]] = {"engines.md": engines_files, "device.md": device_files}
TWICE = "index.md"  # the README's lines, which test_readme.py runs: here only when there is time
RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if page == TWICE else [])
    for page in PAGES
    if blocks(page, "python") and page != ADULT
]


@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = PREPARE.get(page, dict)()
    run_blocks(page, given)


@pytest.mark.slow  # engines take long to start; guards what the page says of them
@pytest.mark.engines
def test_blocks_of_large_engines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    needed = re.findall(r'title="needs (\w+)"', PAGES["engines.md"])
    here = {name for name in needed if importlib.util.find_spec(name)} - (
        {"pyspark"} if not shutil.which("java") else set()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = engines_files()
    run_blocks("engines.md", given, here)
    for name in here & {"pyspark", "ray", "daft"}:
        assert pd.read_parquet(f"released-{name.removeprefix('py')}")["id"].nunique() == 400
    if missing := sorted(set(needed) - here):
        pytest.skip(
            f"{', '.join(missing)} not here (pip install 'tacit[engines]'; Spark needs Java): their blocks were not run"
        )


def commands(page: str) -> list[list[str]]:
    """The words of every `tacit ...` of a page's shell blocks."""
    found = []
    for _, code in blocks(page, "bash", "sh", "console", "yaml"):
        for line in code.replace("\\\n", " ").splitlines():
            for part in re.split(
                r"\s(?:\||&&)\s", line.split(" #")[0].strip().removeprefix("$ ").removeprefix("- run: ")
            ):
                if part.strip().startswith("tacit "):
                    found.append(shlex.split(re.split(r"\s[<>]\s", part)[0])[1:])
    return found


def check(words: list[str]) -> None:
    """Fails unless the subcommand exists and click can parse the rest: names of options, their types, arguments."""
    command: click.Command = typer.main.get_command(app)
    context = click.Context(command, info_name="tacit")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, words = command.resolve_command(context, words)  # a verb may have two words
        assert found is not None
        command = found
        context = click.Context(command, parent=context, info_name=command.name)
    if "--help" not in words:
        command.parse_args(context, list(words))


COMMANDS = sorted({(page, *words) for page in TEXTS for words in commands(page)})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_parse(command: tuple[str, ...]) -> None:
    check(list(command[1:]))


@pytest.mark.parametrize("wrong", ["forget", "fit people.csv --goal income", "audit released.parquet --seed many"])
def test_wrong_commands_are_noticed(wrong: str) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        check(wrong.split())


def test_files_that_the_texts_name_exist() -> None:
    for name, text in TEXTS.items():
        for script in re.findall(r"`(?:python )?((?:benchmarks|tests|papers|docs|src)/[\w./-]+\.\w+)", text):
            assert (ROOT / script).exists(), f"{name}: {script}"
        for module in re.findall(r"`python -m ((?:papers|benchmarks)\.[\w.-]+)", text):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{name}: {module}"
        if name not in PAGES:  # the links of the site are checked when it is built
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
                assert (ROOT / link).exists(), f"{name}: {link}"


def verbs(command: click.Command, name: str) -> list[str]:
    """The full name of every command below this one."""
    if not isinstance(command, click.Group):
        return [name]
    return [verb for sub, found in command.commands.items() for verb in verbs(found, f"{name} {sub}")]


def test_the_page_of_commands_has_every_verb_and_no_other() -> None:
    told = re.findall(r"^\| `(tacit [a-z -]+)` \|", PAGES["cli.md"], re.M)
    assert sorted(told) == sorted(verbs(typer.main.get_command(app), "tacit"))


def test_the_reference_has_every_public_name() -> None:
    told = {name.rsplit(".", 1)[1] for name in re.findall(r"^::: (\S+)", PAGES["api.md"], re.M)}
    rooms = {"baselines", "federated", "ledger", "release", "serve", "testing"}
    for home in (tacit, *(getattr(tacit, room) for room in sorted(rooms))):
        public = set(home.__all__) - rooms - {"__version__"}
        assert public <= told, (home.__name__, public - told)


@pytest.mark.parametrize("name", registered_filters())
def test_the_reference_explains_every_registered_filter(name: str) -> None:
    """An entry in the reference; in the docstring every parameter, and an example, which the doctests run."""
    made = registered_filters()[name].make
    assert re.search(rf"^::: tacit\.\S+\.{made.__name__}$", PAGES["api.md"], re.M)
    told = (inspect.getdoc(made) or "").partition("Parameters\n----------\n")[2]
    heads = ", ".join(re.findall(r"^(\w[\w, ]*?) : ", told, re.M))
    assert set(made().get_params(deep=False)) <= set(heads.split(", "))
    assert ">>> " in told


def test_no_machine_paths_or_registries() -> None:
    texts = {**PAGES, "mkdocs.yml": (ROOT / "mkdocs.yml").read_text()}
    for name, text in texts.items():
        assert not re.search(r"/(work|root|home|tmp)/\w|index-url|@[A-Z]+@", text), name


@pytest.mark.slow  # guards the links of the site, and that it needs no network
def test_site_builds_without_broken_links_and_works_offline(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for path in pages:  # what a browser would fetch by itself
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?://[^\s\">]+)", path.read_text()
        )
        assert not fetched, f"{path.name} needs the network: {fetched[:3]}"
