"""`tacit federated`: simulate, server, node, submit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import tacit
from tacit.cli import PLAIN
from tacit.cli.console import Drop, Sensitive, Target, Unit
from tacit.errors import InputError

app = typer.Typer(help="Train across sites: records stay where they are.", **PLAIN)


@app.command("simulate")
def simulate_tables(
    tables: Annotated[list[Path], typer.Argument(help="One table for each node, such as three/*.csv.")],
    target: Target,
    sensitive: Sensitive,
    unit: Unit = None,
    drop: Drop = None,
    secure: Annotated[bool, typer.Option("--secure", help="By masked sums (needs the extra federated).")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over each node's rows.")] = 20,
    components: Annotated[int, typer.Option(min=1, help="Numbers that are released of a record.")] = 4,
    noise: Annotated[float, typer.Option(min=0, help="Noise on them, relative to the code.")] = 0.3,
    out: Annotated[Path, typer.Option(help="Where the encoder goes.")] = Path("encoder.tacit"),
) -> None:
    """Run a whole federation over these files in one process, and audit its encoder at every node.

    Example: tacit federated simulate three/*.csv --target survived --sensitive sex
    """
    from tacit.federated import DistributedEIGAN, Node, audit_nodes
    from tacit.federated.node import Grants

    names = [p.stem for p in tables]
    if len(names) < 2:
        raise InputError(f"a federation needs at least two tables; found {len(names)}: pass three/*.csv, say")
    nodes, held = [], {}
    for name, path in zip(names, tables, strict=True):
        train, *held[name] = tacit.read_table(path, target, sensitive, unit, drop or []).split(
            (0.6, 0.2, 0.2), random_state=0
        )
        nodes.append(Node(train.X, train.y, train.sensitive, train.units_of(), name))
        Grants().check_node(nodes[-1])  # what a node between machines refuses is refused here too
    typer.echo(f"{len(nodes)} nodes: " + ", ".join(f"{n.name} ({len(n):,} rows to train on)" for n in nodes))
    f = DistributedEIGAN(
        n_components=components, noise=noise, epochs=epochs, sync_every=2, secure=secure, random_state=0,
        verbose=sys.stderr.isatty(),
    ).fit(nodes)  # fmt: skip
    up, down = (sum(int(line[k]) for line in f.rounds_) for k in ("bytes_up", "bytes_down"))
    rounds = len({line["round"] for line in f.rounds_ if line["round"] >= 0})
    typer.echo(f"{rounds} rounds; {up:,} bytes went up to the server, {down:,} came down")
    typer.echo(str(audit_nodes(f, {name: (parts[0], parts[1]) for name, parts in held.items()})))
    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(f"Nothing left this machine. The encoder: {tacit.save(f, out)}")


@app.command()
def server(config: Annotated[Path, typer.Argument(help="The server's TOML file.")]) -> None:
    """Run the server: TLS, and only nodes whose keys are in its folder `allowed`.

    Example: tacit federated server server.toml
    """
    _check_flower()
    from tacit.federated.flower.config import read_server  # needs Flower
    from tacit.federated.flower.launch import run_server

    raise typer.Exit(run_server(read_server(config), typer.echo))


@app.command()
def node(config: Annotated[Path, typer.Argument(help="The node's TOML file.")]) -> None:
    """Run a node beside its data.

    Example: tacit federated node node.toml
    """
    _check_flower()
    from tacit.federated.flower.config import read_node  # needs Flower
    from tacit.federated.flower.launch import run_node

    raise typer.Exit(run_node(read_node(config), config, typer.echo))


@app.command()
def submit(config: Annotated[Path, typer.Argument(help="The server's TOML file.")]) -> None:
    """Start a federation on the running server, or resume one that was stopped. Run it on the server's machine.

    Example: tacit federated submit server.toml
    """
    _check_flower()
    from tacit.federated.flower.config import read_server  # needs Flower
    from tacit.federated.flower.launch import submit as start

    settings = read_server(config)
    number = start(settings, config)
    where = (
        f"the filter will be in {settings.out}" if settings.public is None else "every node will have its own filter"
    )
    typer.echo(f"started (Flower's run {number}); {where}")


def _check_flower() -> None:
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise InputError(
            "learning across machines needs Flower; in a checkout: pip install -c constraints.txt '.[federated]'"
        ) from None
