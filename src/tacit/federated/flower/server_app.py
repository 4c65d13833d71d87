"""The server's app: started by Flower for every submitted run."""

from __future__ import annotations

import logging

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from tacit.federated.flower.config import read_server
from tacit.federated.flower.strategy import CoordinatorStrategy, registered_names

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = read_server(str(context.run_config["config"]))
    # Flower keeps an app's log in its database; who runs the server wants a file
    log_file = logging.FileHandler(config.state / "federation.log")
    log_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("flwr").addHandler(log_file)
    CoordinatorStrategy(config, registered_names(config.keys / "allowed")).start(grid)
