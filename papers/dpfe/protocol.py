"""Simple and DPFE on all of MotionSense (activity and gender kept, who walks hidden): hours on a CPU, minutes on a GPU.

    python -m papers.dpfe.protocol [--device cuda] [--jobs 16] [--seeds 3] [--rows 3000 --epochs 4]

The filter learns from the official training recordings; of every test recording (one per person and activity) the
first 60 % of the time is the attackers', the rest is the test, and windows that straddle the cut are dropped. Prints as
it goes and writes papers/dpfe/protocol.json (or --out) after every seed, for `tacit reproduce dpfe/fig6-motionsense`.
"""

from __future__ import annotations

import argparse
import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from papers.common.noise_curve import noise_curve
from papers.common.papers import load_paper
from tacit.filters.dpfe import RATIOS

load_paper("dpfe")  # so that the modules beside this one are found
from papers.dpfe.data import parts_of  # noqa: E402
from papers.dpfe.models import MODELS, fitted  # noqa: E402
from papers.dpfe.study import columns, said  # noqa: E402

SETTINGS = {"network_epochs": 10, "epochs": 30, "training": {"batch_size": 1001}}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--rows", type=int, default=None, help="most training rows")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--epochs", type=int, default=SETTINGS["epochs"], help="of fine-tuning")
    arguments.add_argument("--jobs", type=int, default=1, help="cores for the attackers")
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    settings = {**SETTINGS, "device": chosen.device, "epochs": chosen.epochs, "rows": chosen.rows}
    out: dict[str, Any] = {"settings": settings, "seeds": []}
    for seed in range(chosen.seeds):
        out["seeds"].append(one_seed(seed, settings, chosen.jobs))
        Path(chosen.out).write_text(json.dumps(out, indent=1))


def one_seed(seed: int, settings: dict[str, Any], jobs: int) -> dict[str, Any]:
    train, attack, test = parts_of("motionsense", seed, settings)
    found: dict[str, Any] = {"records": [len(train), len(attack), len(test)]}
    for model in MODELS:
        f = fitted(model, None, None, train, seed, settings)
        light = copy.copy(f)
        light._problem = None  # the training rows need not travel
        rows = Parallel(n_jobs=jobs)(delayed(noise_curve)(light, attack, test, [r], seed=seed) for r in RATIOS)
        curve = pd.concat(rows, ignore_index=True)
        print(
            f"seed {seed}, {model}", curve[["ratio", "accuracy", "log_rank", "nn_error"]].round(3), sep="\n", flush=True
        )
        found[model] = columns(curve)
    found["original"] = said(f, attack, test)
    return found


if __name__ == "__main__":
    main()
