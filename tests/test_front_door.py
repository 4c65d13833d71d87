"""The command line as a whole: what `tacit` says alone, an example of every command, the doctor, threads."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

from commands import tacit_command
from tacit.cli import COMMANDS, app
from tacit.cores import threads
from tacit.errors import InputError
from tacit.ledger.policy import policy_schema
from tacit.options import FitOptions, json_schema, read_options


def every_command():
    def walk(command, path):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from (
                walk(inner, (*path, name)) if isinstance(inner, click.Group) else [(" ".join((*path, name)), inner)]
            )

    return dict(walk(typer.main.get_command(app), ()))


EVERY = every_command()


def test_tacit_alone_says_what_to_do_first_in_three_lines():
    done = tacit_command()
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3
    for word in ("tacit demo", "tacit fit", "tacit doctor"):
        assert word in done.stdout


def test_there_are_thirteen_commands():
    wanted = "demo fit audit frontier check diff release evidence ledger serve federated reproduce doctor"
    assert {name for names in COMMANDS.values() for name in names} == set(wanted.split())


@pytest.mark.parametrize("name", list(EVERY))
def test_help_fits_80_columns_with_whole_names_and_an_example_that_parses(name):
    done = tacit_command(*name.split(), "--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for parameter in EVERY[name].params:
        for option in (o for o in (*parameter.opts, *parameter.secondary_opts) if o.startswith("-")):
            assert re.search(rf"{option}\b", done.stdout), option
    example = " ".join(EVERY[name].help.split("Example: ")[1].split())
    words = shlex.split(example.split(" < ")[0])
    assert words[: 1 + len(name.split())] == ["tacit", *name.split()]
    rest = [w.replace("three/*.csv", "pyproject.toml") for w in words[1 + len(name.split()) :]]
    EVERY[name].make_context(name, rest, resilient_parsing=False).close()


def test_keys_are_named_by_kind_and_fit_has_at_most_14_options():
    for name, command in EVERY.items():
        options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts]
        assert "--key" not in options, name
        if name == "fit":
            assert len(options) <= 14


def test_what_is_typed_wins_over_set_and_set_over_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tacit.toml").write_text(
        '[fit]\ntarget = "y"\nsensitive = ["s"]\nunit = "u"\nbins = 4\nkeys = "k"\n'
        "settings = { max_odds = 3, n_codes = 8 }\n"
    )
    o = read_options(FitOptions, "fit", None, ["bins=5", "max_odds=2", "keep.a=2", "pass_through=id", "numeric=a",
                                               "numeric=b"], {"unit": "v", "drop": None, "quick": False})  # fmt: skip
    assert (o.target, o.sensitive, o.unit, o.bins, o.keys) == (("y",), ("s",), "v", 5, Path("k"))
    assert o.settings == {"max_odds": 2, "n_codes": 8, "keep": {"a": 2}, "pass_through": "id"}
    assert (o.numeric, o.expires, o.quick) == (("a", "b"), "365d", False)
    typed = {"weight": 0.0, "target": ["z"]}
    assert (o := read_options(FitOptions, "fit", None, ["weight=2"], typed)).weight == 0.0
    assert o.target == ("z",)
    for wrong in (["bins"], ["bins=many"], ["bins=1"], ["bins=5", "bins.a=2"], ["rate=50"]):
        with pytest.raises(InputError):
            read_options(FitOptions, "fit", None, wrong, {})
    (tmp_path / "tacit.toml").write_text("[fit]\nbinz = 4\n")
    with pytest.raises(InputError):
        read_options(FitOptions, "fit", tmp_path, [], {})


def test_the_published_schema_is_that_of_the_options():
    published = json.loads((Path(__file__).parents[1] / "docs" / "tacit.schema.json").read_text())
    assert published == policy_schema()
    assert published["properties"]["fit"] == json_schema(FitOptions)


def test_the_doctor_says_what_is_missing_and_how_to_get_it(monkeypatch):
    doctor = importlib.import_module("tacit.cli.doctor")  # the command has the same name

    monkeypatch.setattr(doctor, "installed", lambda name: name not in ("flwr", "openpyxl"))
    monkeypatch.setattr(doctor, "_machine", lambda: ["Cores: 2"])
    done = tacit_command("doctor", TACIT_DATA="", COLUMNS="160")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())  # in a narrow terminal a cell has several lines
    assert "no flwr" in told
    assert "'tacit[federated]'" in told
    assert "'tacit[excel]'" in told
    assert "'tacit[sql]'" not in told
    assert "Cores: 2" in told


def test_work_takes_half_of_the_free_cores_unless_it_is_told(monkeypatch):
    monkeypatch.setattr("tacit.cores.cores", lambda: 16)
    for load, told, wanted in (
        (0.2, "", 7),
        (13.0, "", 1),
        (40.0, "", 1),
        (40.0, "6", 6),
        (0.0, "3,2", 3),
        (15, "no", 1),
    ):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        monkeypatch.setenv("OMP_NUM_THREADS", told)
        assert threads() == wanted, (load, told)


def test_the_command_line_says_how_many_threads_before_anything_is_loaded():
    code = (
        "import sys, os; os.environ.pop('OMP_NUM_THREADS', 0); import tacit.cli; print(os.environ['OMP_NUM_THREADS'])"
    )
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) >= 1


def test_the_doctor_knows_the_folder_of_data(tmp_path, monkeypatch):
    from tacit.cli.doctor import _machine

    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "none"))
    assert any("is no folder" in line for line in _machine())
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    assert any("0 entries" in line for line in _machine())
    monkeypatch.delenv("TACIT_DATA")
    assert any("TACIT_DATA is not set" in line for line in _machine())
