"""MotionSense, Table 2 of the anonymizing autoencoder: keep the activity, hide which of 24 people walks.

    python -m papers.anonymizing-autoencoder.motionsense --device cuda [--rows raw,code,aae] [--splits trial,subject]
        [--repeats 5] [--first 1] [--strict] [--minutes 8] [--tasks aae_printed/trial/0,...] [--out results.json]

Rows aae_printed and rep_printed are `AnonymizingAutoencoder.as_printed()`: the paper's loss, networks and rounds, with
20 % of the training recordings for validation; aae and rep are ours. The printed ones are fitted on the windows of
stride --printed-stride (10 is the paper's); everything is measured on all windows.

Protocols, by column (windows of 128 at 50 Hz, stride 10, 4 activities, magnitudes):

- activity F1 (macro), Subject split: the filter is fitted on 20 people; a fresh CNN learns from their released
  windows and is tested on the released windows of the 4 other people.
- activity F1, Trial split; identity, *adaptive*: the filter is fitted on the training trials; a fresh, class-balanced
  CNN learns from the *released training trials* (rows the filter has seen) and is tested on the released test
  trials. This is the protocol of the paper's table with an attacker that is re-trained.
- identity, transfer (the paper's own figure): a CNN that learned from the *raw* training trials reads the release.
- adaptive_deep: the same with a CNN of another family (deeper, narrower).
- others: the best, balanced, of RBF machine, extra trees and MLP, re-trained on 4,000 windows of the released
  training trials, tested on 4,000 of the test trials (a maximum of several: read it as a hint).
- pooled: the adaptive CNN's log-probabilities, summed over 5 or 20 windows of one recording.
- strict (--strict): the filter is fitted on 60 % of the training recordings, the CNN learns from the other 40 %,
  which the filter never saw, and is tested on the test trials.
- label_only (raw): what the raw network's answers keep and leak when nothing else is released, read by counting.
- MSE to raw in units of variance; rank by DTW (24 users, random order 11.5); certificate by counting over the
  recordings of the test trials (each release by itself).

No figure here chose anything: the filters' states are chosen on validation parts of their own training rows.
Results are merged into the JSON file, so rows can be run one command at a time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import f1_score

import tacit
from tacit.auditing.certificate import certify, look_delta, release_cells
from tacit.auditing.measurements.baseline import labels_alone
from tacit.nets.windows import NetworkClassifier, deep_classifier, wide_classifier

# row: what the paper prints (identity by transfer, activity F1 on the Subject split)
PRINTED = {
    "raw": (0.962, 0.925),
    "resample10": (0.311, 0.911),
    "resample5": (0.135, 0.880),
    "ssa12": (0.341, 0.886),
    "ssa1": (0.161, 0.874),
    "rep": (0.159, 0.915),
    "rep_printed": (0.159, 0.915),
    "aae": (0.070, 0.929),
    "aae_printed": (0.070, 0.929),
    "code": None,
}
ORDER = ["raw", "code", "aae", "rep", "aae_printed", "rep_printed", "resample10", "resample5", "ssa12", "ssa1"]
SOME = 4000  # windows for attackers that do not scale


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    torch.backends.cudnn.benchmark = True
    bench = Benchmark(options)
    for task in options.tasks.split(",") if options.tasks else ():
        row, split, repeat = task.split("/")
        bench.measure(row, split, int(repeat))
    for repeat in range(options.first, 0 if options.tasks else options.repeats):
        for row in [r for r in ORDER if r in options.rows.split(",")]:
            for split in options.splits.split(","):
                bench.measure(row, split, repeat)
            if options.strict and repeat == 0:
                bench.measure(row, "strict", repeat)
    bench.collect(wait=True)
    bench.table()


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--rows", default=",".join(ORDER))
    arguments.add_argument("--splits", default="trial,subject")
    arguments.add_argument("--repeats", type=int, default=1)
    arguments.add_argument("--tasks", default="", help="rows/splits/repeats by name, instead of all of --rows")
    arguments.add_argument("--printed-stride", type=int, default=10, help="between windows that the printed rows fit")
    arguments.add_argument("--rounds", type=int, default=4, help="of the printed rows")
    arguments.add_argument("--first", type=int, default=0, help="the repeat to begin with")
    arguments.add_argument("--strict", action="store_true")
    arguments.add_argument("--gravity", action="store_true", help="add gravity, as the published runs do")
    arguments.add_argument("--stride", type=int, default=10)
    arguments.add_argument("--epochs", type=int, default=24, help="of the autoencoder's game")
    arguments.add_argument("--code-epochs", type=int, default=25)
    arguments.add_argument("--maps", type=int, default=100)
    arguments.add_argument("--steps", type=int, default=3, help="regularizer steps for every autoencoder step")
    arguments.add_argument("--batch", type=int, default=512, help="windows in a step of the game")
    arguments.add_argument("--rate", type=float, default=1e-3, help="learning rate of the game")
    arguments.add_argument("--noise", type=float, default=0.5, help="on the latent of aae")
    arguments.add_argument("--families", default="deep,wide", help="of regularizers on the output")
    arguments.add_argument("--beta", type=float, default=1.0, help="beta_identity of aae and rep")
    arguments.add_argument("--activity", type=float, default=2.0, help="beta_activity of aae and rep")
    arguments.add_argument("--codes", type=int, default=16)
    arguments.add_argument("--weight", type=float, default=0.3, help="lambda of code: beta_identity / beta_activity")
    arguments.add_argument("--attack-epochs", type=int, default=12)
    arguments.add_argument("--dtw-windows", type=int, default=40)
    arguments.add_argument("--minutes", type=float, default=1e9, help="start nothing new after this long")
    arguments.add_argument("--workers", type=int, default=6, help="processes for attackers and DTW on the CPU; 0: none")
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    return arguments.parse_args()


class Benchmark:
    """The measurements, merged into one file as they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.began = options, time.perf_counter()
        self.device = "cuda" if options.device == "auto" and torch.cuda.is_available() else options.device
        self.device = "cpu" if self.device == "auto" else self.device
        self.out = Path(options.out)
        self.results: dict[str, Any] = json.loads(self.out.read_text()) if self.out.exists() else {}
        self.data = {
            split: tacit.load_dataset(
                "motionsense", split=split, gravity=options.gravity, sensitive=["identity"], stride=options.stride
            ).split("official")
            for split in ("trial", "subject")
        }
        train = self.data["trial"][0]
        self.data["strict"] = (*train.split((0.6, 0.4), random_state=0), self.data["trial"][1])  # type: ignore[assignment]
        self.raw_attackers: dict[int, NetworkClassifier] = {}
        context = get_context("spawn")
        self.pool = ProcessPoolExecutor(options.workers, mp_context=context) if options.workers else None
        self.pending: list[tuple[str, Future[dict[str, Any]]]] = []
        self.say(f"{len(train):,} training and {len(self.data['trial'][1]):,} test windows by trial, on {self.device}")

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.began:5.0f} s] {text}", flush=True)

    def measure(self, row: str, split: str, repeat: int) -> None:
        if time.perf_counter() - self.began > 60 * self.options.minutes:
            self.say(f"out of time: {row}, {split}, repeat {repeat} not begun")
            return
        fit_part, test = self.data[split][0], self.data[split][-1]
        learn = self.data[split][1] if split == "strict" else fit_part  # attackers read all windows
        if row.endswith("_printed"):
            fit_part = fit_part.take(
                np.arange(0, len(fit_part), max(1, self.options.printed_stride // self.options.stride))
            )
        began = time.perf_counter()
        f = self.filter(row, repeat)
        if f is not None:
            f.fit(fit_part.X, fit_part.y, sensitive_features=fit_part.sensitive, units=fit_part.units_of("identity"))
        seconds = time.perf_counter() - began
        self.say(f"{row}, {split}, repeat {repeat}: fitted in {seconds:.0f} s")
        released, out = (d.X if f is None else f.transform(d.X).astype(np.float32) for d in (learn, test))
        found: dict[str, Any] = {"fit_seconds": round(seconds, 1)}
        found["rounds"] = len(getattr(f, "history_", []))
        found["printed_stride"] = self.options.printed_stride if row.endswith("_printed") else None
        found["checks"] = [
            [h["epoch"], round(h["kept"], 3), round(h["leaked"], 3)] for h in getattr(f, "history_", []) if "kept" in h
        ]
        activity = self.cnn(released, learn.y["activity"], repeat)
        found["activity_f1"] = activity_f1(activity, out, test)
        if f is None and split != "subject":
            found["label_only"] = label_only(activity, learn, test)
        if split != "subject":
            self.identity(found, released, learn, out, test, repeat, strict=split == "strict")
        if split == "trial":
            scale = fit_part.X.std(axis=(0, 2), keepdims=True)
            found["mse"] = float((((out - test.X) / scale) ** 2).mean())
            found["certificate"] = certificate(out, test)
        self.store(f"{row}/{split}/{repeat}", found)
        self.say(f"{row}, {split}, repeat {repeat}: {json.dumps(found)}")
        if split == "trial":
            self.slowly(f"{row}/{split}/{repeat}", released, learn, out, test, repeat)
        self.collect()

    def filter(self, row: str, repeat: int) -> Any:
        o = self.options
        common = {"random_state": repeat, "device": o.device, "verbose": False}
        as_printed = tacit.AnonymizingAutoencoder.as_printed
        game = {
            "epochs": o.epochs,
            "n_maps": o.maps,
            "regularizer_steps": o.steps,
            "batch_size": o.batch,
            "learning_rate": o.rate,
            "regularizers": tuple(o.families.split(",")),
        }
        return {
            "raw": lambda: None,
            "resample10": lambda: tacit.baselines.Resample(10, 50),
            "resample5": lambda: tacit.baselines.Resample(5, 50),
            "ssa12": lambda: tacit.baselines.SingularSpectrum((1, 2)),
            "ssa1": lambda: tacit.baselines.SingularSpectrum(1),
            "rep": lambda: tacit.AnonymizingAutoencoder(
                o.beta, o.activity, regularize_output=False, noise=None, **game, **common
            ),
            "aae": lambda: tacit.AnonymizingAutoencoder(o.beta, o.activity, noise=o.noise, **game, **common),
            "aae_printed": lambda: as_printed(epochs=o.epochs, rounds=o.rounds, n_maps=o.maps, **common),
            "rep_printed": lambda: as_printed(
                epochs=o.epochs, rounds=o.rounds, n_maps=o.maps, regularize_output=False, **common
            ),
            "code": lambda: tacit.AnonymizingAutoencoder(
                2 * o.weight, 2.0, codes=o.codes, epochs=o.code_epochs, learning_rate=2e-3, **common
            ),
        }[row]()

    def cnn(self, X: np.ndarray, labels: Any, seed: int, make: Any = None) -> NetworkClassifier:
        """A fresh class-balanced network; wider than any that played in a game, with dropout."""
        classes, codes = np.unique(labels, return_inverse=True)
        network = NetworkClassifier(
            make or attacker, self.options.attack_epochs, 256, 3e-3, seed=seed, device=self.device
        )
        network.fit(X, codes, len(classes))
        network.classes = classes  # type: ignore[attr-defined]
        return network

    def identity(
        self, found: dict[str, Any], released: Any, learn: Any, out: Any, test: Any, repeat: int, strict: bool
    ) -> None:
        truth = test.sensitive["identity"].to_numpy()
        adaptive = self.cnn(released, learn.sensitive["identity"], repeat)
        p = adaptive.predict_proba(out)
        found["adaptive"], found["adaptive_balanced"] = scores(truth, adaptive.classes[p.argmax(1)])  # type: ignore[attr-defined]
        second = self.cnn(released, learn.sensitive["identity"], repeat, deep_classifier)
        q = second.predict_proba(out).argmax(1)
        found["adaptive_deep"], found["adaptive_deep_balanced"] = scores(truth, second.classes[q])  # type: ignore[attr-defined]
        for m in (5, 20):
            found[f"pooled_{m}"] = pooled(truth, p, adaptive.classes, test.units_of("identity"), m)  # type: ignore[attr-defined]
        if not strict:
            if repeat not in self.raw_attackers:
                self.raw_attackers[repeat] = self.cnn(learn.X, learn.sensitive["identity"], repeat)
            raw = self.raw_attackers[repeat]
            found["transfer"], found["transfer_balanced"] = scores(truth, raw.classes[raw.predict_proba(out).argmax(1)])  # type: ignore[attr-defined]

    def slowly(self, key: str, released: Any, learn: Any, out: Any, test: Any, repeat: int) -> None:
        """Attackers that do not scale, and DTW, on the CPU while the next filter trains."""
        rng = np.random.default_rng(repeat)
        a, b = rng.permutation(len(released))[:SOME], rng.permutation(len(out))[:SOME]
        who_a, who = learn.sensitive["identity"].to_numpy(), test.sensitive["identity"].to_numpy()
        dtw = np.concatenate(
            [rng.permutation(np.flatnonzero(who == u))[: self.options.dtw_windows] for u in np.unique(who)]
        )
        scale = learn.X.std(axis=(0, 2), keepdims=True)
        work = (released[a], who_a[a], out[b], who[b], test.X[dtw] / scale, out[dtw] / scale, who[dtw], repeat)
        if self.pool is None:
            self.store(key, slow_measures(*work))
        else:
            self.pending.append((key, self.pool.submit(slow_measures, *work)))

    def collect(self, wait: bool = False) -> None:
        for key, future in list(self.pending):
            if wait or future.done():
                self.store(key, future.result())
                self.pending.remove((key, future))

    def store(self, key: str, found: dict[str, Any]) -> None:
        self.results[key] = {**self.results.get(key, {}), **found}
        options = {k: v for k, v in vars(self.options).items() if k != "out"}
        self.results["settings"] = {**options, "device_used": self.device, "torch": torch.__version__}
        self.out.write_text(json.dumps(self.results, indent=1))

    def table(self) -> None:
        """Means over repeats (and deviations where there are several)."""
        columns = ("activity_f1", "adaptive", "adaptive_balanced", "adaptive_deep", "transfer", "others", "pooled_5")
        columns += ("pooled_20", "mse", "dtw_rank")
        print(
            f"{'row':11s} {'F1 subject':>11s} " + " ".join(f"{c[:11]:>11s}" for c in columns) + "  strict F1, adaptive"
        )
        for row in ORDER:
            trial = self.gather(f"{row}/trial/")
            if not trial:
                continue
            cells = [mean([r.get(c) for r in trial]) for c in columns]
            subject, strict = self.gather(f"{row}/subject/"), self.gather(f"{row}/strict/")
            told = " ".join(mean([r.get(c) for r in strict]) for c in ("activity_f1", "adaptive_balanced"))
            print(
                f"{row:11s} {mean([r.get('activity_f1') for r in subject]):>11s} "
                + " ".join(f"{c:>11s}" for c in cells)
                + f"  {told}"
            )
            print(f"{'':11s} {trial[0].get('certificate')}" + (f"; printed {PRINTED[row]}" if PRINTED[row] else ""))

    def gather(self, prefix: str) -> list[dict[str, Any]]:
        return [v for k, v in self.results.items() if k.startswith(prefix)]


def attacker(shape: Any, n_out: int) -> Any:
    return wide_classifier(shape, n_out, n_maps=64)


def activity_f1(network: Any, out: np.ndarray, test: Any) -> float:
    guess = network.classes[network.predict_proba(out).argmax(1)]
    return float(f1_score(test.y["activity"], guess, average="macro"))


def label_only(network: Any, learn: Any, test: Any) -> dict[str, list[float]]:
    """What the network's answers about raw windows keep (its accuracy) and leak when they alone are released."""
    answers = [network.predict_proba(d.X).argmax(1)[:, None].astype(float) for d in (learn, test)]
    kept, leaked = labels_alone(answers[0], learn, answers[1], test)
    return {name: [r.value, r.low, r.high, r.guessing] for name, r in (kept | leaked).items()}


def scores(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float]:
    right = truth == guess
    return float(right.mean()), float(np.mean([right[truth == c].mean() for c in np.unique(truth)]))


def pooled(truth: np.ndarray, p: np.ndarray, classes: np.ndarray, units: np.ndarray, m: int) -> dict[str, Any]:
    """The answer after m random windows of one recording, over the recordings that have as many."""
    rng = np.random.default_rng(0)
    right = []
    for u in np.unique(units):
        rows = np.flatnonzero(units == u)
        if len(rows) >= m:
            total = np.log(p[rng.permutation(rows)[:m]] + 1e-9).sum(axis=0)
            right.append(classes[total.argmax()] == truth[rows[0]])
    return {"accuracy": float(np.mean(right)) if right else None, "recordings": len(right)}


def certificate(out: np.ndarray, test: Any) -> str:
    """By counting over recordings, in words."""
    cells = release_cells(out)
    if cells is None:
        return "none exists for a continuous release: audited, not certified"
    secret = np.unique(test.sensitive["identity"], return_inverse=True)[1]
    units = np.unique(test.units_of("identity"), return_inverse=True)[1]
    m = int(secret.max()) + 1
    found = certify(cells, secret, m, look_delta(0.05, 1), units)  # a release by itself, as an audit's first look
    if found.bound < 1:
        return f"any attacker on one window: at most {found.bound:.3f} balanced (95 %), plug-in {found.plugin:.3f}"
    return f"too few units to certify ({found.n_units} recordings, plug-in {found.plugin:.3f})"


def slow_measures(
    released: np.ndarray, who_a: Any, out: np.ndarray, who_b: Any, raw: Any, seen: Any, users: Any, seed: int
) -> dict[str, Any]:
    """Attackers of scikit-learn on flat windows (distinct releases are few for a code), and the rank by DTW."""
    import warnings

    from tacit.auditing.attackers import ATTACKERS
    from tacit.auditing.dtw import dtw_rank

    warnings.simplefilter("ignore")
    A, B = released.reshape(len(released), -1), out.reshape(len(out), -1)
    mean_, scale = A.mean(0), A.std(0) + 1e-9
    A, B = (A - mean_) / scale, (B - mean_) / scale
    classes, codes = np.unique(who_a, return_inverse=True)
    found: dict[str, Any] = {}
    for name in ("rbf", "forest", "mlp"):
        model = ATTACKERS[name](A.shape, len(classes), seed).fit(A, codes)
        guess = classes[model.predict_proba(B).argmax(1)]
        found[f"other_{name}"] = scores(who_b, guess)[1]
    found["others"] = max(v for v in found.values())
    rank = dtw_rank(raw, seen, users, windows=len(raw))
    return {**found, "dtw_rank": float(rank.rank.value), "dtw_sd": rank.rank_sd}


def mean(values: list[Any]) -> str:
    plain = [v["accuracy"] if isinstance(v, dict) else v for v in values]
    plain = [v for v in plain if v is not None]
    if not plain:
        return "-"
    return f"{np.mean(plain):.3f}" + (f"±{np.std(plain):.3f}" if len(plain) > 1 else "")


if __name__ == "__main__":
    main()
