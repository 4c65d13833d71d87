"""The command line: thin; every command is a few calls that a Python user could make."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any

from tacit.cores import threads

os.environ.setdefault("OMP_NUM_THREADS", str(threads()))  # before numpy and the others read it
os.environ["PYTHONSAFEPATH"] = "1"  # no child process runs a file of the current folder as a module

try:
    import typer
    import typer.core
    from rich.markup import escape

    from tacit.report.screen import Console
except ModuleNotFoundError as missing:  # a device install: bundles run without the command line
    raise SystemExit(
        f"tacit: the command line needs {missing.name}, which is not installed here. Install typer and rich (and "
        f"pyarrow for files), or run bundles from Python: tacit.load('NAME.tacit').transform(X)"
    ) from None

from tacit.errors import InputError, NoColumn, NotInstalled, RequirementNotMet, TacitError, TacitWarning

# by heading of `tacit --help`: every command is the module of its name, which has a Typer `app` or one function
COMMANDS = {
    "Start here": {
        "demo": "Filters, baselines and attackers on handwritten digits.",
        "fit": "Release a table, recordings or photos, and audit them.",
        "audit": "Attack a release and report what it leaks.",
        "frontier": "Trace utility against leakage and choose a point.",
        "doctor": "Show what is missing on this machine.",
    },
    "Release": {
        "release": "Run, inspect, profile and sign bundles.",
        "serve": "Answer from releases over HTTP.",
        "federated": "Train across sites; records stay where they are.",
    },
    "Govern": {
        "check": "Audit what tacit.toml names and test its limits.",
        "diff": "Compare two audits.",
        "ledger": "Record releases and add up what receivers hold.",
        "evidence": "Write one zip file about a release.",
    },
    "Study": {"reproduce": "Run a table or figure of a paper."},
}
FIRST = """To see what it does:   tacit demo
To release a table:    tacit fit people.csv --target income --sensitive sex
All commands: tacit --help   Something does not work: tacit doctor"""
typer.core.HAS_RICH = False  # its help cuts names of options off, and escapes brackets where it is turned off
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "no_args_is_help": True}


class Commands(typer.core.TyperGroup):
    """The commands; a module is imported when its command is used, so that each of them starts quickly."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List every command, in the order of the help."""
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import the command of this name."""
        if name not in self.commands and name in self.list_commands(ctx):
            module = import_module(f"tacit.cli.{name}")
            inner = getattr(module, "app", None)
            if inner is None:
                inner = typer.Typer(**PLAIN)
                epilog = getattr(module, "epilog", str)()
                inner.command(name, epilog=epilog)(getattr(module, name))
            self.commands[name] = typer.main.get_command(inner)
        return super().get_command(ctx, name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was typed; click suggests names, and typer would repeat them."""
        self.suggest_commands = False
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings, without importing them."""
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<10}", summary) for name, summary in commands.items()])


app = typer.Typer(
    name="tacit",
    cls=Commands,
    help="Private representation learning: preserve chosen tasks, hide sensitive attributes, measure what leaks.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def every_command(
    context: typer.Context,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of CSV files, such as latin-1; detected by default.")
    ] = None,
) -> None:
    """Private representation learning: preserve chosen tasks, hide sensitive attributes, measure what leaks."""
    if encoding is not None:
        os.environ["TACIT_ENCODING"] = encoding  # so that it reaches processes that release beside this one
    if context.invoked_subcommand is None:
        print(FIRST)


def option_of(value: str, words: list[str]) -> str | None:
    """Name the option by which a value was typed.

    Examples
    --------
    >>> option_of("sex", ["tacit", "fit", "people.csv", "--sensitive", "sex"])
    '--sensitive'
    """
    for before, word in zip(words, [*words[1:], ""], strict=True):
        name, sign, rest = before.partition("=")
        if before.startswith("--") and (rest == value if sign else word == value):
            return name
    return None


def main() -> None:
    """Run the command line; errors of the user's input are one line, not a traceback."""
    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning):  # of libraries: not the user's business
        warnings.simplefilter("ignore", category)
    show_others = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if not issubclass(category, TacitWarning):
            show_others(message, category, *where, **more)
            return
        Console(stderr=True).print(f"[yellow]note:[/yellow] {escape(str(message))}", highlight=False)

    warnings.showwarning = show
    kind, code, error = "error", 2, Exception()
    try:
        app()
        return
    except RequirementNotMet as refused:
        kind, code, error = "not met", 3, refused
    except NoColumn as wrong:
        typed = option_of(wrong.column, sys.argv)
        error = InputError(f"{typed} {wrong.column}: {wrong}") if typed else wrong
    except TacitError as wrong:
        error = wrong
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] == "tacit":
            raise
        error = NotInstalled("this command", missing.name)
    except OSError as failed:
        code, error = 1, failed
    Console(stderr=True).print(f"[bold red]{kind}:[/bold red] {escape(str(error))}", highlight=False)
    sys.exit(code)
