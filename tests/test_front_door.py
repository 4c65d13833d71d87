"""The command line as a whole: what `tacit` says alone, an example of every command, the doctor, threads."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import sys

import pytest
import typer

from commands import tacit_command
from tacit.cli import app
from tacit.cli.front_door import EXAMPLES, GROUPS, furnish
from tacit.cores import threads


def every_command():
    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name)) if hasattr(inner, "commands") else [(" ".join((*path, name)), inner)]

    root = typer.main.get_command(app)
    furnish(root)
    return dict(walk(root, ()))


COMMANDS = every_command()


def test_tacit_alone_says_what_to_do_first_in_three_lines():
    done = tacit_command()
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3
    for word in ("tacit demo", "tacit fit", "tacit doctor"):
        assert word in done.stdout


def test_every_verb_is_in_a_group():
    verbs = {name.split()[0] if name != "audit diff" else name for name in COMMANDS}
    assert verbs == {name for names in GROUPS.values() for name in names}


@pytest.mark.parametrize("name", [n for n in COMMANDS if not n.startswith("federated")])  # these join with their own
def test_every_command_has_an_example_that_parses(name):
    command, example = COMMANDS[name], EXAMPLES.get(name)
    assert example, f"{name} has no example"
    assert command.epilog == f"Example: {example}"
    words = shlex.split(example.split(" < ")[0])
    assert words[0] == "tacit"
    rest = words[1 + len(name.split()) :]
    command.make_context(name, list(rest), resilient_parsing=False).close()


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
