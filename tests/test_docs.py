"""The documentation: its Python and its commands run, its site builds without a broken link."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
import typer

import tacit
from browser import driven, until
from shell import Shell
from tacit.auditing import attackers
from tacit.cli import app, fit_records
from tacit.filters.registry import registered_filters

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker", "shorter")  # what is done, not what is found

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
TEXTS = {name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")} | PAGES
FENCE = re.compile(r"^([ ]*)```(\w*)([^\n]*)\n(.*?)^\1```", re.S | re.M)
SHELLS = ("bash", "sh", "console")
ADULT = "choosing.md"  # minutes on Adult: run by test_frontier.py, where it is slow


@pytest.fixture(scope="module")
def shorter() -> Iterator[None]:
    """Pages ask for strong attackers, and --small still learns for ten seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attackers.PRESETS, "strong", attackers.PRESETS["quick"])
        patch.setitem(fit_records.IMAGES.small, "epochs", 2)
        patch.setitem(fit_records.SENSORS.small, "epochs", 2)
        yield


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """(what stands behind the language, the code) of a page's blocks in these languages."""
    return [(title, code) for _, language, title, code in FENCE.findall(TEXTS[page]) if language in languages]


def run_blocks(page: str, given: dict[str, Any], engines: Collection[str] = (), shell: Shell | None = None) -> None:
    """Runs a page as a reader would: top to bottom, in one folder; without a shell its Python alone."""
    names = {"__name__": "__main__", **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, language, title, code in FENCE.findall(TEXTS[page]):
            code = textwrap.dedent(code)
            if language == "python":
                compile(code, page, "exec", ast.PyCF_ONLY_AST)
            if "not run" in title or not set(re.findall(r"needs (\w+)", title)) <= set(engines):
                continue  # the reader sees the title, and why
            if language == "python":
                exec(compile(code, page, "exec"), names)  # later blocks go on from earlier ones
            elif language in SHELLS and shell is not None:
                shell.run(code, prompts=language == "console")
            elif language == "toml" and (file := re.search(r'title="([\w.-]+)"', title)):
                Path(file[1]).write_text(code)  # the reader saves it under the name above it


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


def engines_files() -> dict[str, Any]:
    """What engines.md takes as given: a table, and the bundle of a filter fitted on such rows."""
    table = people().assign(person=np.arange(400) // 2, sex=np.where(np.arange(400) // 2 % 2, "f", "m"))
    table.to_parquet("people.parquet")
    X = table[["job", "pay", "age"]]
    f = tacit.CodebookFilter(4, random_state=0)
    f.fit(X, X["pay"] > 30, sensitive_features=X["job"])
    tacit.save(f, "people.tacit")
    return {}


PREPARE: dict[str, Callable[[], dict[str, Any]]] = {"engines.md": engines_files}
FULL = {"index.md", "tour.md"}  # with training in full: the tour's policy holds of no other filter
RUN = [
    pytest.param(page, marks=[] if page == "README.md" else [pytest.mark.slow])
    for page in TEXTS
    if blocks(page, "python", *SHELLS) and page != ADULT
]


@pytest.mark.parametrize("page", RUN)
def test_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Python and commands, from the top, in an empty folder: what a page needs it makes, or says where it is from."""
    if page in FULL:
        request.getfixturevalue("all_steps")
    folder, shims = tmp_path / "reader", tmp_path / "shims"
    folder.mkdir()
    shims.mkdir()
    monkeypatch.chdir(folder)
    for name in ("benchmarks", "examples"):  # as in a checkout
        (folder / name).symlink_to(ROOT / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = PREPARE.get(page, dict)()
    with Shell(shims) as shell:
        run_blocks(page, given, shell=shell)


@pytest.mark.parametrize(
    "wrong", ["tacit fit nobody.csv --target income", "cat none | tacit no-verb", "make nothing", "ls none"]
)
def test_a_command_that_fails_fails_its_page(wrong: str, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell, pytest.raises(AssertionError, match="ended with"):
        shell.run(wrong)


@pytest.mark.slow  # engines take long to start; guards what the page says of them
@pytest.mark.engines
def test_blocks_of_large_engines_run(tmp_path: Path) -> None:
    """In a process of its own: Spark's session resolves paths from the folder that it was started in."""
    needed = re.findall(r'title="needs (\w+)"', PAGES["engines.md"])
    here = {name for name in needed if importlib.util.find_spec(name)} - (
        {"pyspark"} if not shutil.which("java") else set()
    )
    code = f"import test_docs as t; t.run_blocks('engines.md', t.engines_files(), {here!r})"
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT), *(p for p in sys.path if p)])
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for name in here & {"pyspark", "ray", "daft"}:
        released = pd.read_parquet(tmp_path / f"released-{name.removeprefix('py')}")
        assert released["id"].nunique() == 400
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
            home = ROOT / module.replace(".", "/")
            assert home.with_name(f"{home.name}.py").exists() or (home / "__main__.py").exists(), f"{name}: {module}"
        if name not in PAGES:  # the links of the site are checked when it is built
            for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
                assert (ROOT / link).exists(), f"{name}: {link}"


