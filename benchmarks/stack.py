"""Games trained in one stack against the same games one by one: EIGAN, batch 512, encoder 105-128-128-16.

    python benchmarks/stack.py [--device cuda] [--games 32 256] [--minutes 3] [--out FILE]

Synthetic data of Adult's shape (32,561 rows, 105 columns, a target and a secret). G games are 8 seeds (32 games:
4) times equally spaced alphas. One by one means what a user would do without a stack: each game alone, eagerly
(no CUDA graph). A few of these are timed over a few rounds and multiplied by G, as is said in the output; the
stack is timed over the same rounds (on a CPU 32 games at a time, as a fit plays them). Then both play the same rounds
from the same seeds, and the largest difference of their losses is shown. On a GPU also: utility and leakage of the same
stack trained on the CPU.
Prints the ratios and writes benchmarks/stack.json (or --out).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from tacit.filters.base import Problem
from tacit.filters.eigan import EIGAN, Game
from tacit.labels import Labels
from tacit.nets.mlp import mlp
from tacit.training.device import CACHED
from tacit.training.replay import WARM_UP, replayed

ROWS, COLUMNS, CODE, BATCH = 32_561, 105, 16, 512


def encoder(n_in, n_out):
    return mlp(n_in, n_out, hidden=(128, 128))


def made_up(rows: int = ROWS) -> Problem:
    """u tells the target, v the secret, u and v are related; the other columns are noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS))
    u, v = X[:, :5].sum(1) / 5**0.5, (X[:, 3:8].sum(1)) / 5**0.5
    y, s = ((w + 0.5 * rng.standard_normal(rows) > 0).astype(np.int64)[:, None] for w in (u, v))
    two = (np.array([0, 1]),)
    return Problem(X, Labels(("y",), two, y), Labels(("s",), two, s), None, 0)


def games(count: int) -> tuple[list[float], list[int]]:
    seeds = 8 if count >= 256 else 4
    alphas = np.linspace(0.1, 0.9, count // seeds)
    return [float(a) for a in alphas for _ in range(seeds)], [s for _ in alphas for s in range(seeds)]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--games", type=int, nargs="+", default=[32, 256])
    arguments.add_argument("--rounds", type=int, default=None, help="rounds that are timed")
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    chosen = arguments.parse_args()
    f = EIGAN(CODE, encoder=encoder, batch_size=BATCH, device=chosen.device)
    problem = made_up()
    device = Game(f, problem, [0.5], [0]).device
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}; a round is {f.adversary_steps} adversary steps and one of the encoder", flush=True)
    rounds = chosen.rounds or (60 if on_gpu else 3)
    results: dict = {"device": name, "rounds": rounds, "stack": {}}
    for count in chosen.games:
        results["stack"][str(count)] = compare(f, problem, count, rounds, device)
        Path(chosen.out).write_text(json.dumps(results, indent=1))
    if on_gpu:
        results["agreement"] = agreement(problem)
        Path(chosen.out).write_text(json.dumps(results, indent=1))


def compare(f, problem, count, rounds, device) -> dict:
    most = count if device.type == "cuda" else min(count, CACHED)  # as many at a time as a fit would play
    alphas, seeds = (part[:most] for part in games(count))
    some = np.linspace(0, most - 1, 4).astype(int)  # games that are also played alone
    alone, seconds = [], []
    for g in some:
        game = Game(f, problem, [alphas[g]], [seeds[g]])
        for _ in range(WARM_UP):
            game.step()
        seconds.append(timed(game.step, rounds, device))
        alone.append(game)
    stack = Game(f, problem, alphas, seeds)
    eager = None
    if device.type == "cuda":
        eager = timed(Game(f, problem, alphas, seeds).step, max(3, rounds // 10), device, warm_up=WARM_UP)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play = replayed(stack.round, stack.draw, device)
        for _ in range(WARM_UP):
            play()
        together = timed(play, rounds, device) * count / most
    losses = torch.cat(play()).float().cpu()
    own = torch.stack([torch.cat(game.step())[:, 0].float().cpu() for game in alone])
    apart = (losses[:, some].T - own).abs().max().item()
    one = float(np.mean(seconds))
    per_epoch = ROWS // BATCH
    found = {
        "one_by_one_s_per_round_and_game": one,
        "stack_s_per_round": together,
        "stack_without_graph_s_per_round": eager,
        "ratio": one * count / together,
        "ratio_to_stack_without_graph": None if eager is None else eager / together,
        "largest_loss_difference": apart,
        "after_rounds": rounds + WARM_UP + 1,
        "fallback": [str(w.message) for w in caught],
    }
    print(
        f"{count} games: one by one {one * count * per_epoch:.2f} s an epoch (4 timed, {one * 1e3:.2f} ms a round "
        f"each, times {count}), stacked {together * per_epoch:.3f} s"
        + (f" (without CUDA graph {eager * per_epoch:.3f} s)" if eager is not None else "")
        + f": {found['ratio']:.1f} times faster; largest difference of losses after {found['after_rounds']} rounds "
        f"{apart:.1e}",
        *found["fallback"],
        flush=True,
    )
    return found


def timed(step, rounds, device, warm_up: int = 1) -> float:
    for _ in range(warm_up):
        step()
    # on a CPU, the processor's seconds: other work on the machine would count otherwise
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = clock()
    for _ in range(rounds - (warm_up == 1)):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (clock() - began) / (rounds - (warm_up == 1))


def agreement(problem) -> dict:
    """The same games trained on the CPU and on the GPU: accuracy of y and of s by fresh logistic attackers."""
    from sklearn.linear_model import LogisticRegression

    small = Problem(problem.X[:8000], problem.targets.take(slice(8000)), problem.sensitive.take(slice(8000)), None, 0)
    held = torch.as_tensor(problem.X[8000:24000], dtype=torch.float64)
    labels = problem.targets.codes[8000:24000, 0], problem.sensitive.codes[8000:24000, 0]
    scores = {}
    for device in ("cpu", "cuda"):
        f = EIGAN(4, noise=None, epochs=2, batch_size=BATCH, device=device)
        game = Game(f, small, [0.3, 0.7], [0, 1])
        game.train(2)
        rows = []
        for g in range(2):
            with torch.no_grad():
                Z = torch.tanh(game.encoders.module(g).double()(held)).numpy()
            rows += [LogisticRegression().fit(Z[:8000], c[:8000]).score(Z[8000:], c[8000:]) for c in labels]
        scores[device] = rows
    apart = float(np.abs(np.subtract(scores["cpu"], scores["cuda"])).max())
    print(f"CPU and GPU, utility and leakage of the same games: largest difference {apart:.1e}", flush=True)
    return {**scores, "largest_difference": apart}


if __name__ == "__main__":
    main()
