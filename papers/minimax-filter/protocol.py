"""The splits and the reader of the paper's own protocol (Fig. 2-4), and the filter's speed.

    python -m papers.minimax-filter.protocol          # the speed: papers/minimax-filter/protocol.json

The paper's protocol: filter and evaluator (logistic regression, ridge 1e-6) learn from the same training rows;
the test rows are other images, or a random half of the same people's overlapping windows. It flatters
every filter: `reproduce.adaptive` has what stronger attackers get from fresh rows, split by bout.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.fft import dct
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import tacit
from papers.data import require
from tacit.filters.base import Filter

OUT = Path(__file__).with_suffix(".json")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--fit", type=int, help="(used by itself) one timed fit on HAR of this many columns")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    if chosen.fit:
        print(json.dumps(timed_fit(chosen.fit)))
        return
    OUT.write_text(json.dumps({"speed": speed()}, indent=1))


# -- the paper's protocol -----------------------------------------------------------------------------


def fitted(f, train):
    return f.fit(train.X, train.y, sensitive_features=train.sensitive) if isinstance(f, Filter) else f.fit(train.X)


def evaluate(f, train, test) -> dict[str, float]:
    """The paper's evaluator: logistic regression on the released training rows, ridge 1e-6 of the mean loss."""
    Z, Zt = np.asarray(f.transform(train.X)), np.asarray(f.transform(test.X))
    mean, spread = Z.mean(axis=0), Z.std(axis=0) + 1e-12
    Z, Zt = (Z - mean) / spread, (Zt - mean) / spread
    guesses = [
        (b, LogisticRegression(C=1 / (2e-6 * len(Z)), max_iter=300).fit(Z, a).predict(Zt))
        for a, b in ((train.y.iloc[:, 0], test.y.iloc[:, 0]), (train.sensitive.iloc[:, 0], test.sensitive.iloc[:, 0]))
    ]
    target, secret = (float((b == guess).mean()) for b, guess in guesses)
    most_frequent = float((test.sensitive.iloc[:, 0] == train.sensitive.iloc[:, 0].mode()[0]).mean())
    balanced = float(balanced_accuracy_score(*guesses[0]))
    return {"target": target, "secret": secret, "balanced": balanced, "most_frequent": most_frequent}


def genki(trial: int):
    """The official split: 1740 and 200 images. Only the seed changes with the trial."""
    return tacit.load_dataset("genki").split("official")


def har(trial: int):
    """15 of 30 people at random, a random half of each one's windows for training."""
    data = tacit.load_dataset("uci_har")
    rng = np.random.default_rng(trial)
    subject = data.sensitive["subject"].to_numpy()
    data = data.take(np.isin(subject, rng.permutation(np.unique(subject))[:15]))
    return halves(data, "subject", 0.5, rng)


def emodb(trial: int):
    """Enterface's features on EMO-DB: mean, max, min, deviation of 13 MFCCs; 80 % of each speaker for training."""
    path = require("emodb_mfcc/emodb_mfcc.npz", "EMO-DB of TU Berlin")
    mfcc = dct(np.load(path)["logmel"].astype(np.float64), axis=2, norm="ortho")[:, :, :13]
    X = np.concatenate([mfcc.mean(1), mfcc.max(1), mfcc.min(1), mfcc.std(1)], axis=1)
    data = tacit.load_dataset("emodb", target="happy", sensitive="speaker")
    return halves(replace_X(data, pd.DataFrame(X)), "speaker", 0.8, np.random.default_rng(trial))


def enterface(trial: int):
    """The paper's own speech: 80 % of each speaker's utterances for training."""
    data = tacit.load_dataset("enterface", target="happy", sensitive="speaker")
    return halves(data, "speaker", 0.8, np.random.default_rng(trial))


def halves(data, person: str, share: float, rng):
    owner = data.sensitive[person].to_numpy()
    train = np.zeros(len(data), dtype=bool)
    for p in np.unique(owner):
        rows = rng.permutation(np.flatnonzero(owner == p))
        train[rows[: round(share * len(rows))]] = True
    return data.take(train), data.take(~train)


def replace_X(data, X):
    return tacit.Dataset(np.asarray(X, dtype=np.float64), data.y, data.sensitive, name=data.name)


SPLITS = {"genki": genki, "har": har, "emodb": emodb, "enterface": enterface}


# -- speed -------------------------------------------------------------------------------------------


def speed() -> dict[str, dict[str, float]]:
    """Fit time and peak memory of a fresh process each."""
    out = {}
    for d, limit in ((20, 5.0), (100, 20.0)):
        line = subprocess.run(
            [sys.executable, __file__, "--fit", str(d)], capture_output=True, text=True, check=True, env=os.environ
        ).stdout
        out[str(d)] = found = json.loads(line)
        met = found["seconds"] <= limit and found["peak_gb"] < 1
        print(
            f"speed  d={d:<4d} {found['rows']} x {found['columns']}, {found['steps']} steps: {found['seconds']:.1f} s "
            f"(<= {limit:g}), peak {found['peak_gb']:.2f} GB (< 1), load {os.getloadavg()[0]:.1f}: "
            f"{'met' if met else 'NOT MET'}",
            flush=True,
        )
    return out


def timed_fit(d: int) -> dict[str, float]:
    train, _ = har(0)
    began = time.perf_counter()
    f = tacit.MinimaxFilter(d, max_iter=30, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "seconds": seconds,
        "peak_gb": peak,
        "steps": f.n_iter_,
        "rows": len(train),
        "columns": train.X.shape[1],
    }


if __name__ == "__main__":
    main()