def verbs(command: click.Command, name: str) -> list[str]:
    """The full name of every command below this one."""
    if not isinstance(command, click.Group):
        return [name]
    context = click.Context(command)
    found = {sub: command.get_command(context, sub) for sub in command.list_commands(context)}
    return [verb for sub, inner in found.items() if inner for verb in verbs(inner, f"{name} {sub}")]


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


@pytest.mark.parametrize("path", sorted((DOCS / "gallery").glob("*.html")), ids=lambda path: path.name)
def test_the_gallery_is_of_todays_template(path: Path) -> None:
    again = runpy.run_path(str(ROOT / "tools" / "gallery.py"))["again"]
    page = path.read_text(encoding="utf-8")
    assert again(page) == page, "the template has changed: python tools/gallery.py writes the gallery again"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a broken link is an error."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    made = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return made


@pytest.mark.slow  # guards the links of the site, and that it needs no network
def test_site_builds_without_broken_links_and_works_offline(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for path in [*pages, *site.rglob("*.css"), *site.rglob("*.svg")]:  # what a browser would fetch by itself
        fetched = re.findall(
            r"<(?:script|link|img|image|iframe|source|object|embed|use)\b[^>]*?\b(?:src|srcset|href|data)=[\"']?((?:https?:)?//[^\s\"'>]+)"
            r"|(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\s\"')]+)",
            path.read_text(encoding="utf-8"),
        )
        assert not fetched, f"{path.name} needs the network: {fetched[:3]}"


def test_reference_lists_no_sentence_as_a_parameter() -> None:
    """A sentence after a list of parameters is set before the list; entries stay, and so does the rest."""
    pytest.importorskip("griffe")
    prose_first = runpy.run_path(str(DOCS / "style" / "parameters.py"))["prose_first"]
    listed = "Parameters\n----------\na : one\n    more\n\nb, c : two\n\n"
    prose, rest = "What a is\nnot: three.\n\n", "Examples\n--------\n>>> 1"
    assert prose_first(f"Do it.\n\n{listed}{prose}{rest}") == f"Do it.\n\n{prose}{listed}{rest}"


SEARCH = """(() => {
  document.querySelector("label.md-header__button[for=__search]").click();
  const field = document.querySelector(".md-search__input");
  field.focus();
  field.value = "WORD";
  field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
})()"""


@pytest.mark.slow  # guards the site on a phone, and its search from a folder without a network
def test_site_fits_a_phone_and_searches_from_a_folder(site: Path, tmp_path: Path) -> None:
    with driven(tmp_path) as page:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        page.call("Emulation.setDeviceMetricsOverride", **size)
        for path in sorted(site.rglob("*.html")):
            page.open(path.as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{path.relative_to(site)} is {width} pixels wide"
        for start, word, found in (
            ("index.html", "ledger", "how-to/policy.html"),
            ("how-to/table.html", "--require-odds", "cli.html"),  # a leading dash means "without" to the search
        ):
            page.open((site / start).as_uri())
            page.evaluate(SEARCH.replace("WORD", word))
            page.evaluate(until("/matching/.test(document.querySelector('.md-search-result__meta').textContent)"))
            links = page.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)")
            assert any(found in link for link in links), (word, links)
        outside = [r["url"] for r in page.requests if not r["url"].startswith(("file:", "data:", "blob:", "about:"))]
        assert not outside
