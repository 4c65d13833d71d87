"""What D-EIGAN's nodes upload, to a server that reads it: a property of a node's people, against the share phi.

The paper says that sending a part phi of the encoder reduces what leaks of a node, and does not measure it. Here a
curious server that knows the common start wants to know which of two populations a node has: as many men as women, or
four men to a woman. It plays nodes of its own with public rows (shadow nodes), learns from what these would upload, and
is measured on nodes whose people it never saw. Sex is what the nodes hide, and no input.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

import tacit
from papers.common.run import Run, by_attacker, honest, over_seeds
from tacit.filters.base import Problem
from tacit.filters.eigan import Game
from tacit.labels import encode_labels
from tacit.records.encoding import make_encoder

from .protocol import ATTACKS_ALONE

with suppress(ModuleNotFoundError):  # without cryptography there are no federations, and all other experiments
    from tacit.federated.distributed_eigan import parameters_of
    from tacit.federated.protocol import choose_indices


def uploads(run: Run) -> None:
    """Fresh attackers on uploads: shadow nodes to learn from, others to be measured on."""
    s = run.settings
    found = [run.part(f"seed {seed}", read_uploads, seed, s) for seed in run.seeds]
    drawn = Figure(figsize=(6, 3.4), layout="constrained")
    axis = drawn.subplots()
    for rounds in s["rounds"]:
        words = f"after {rounds} exchange{'s' if rounds > 1 else ''}"
        told = {phi: over_seeds([f[f"{rounds} {phi:g}"] for f in found]) for phi in s["phis"]}
        for phi, leak in told.items():
            printed = "reduces leakage" if phi < 1 else None
            run.row(f"phi={phi:g}, {words}", "which population, balanced accuracy", printed,
                    guessing=leak["guessing"], **by_attacker(leak))  # fmt: skip
        value = np.array([leak["value"] for leak in told.values()])
        ends = np.array([[leak[end] for leak in told.values()] for end in ("low", "high")])
        axis.errorbar(list(told), value, np.abs(ends - value), fmt="o-", capsize=2, label=words)
    axis.axhline(0.5, color="0.6", lw=0.8, label="guessing")
    axis.set(xscale="log", xlabel="phi, share of the encoder that is sent", ylim=(0.4, 1.02),
             ylabel="which population a node has,\nbalanced accuracy of the server")  # fmt: skip
    axis.set_xticks(s["phis"], [f"{phi:g}" for phi in s["phis"]])
    axis.minorticks_off()
    axis.legend(frameon=False, fontsize=8)
    run.figure("uploads", drawn)


def read_uploads(seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """By "rounds phi": an attacker's result on the nodes that it did not learn from."""
    data = tacit.load_dataset("adult")
    public, private = data.split((0.5, 0.5), random_state=seed)
    encoder = make_encoder(public.X)
    rng = np.random.default_rng((seed, 15))
    kinds, paths, part = [], [], []
    for which, rows, count in ((0, public, s["shadows"]), (1, private, s["nodes"])):
        X, men = encoder.transform(rows.X), (rows.sensitive["sex"] == "Male").to_numpy()
        for i in range(count):
            kind = ("even", "mostly men")[i % 2]
            people = draw_people(men, s["people"], {"even": 0.5, "mostly men": 0.8}[kind], rng)
            paths.append(encoder_path(X[people], rows, people, seed, max(s["rounds"]), int(rng.integers(2**31))))
            kinds.append(kind)
            part.append(which)
    where, kind = np.array(part), pd.DataFrame({"population": kinds})
    found = {}
    for rounds in s["rounds"]:
        ways = [path[: rounds + 1] for path in paths]
        own = np.stack([known_to_server(way, 1.0, rng) for way in ways[: s["shadows"]]])  # all of what it played itself
        for phi in s["phis"]:
            sent = np.stack([known_to_server(way, phi, rng) for way in ways])
            found[f"{rounds} {phi:g}"] = told_apart(own, sent, kind, where, seed, s)
    return found


def draw_people(men: np.ndarray, n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    of = {True: round(share * n), False: n - round(share * n)}
    return np.concatenate([rng.choice(np.flatnonzero(men == sex), count, False) for sex, count in of.items()])


def encoder_path(
    X: np.ndarray, rows: tacit.Dataset, people: np.ndarray, start: int, rounds: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """A node's encoder at the common start and after each epoch of its own (Alg. 1, lines 17-19)."""
    f = tacit.EIGAN.as_printed(8, batch_size=64, device="cpu")
    labels = [encode_labels(frame.iloc[people], what, len(people))
              for frame, what in ((rows.y, "y"), (rows.sensitive, "sensitive_features"))]  # fmt: skip
    game = Game(f, Problem(X, *labels, None, seed), [f.alpha], [seed])
    common = Game(f, Problem(X, *labels, None, start), [f.alpha], [start])  # all nodes download the same encoder
    assert game.encoders.alone is not None
    assert common.encoders.alone is not None
    game.encoders.alone.load_state_dict(common.encoders.alone.state_dict())
    path = [parameters_of(game.encoders.alone)]
    for _ in range(rounds):
        game.advance(game.batches.per_epoch)
        path.append(parameters_of(game.encoders.alone))
    return path


def known_to_server(path: list[dict[str, np.ndarray]], phi: float, rng: np.random.Generator) -> np.ndarray:
    """The last value of each weight that was sent, less the common start's; NaN where none was (line 20)."""
    known = {name: np.full(value.size, np.nan, np.float32) for name, value in path[0].items()}
    for now in path[1:]:
        chosen = choose_indices(now, phi, rng) or {name: slice(None) for name in now}
        for name, sent in chosen.items():
            known[name][sent] = (now[name] - path[0][name]).reshape(-1)[sent]
    return np.concatenate(list(known.values()))


def told_apart(own: np.ndarray, sent: np.ndarray, kind: pd.DataFrame, where: np.ndarray, seed: int,
               s: Mapping[str, Any]) -> dict[str, Any]:  # fmt: skip
    """Attackers read where an upload lies along the main directions of the shadow nodes' whole encoders."""
    directions = PCA(min(s["directions"], len(own) - 1), random_state=seed).fit(own)
    Z = np.stack([along(directions, x) for x in sent]) / np.sqrt(directions.explained_variance_)
    shadow, node = (
        tacit.Dataset(Z[where == w], None, kind[where == w].reset_index(drop=True), name="uploads") for w in (0, 1)
    )
    report = tacit.audit(
        None,
        shadow,
        node,
        s["attackers"],
        measurements=[*ATTACKS_ALONE, "no-baseline"],
        random_state=seed,
        options=tacit.AuditOptions(pooled=()),
    )
    return honest(report)["leakage"]["population"]


def along(directions: PCA, x: np.ndarray) -> np.ndarray:
    """The likeliest place of a whole encoder, given the weights that were sent (the server knows which these are)."""
    seen = ~np.isnan(x)
    V = directions.components_[:, seen]
    noise = max(float(directions.noise_variance_), 1e-12)
    precision = V @ V.T / noise + np.diag(1 / directions.explained_variance_)
    return np.linalg.solve(precision, V @ (x[seen] - directions.mean_[seen]) / noise)
