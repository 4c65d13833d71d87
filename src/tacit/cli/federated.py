"""`tacit federated`: try, keys, server, node, submit, status."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tacit.errors import InputError

federated_app = typer.Typer(help="Learn across silos: records stay where they are.", no_args_is_help=True)


@federated_app.command("try")
def practise(
    tables: Annotated[list[Path], typer.Argument(help="One table for each node, such as three/*.csv.")],
    target: Annotated[list[str], typer.Option(help="Column that must keep working (repeat for several).")],
    sensitive: Annotated[list[str], typer.Option(help="Column that must not be recoverable (repeat for several).")],
    unit: Annotated[str | None, typer.Option(help="Column that says which rows belong together.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column that is not an input (repeat for several).")] = None,
    secure: Annotated[bool, typer.Option("--secure", help="By secure sums (three tables or more).")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over each node's rows.")] = 20,
    components: Annotated[int, typer.Option(min=1, help="Numbers that are released of a record.")] = 4,
    noise: Annotated[float, typer.Option(min=0, help="Noise on them, relative to the code.")] = 0.3,
    out: Annotated[Path, typer.Option(help="Folder for the encoder and the files of the real federation.")] = Path(
        "federation"
    ),
) -> None:
    """Practise on one machine: a whole federation over these files, then the commands for the real one."""
    from tacit.cli.federated_practice import practise as run  # every command starts quickly

    run(
        typer.echo, tables, target, sensitive, unit, drop or [], out, secure, epochs, components, noise,
        verbose=sys.stderr.isatty(),
    )  # fmt: skip


@federated_app.command()
def status(config: Annotated[Path, typer.Argument(help="The server's or a node's TOML file.")]) -> None:
    """Say how far a federation is, who is missing and what has been sent. Reads files; asks nobody."""
    _check_flower()
    from tacit.cli.federated_practice import status as told  # every command starts quickly

    for line in told(config):
        typer.echo(line)


@federated_app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="Folder to make: server/, nodes/NAME/ and the authority's key.")],
    node: Annotated[list[str], typer.Option(help="Name of a node (repeat for several).")],
    host: Annotated[list[str] | None, typer.Option(help="Name or address under which nodes reach the server.")] = None,
) -> None:
    """Make the authority, the server's certificate and a key for every node. Nodes can be added later."""
    _check_flower()
    from tacit.federated.flower.trust import make_keys  # every command starts quickly

    make_keys(folder, node, host or [])
    typer.echo(f"{folder}/server goes to the server, each {folder}/nodes/NAME to its node and nowhere else.")
    typer.echo(f"Keep {folder}/authority.key off both: it can make another server.")


@federated_app.command()
def server(config: Annotated[Path, typer.Argument(help="The server's TOML file.")]) -> None:
    """Run the server: TLS, and only nodes whose keys are in its folder `allowed`."""
    _check_flower()
    from tacit.federated.flower.config import read_server  # every command starts quickly
    from tacit.federated.flower.launch import run_server

    raise typer.Exit(run_server(read_server(config), typer.echo))


@federated_app.command()
def node(
    config: Annotated[Path, typer.Argument(help="The node's TOML file.")],
    data: Annotated[Path | None, typer.Option(help="CSV or Parquet file, in place of the one in the file.")] = None,
    secure: Annotated[bool, typer.Option("--secure", help="Answer in secure sums alone.")] = False,
) -> None:
    """Run a node beside its data."""
    _check_flower()
    from tacit.federated.flower.config import read_node  # every command starts quickly
    from tacit.federated.flower.launch import run_node

    raise typer.Exit(run_node(read_node(config, data, secure), config, typer.echo))


@federated_app.command()
def submit(
    config: Annotated[Path, typer.Argument(help="The server's TOML file.")],
    secure: Annotated[bool, typer.Option("--secure", help="The server sees sums over all nodes alone.")] = False,
) -> None:
    """Start a federation on the running server, or resume one that was stopped. Run it on the server's machine."""
    _check_flower()
    from tacit.federated.flower.config import read_server  # every command starts quickly
    from tacit.federated.flower.launch import submit as start

    told = read_server(config, secure)
    number = start(told, config)
    where = f"the filter will be in {told.out}" if told.public is None else "every node will have its own filter"
    typer.echo(f"started (Flower's run {number}); {where}")


def _check_flower() -> None:
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise InputError(
            "learning across machines needs Flower; in a checkout: pip install -c constraints.txt '.[federated]'"
        ) from None
