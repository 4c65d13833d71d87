"""The server's app: started by Flower for every submitted run."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from tacit.federated.flower.config import read_server
from tacit.federated.flower.strategy import CoordinatorStrategy, registered_names

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = read_server(str(context.run_config["config"]))
    CoordinatorStrategy(config, registered_names(config.keys / "allowed")).start(grid)
