"""Frontiers: stacked training equals one by one, numbers are fresh attackers', choices hold, kills cost nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import browser
import tacit
from tacit.errors import InputError, RequirementNotMet, TacitWarning
from tacit.filters.base import prepare
from tacit.filters.eigan import Game, play, stacked_games
from tacit.nets.mlp import mlp
from tacit.solvers.code_training import train_codes
from tacit.solvers.exact import label_mass
from tacit.tradeoff.curve import _area
from tacit.tradeoff.fitting import fit_points
from tacit.tradeoff.points import Point, grid, lay_out
from tacit.training.device import CACHED, choose_device

pytestmark = pytest.mark.usefixtures("few_steps")  # what is done with codes, not how good they are

RULE = tacit.CodebookFilter(solver="closed", n_folds=2)
QUICKLY = {"n_jobs": 1, "attackers": "logistic", "limit": False}


def people(n=1500, seed=0):
    """y follows u, s follows v, u and v are related: there is something to trade."""
    rng = np.random.default_rng(seed)
    u, w = rng.standard_normal((2, n))
    v = 0.5 * u + 0.85 * w
    X = np.column_stack([u, v, rng.standard_normal((n, 3))]) + 0.1 * rng.standard_normal((n, 5))
    y = np.where(u + 0.5 * rng.standard_normal(n) > 0, "yes", "no")
    s = np.where(v + 0.5 * rng.standard_normal(n) > 0, "a", "b")
    return tacit.Dataset(X, {"y": y}, {"s": s}, name="people")


@pytest.fixture(scope="module")
def parts():
    return people().split((0.4, 0.3, 0.3), random_state=0)


def trace(parts, checkpoint=None, **options):
    settings = {"values": [0.0, 0.1, 0.2], "seeds": 2, **QUICKLY} | options
    return tacit.frontier(RULE, *parts, checkpoint=checkpoint, **settings)


@pytest.fixture(scope="module")
def front(parts):
    return trace(parts, limit=None)


# -- stacks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_stacked_eigan_games_equal_games_one_by_one(parts, dtype, close):
    """Same initial weights, batches and noise; 20 rounds; seeds are shared by some games."""
    f = tacit.EIGAN(3, noise=0.2, batch_size=64, adversary_steps=1)
    problem = prepare(f, parts[0].X, parts[0].y, parts[0].sensitive, None)
    alphas, seeds = [0.2, 0.5, 0.8, 0.5], [11, 11, 12, 12]
    together = Game(f, problem, alphas, seeds, dtype)
    alone = [Game(f, problem, [a], [s], dtype) for a, s in zip(alphas, seeds, strict=True)]
    for _ in range(20):
        for game in (together, *alone):
            game.step()
    weights = [
        [p.detach() for stack in (game.encoders, *game.allies, *game.adversaries) for p in stack.module(g).parameters()]
        for game, g in [(together, g) for g in range(4)] + [(game, 0) for game in alone]
    ]
    for stacked, single in zip(weights[:4], weights[4:], strict=True):
        assert max((a - b).abs().max().item() for a, b in zip(stacked, single, strict=True)) < close
    assert (weights[0][0] - weights[1][0]).abs().max() > 1e-3  # the control: the knob alone makes games differ


@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_stacked_codes_equal_codes_one_by_one(parts, dtype, close):
    """50 steps, a third of them label-only; the best hard state of each network is its own."""
    train = parts[0]
    X = torch.as_tensor(train.X, dtype=dtype)
    y, s = (pd.factorize(frame.iloc[:, 0])[0] for frame in (train.y, train.sensitive))
    keep, hide = ([torch.as_tensor(label_mass(c, 2, b), dtype=dtype)] for c, b in ((y, False), (s, True)))

    def run(weights, seeds):
        made = train_codes(
            lambda: mlp(5, 4, hidden=(16,)),
            *(X, keep, hide, 4, weights, seeds),
            batch_size=190,
            rate=2e-3,
            epochs=10,
            seed=seeds[0],
        )
        return [([p.detach() for p in net.parameters()], history) for net, history in made]

    weights, seeds = [0.0, 3.0, 3.0], [5, 5, 6]
    together = run(weights, seeds)
    for (stacked, told), w, seed in zip(together, weights, seeds, strict=True):
        single, alone = run([w], [seed])[0]
        assert max((a - b).abs().max().item() for a, b in zip(stacked, single, strict=True)) < close
        assert told[-1]["loss"] == pytest.approx(alone[-1]["loss"], abs=1e-4)
    assert (together[0][0][0] - together[1][0][0]).abs().max() > 1e-3


def dropping(n_in, n_out):
    return torch.nn.Sequential(torch.nn.Linear(n_in, n_out), torch.nn.Dropout())


@pytest.mark.parametrize(
    "template, knob",
    [
        (RULE, "leakage_weight"),
        (tacit.CodebookFilter(4, features="raw", epochs=3), "leakage_weight"),
        (tacit.EIGAN(2, epochs=1), "alpha"),
        (tacit.EIGAN(2, epochs=1, n_bins=5), "alpha"),
        (tacit.EIGAN(2, epochs=1, encoder=dropping), "alpha"),
    ],
    ids=["posterior", "raw", "eigan", "eigan with pieces", "eigan with dropout"],
)
@pytest.mark.filterwarnings("ignore:.*collapsed")
def test_points_fitted_together_are_the_filters_a_user_would_fit(parts, template, knob):
    train, _, test = parts
    points = [Point(i, "f", knob, v, s) for i, (v, s) in enumerate([(0.2, 0), (0.6, 0), (0.2, 1)])]
    for point, f in zip(points, fit_points(template, points, train), strict=True):
        alone = clone(template).set_params(**{knob: point.value, "random_state": point.seed})
        alone.fit(train.X, train.y, sensitive_features=train.sensitive)
        assert np.abs(f.transform(test.X) - alone.transform(test.X)).max() < 1e-4
        assert f.get_params() == alone.get_params()


def test_stacks_that_do_not_fit_in_memory_are_cut(parts, monkeypatch):
    f = tacit.EIGAN(2, epochs=1)
    problem = prepare(f, parts[0].X, parts[0].y, parts[0].sensitive, None)
    assert stacked_games(f, problem) == CACHED
    pages = 4_000_000 * 2 // os.sysconf("SC_PAGE_SIZE")  # 4 MB to spend
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: pages if name == "SC_AVPHYS_PAGES" else real(name))
    few = stacked_games(f, problem)
    assert 1 <= few < 20
    played = []
    monkeypatch.setattr("tacit.filters.eigan.play", lambda *args: played.append(len(args[2])) or play(*args))
    points = [Point(i, "f", "alpha", 0.5, i) for i in range(few + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(fit_points(f, points, parts[0])) == few + 1
    assert played == [few, 1]


def test_a_missing_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(TacitWarning, match="no GPU here; the CPU is used"):
        assert choose_device("cuda").type == "cpu"
    with pytest.raises(InputError, match="device must be"):
        choose_device("quantum")


# -- honest numbers --------------------------------------------------------------------------------


def test_points_report_fresh_attackers_never_the_training_adversary(parts):
    """An adversary that hardly learns says that nothing leaks; the curve must say what a fresh one finds."""
    lazy = tacit.EIGAN(4, epochs=4, adversary_steps=1, sensitive_head=lambda i, o: Frozen(i, o), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = tacit.frontier(lazy, *parts, values=[0.9], seeds=1, **QUICKLY).traced[0]
        f = fit_points(lazy, [traced.point], parts[0])[0]
    told = f.history_[-1]["adversary s"]
    assert told == pytest.approx(np.log(2), abs=0.05)  # the training adversary: a coin
    assert traced.leakage["s"].low > 0.55
    again = tacit.audit(f, parts[1], parts[2], "logistic", measurements="no-baseline")
    assert traced.leakage["s"].value == pytest.approx(again.leakage["s"].value, abs=0.02)


class Frozen(torch.nn.Module):
    """An adversary's head that has one parameter, and it does not see the code."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(n_out))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(*z.shape[:-1], -1) + 0 * z.sum(-1, keepdim=True)


def test_certificates_and_intervals_are_simultaneous(front, parts):
    n = len(front.traced)
    point = front.traced[3]
    f = fit_points(RULE, [point.point], parts[0])[0]
    for candidates, equal in ((n, True), (1, False)):  # the control: at full delta the bound is tighter
        report = tacit.audit(
            f,
            parts[1],
            parts[2],
            "logistic",
            measurements="no-baseline",
            options=tacit.AuditOptions(candidates=candidates),
        )
        assert (report.certificate["s"].bound == pytest.approx(point.certificate["s"].bound, abs=1e-12)) is equal
    alone = tacit.audit(f, parts[1], parts[2], "logistic", measurements="no-baseline", confidence_level=1 - 0.05 / n)
    assert point.utility["y"].low == pytest.approx(alone.utility["y"].low, abs=0.02)
    assert point.leakage["s"].attacker == "counting"


def test_a_choice_keeps_what_was_asked(front, parts):
    bounds = front.table()["s certified"]
    wish = float(bounds.median())
    best = front.choose(max_leakage={"s": wish}, certified=True)
    assert best.report_.certificate["s"].bound <= wish
    inside = front.table()[bounds <= wish]
    assert best.report_.utility["y"].value == inside["y"].max()
    assert best.report_.settings.candidates == len(front.traced)
    best.report_.require(leakage={"s": wish}, certified=True)
    assert (best.transform(parts[2].X) == best.transform(parts[2].X)).all()
    least = front.choose(min_utility={"y": 0.6})
    assert least.report_.utility["y"].low >= 0.6
    useful = front.table()[front.table()["y low"] >= 0.6]
    assert least.report_.certificate["s"].bound == pytest.approx(useful["s certified"].min())
    best.fit(parts[0].X, parts[0].y, sensitive_features=parts[0].sensitive)
    assert not hasattr(best, "report_")  # another fit has no audit


def test_infeasible_wishes_name_the_nearest_point(front):
    tightest = front.table().sort_values("s certified").iloc[0]
    with pytest.raises(RequirementNotMet, match=f"no point has s <= .100.*nearest is .*={tightest['value']:g} seed"):
        front.choose(max_leakage={"s": 0.1}, certified=True)
    with pytest.raises(RequirementNotMet, match=r"y >= \.999"):
        front.choose(min_utility={"y": 0.999})
    with pytest.raises(InputError, match="no sensitive attribute is called 'sex'; there is s"):
        front.choose(max_leakage={"sex": 0.5})
    with pytest.raises(InputError, match="say what you can accept"):
        front.choose()
    for bound in (55, float("nan"), -0.1, "0.55", None):  # 55 for .55 must not let every point pass
        with pytest.raises(InputError, match=r"bound on 's'.* between 0 and 1"):
            front.choose(max_leakage={"s": bound})
        with pytest.raises(InputError, match=r"bound on 'y'.* between 0 and 1"):
            front.choose(min_utility={"y": bound})


def test_audited_choices_count_by_the_upper_end(parts):
    pca = make_pipeline(StandardScaler(), PCA(random_state=0))
    front = tacit.frontier(pca, *parts, values=[1, 4], seeds=1, knob="pca__n_components", **QUICKLY)
    highs = front.table()["s high"]
    assert (highs > front.table()["s"]).all()
    best = front.choose(max_leakage={"s": float(highs.max())})
    assert best.report_.leakage["s"].high <= highs.max()
    with pytest.raises(RequirementNotMet, match="no point has a certificate"):
        front.choose(max_leakage={"s": 0.99}, certified=True)
    between = (front.table()["s"].min() + highs.min()) / 2  # the value would do, the upper end does not
    with pytest.raises(RequirementNotMet, match="upper ends of simultaneous intervals"):
        front.choose(max_leakage={"s": float(between)})


# -- the curve -------------------------------------------------------------------------------------


def test_the_curve_in_numbers(front):
    table = front.table()
    assert table["pareto"].any()
    for _, row in table[~table["pareto"]].iterrows():
        assert ((table["y"] >= row["y"]) & (table["s"].clip(lower=0.5) <= max(row["s"], 0.5))).sum() > 1
    area = front.hypervolume()
    assert 0 < area.low <= area.value <= area.high < 1
    part = front.only("CodebookFilter")
    assert part.hypervolume() == area
    assert not front.superiority(front).superior
    far = front.distance_to_limit()
    assert len(far)
    assert far["distance"].max() < 0.08
    text = str(front)
    assert "hypervolume" in text
    assert "below the estimated limit" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_area_is_that_of_the_staircase():
    assert _area(np.array([0.5]), np.array([0.5])) == 0.25
    assert _area(np.array([0.5, 1.0, 0.4]), np.array([1.0, 0.5, 0.9])) == 0.75
    assert _area(np.array([-1.0]), np.array([2.0])) == 0


def test_a_better_curve_has_more_volume_and_is_superior(parts):
    """Codes that see the records against codes that see noise."""
    rng = np.random.default_rng(0)
    blind = [tacit.Dataset(rng.standard_normal((len(p), 5)), p.y, p.sensitive) for p in parts]
    seeing, guessing = (trace(p, values=[0.0, 0.1], seeds=1) for p in (parts, blind))
    assert seeing.hypervolume().low > guessing.hypervolume().high


def test_grids_and_layouts():
    assert grid(tacit.EIGAN(), "alpha", 3, "f") == [0.05, 0.35, 0.9]
    assert grid(tacit.baselines.Autoencoder(), "n_components", 3, "f") == [1, 6, 32]
    points = lay_out({"a": tacit.EIGAN()}, [0.1, 0.1, 0.2], [7, 8], None)
    assert [(p.value, p.seed) for p in points] == [(0.1, 7), (0.1, 8), (0.2, 7), (0.2, 8)]
    with pytest.raises(InputError, match="name it: knob="):
        lay_out({"a": PCA()}, 3, 1, None)
    with pytest.raises(InputError, match="no default values"):
        lay_out({"a": PCA()}, 3, 1, "n_components")
    assert len(lay_out({"a": StandardScaler()}, [True], 5, "with_mean")) == 1  # no seed, no repetition


@pytest.mark.filterwarnings("ignore:.*collapsed")
def test_several_filters_make_one_picture(parts, tmp_path):
    filters = {
        "code": RULE,
        "label": tacit.baselines.LabelOnly(n_folds=2),
        "noisy": tacit.EIGAN(2, noise=0.5, epochs=2),
    }
    mixed = tacit.frontier(
        filters, *parts, values={"code": [0.1], "label": [2], "noisy": [0.3, 0.6]}, seeds=1, **QUICKLY
    )
    assert mixed.filters == ["code", "label", "noisy"]
    assert mixed.candidates == 4
    assert mixed.only("noisy").candidates == 4
    noisy = mixed.choose(max_leakage={"s": 0.99})
    assert noisy is not None
    back = mixed.build(mixed.only("noisy").traced[0])  # from its weights, not trained again
    assert back.noise_key is not None
    page = mixed.to_html(tmp_path / "front.html")
    with browser.driven(tmp_path / "profile") as shown:
        shown.open(page.resolve().as_uri())
        assert shown.evaluate("document.documentElement.dataset.drawn") == "yes"
        assert shown.evaluate("document.querySelectorAll('circle.point.mark').length") == 4
        assert not shown.console


# -- kills -----------------------------------------------------------------------------------------


@pytest.mark.slow  # guards a killed frontier goes on to the same table
def test_after_kill_9_the_table_is_identical(parts, tmp_path, all_steps):
    """Killed after the second half-point written, and again later; each time it resumes where it was."""
    whole = trace(parts, tmp_path / "whole").table()
    for after in (2, 9):  # among the first group's points; then (all are trained again or kept) among the audits
        code = f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import torch
        torch.set_num_threads(1)
        import test_frontier as t
        from tacit.tradeoff.checkpoint import Folder
        write, count = Folder.write, [0]
        def killed(self, *args):
            write(self, *args)
            count[0] += 1
            if count[0] == {after}:
                os.kill(os.getpid(), signal.SIGKILL)
        Folder.write = killed
        t.trace(t.people().split((0.4, 0.3, 0.3), random_state=0), {str(tmp_path / "again")!r})
        """
        ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, env={**os.environ})
        assert ran.returncode == -9, ran.stderr.decode()
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "again").glob("*-audited.json")}
    assert 0 < len(before) < 6
    again = trace(parts, tmp_path / "again")
    pd.testing.assert_frame_equal(again.table(), whole, check_exact=True)
    assert all((tmp_path / "again" / name).stat().st_mtime_ns == when for name, when in before.items())
    assert {p.suffix for p in (tmp_path / "again").iterdir()} <= {".json", ".safetensors"}


def test_a_noisy_stack_resumes_to_the_same_table(parts, tmp_path):
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = tacit.EIGAN(2, noise=0.3, epochs=2)
            return tacit.frontier(f, *parts, values=[0.2, 0.8], seeds=1, checkpoint=tmp_path / "c", **QUICKLY)

    whole = run().table()
    for name in ("001-audited", "000-trained"):  # lost: one audit, and half of what a stack trained
        (tmp_path / "c" / f"{name}.json").unlink()
    pd.testing.assert_frame_equal(run().table(), whole, check_exact=True)


def test_a_folder_of_another_frontier_is_refused(parts, tmp_path):
    trace(parts, tmp_path, values=[0.1], seeds=1)
    with pytest.raises(InputError, match="other points"):
        trace(parts, tmp_path, values=[0.2], seeds=1)
    with pytest.raises(InputError, match="other data"):
        trace([*parts[:2], parts[1]], tmp_path, values=[0.1], seeds=1)
    for text, words in (("{", "cannot be read"), ("[]", "not a plan of a frontier")):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(InputError, match=words):
            trace(parts, tmp_path, values=[0.1], seeds=1)
    with pytest.raises(InputError, match=r"plan.json cannot be a folder \(File exists\)"):
        trace(parts, tmp_path / "plan.json", values=[0.1], seeds=1)


def test_a_damaged_file_is_named_and_done_anew_once_it_is_deleted(parts, tmp_path):
    whole = trace(parts, tmp_path, values=[0.1, 0.5], seeds=1).table()
    for half in ("trained", "audited"):
        for suffix in (".json", ".safetensors"):
            path = tmp_path / f"001-{half}{suffix}"
            path.write_bytes(path.read_bytes()[:40])  # a full disk, a copy that broke off
            with pytest.raises(InputError, match=rf"001-{half}\.\* cannot be read .*delete 001-{half}\.json"):
                trace(parts, tmp_path, values=[0.1, 0.5], seeds=1)
            path.with_suffix(".json").unlink()
            pd.testing.assert_frame_equal(trace(parts, tmp_path, values=[0.1, 0.5], seeds=1).table(), whole)


@pytest.mark.usefixtures("all_steps")
def test_processes_give_the_same_table(parts):
    one, two = (trace(parts, values=[0.1, 0.2], n_jobs=n).table() for n in (1, 2))
    pd.testing.assert_frame_equal(two, one, check_exact=True)


def test_a_filter_that_does_not_repeat_itself_is_refused(parts):
    class Fickle(PCA):
        def transform(self, X):
            return super().transform(X) + np.random.default_rng().standard_normal()

    front = tacit.frontier(Fickle(random_state=0), *parts, values=[1], seeds=1, knob="n_components", **QUICKLY)
    with pytest.raises(InputError, match="releases other records than the audited one"):
        front.choose(max_leakage={"s": 1.0})


def test_a_chosen_filter_is_saved_with_its_audit(front, tmp_path):
    best = front.choose(max_leakage={"s": 0.99}, certified=True)
    bundle = tacit.load(tacit.save(best, tmp_path / "best.tacit"))
    assert bundle is not None
    import zipfile

    with zipfile.ZipFile(tmp_path / "best.tacit") as file:
        told = json.loads(file.read("audit.json"))
    assert told["settings"]["candidates"] == len(front.traced)


def test_rows_streamed_from_parquet_train_the_same_filters(tmp_path, monkeypatch):
    data = people()
    table = pd.DataFrame(data.X, columns=list("abcde")).assign(word=np.where(data.X[:, 0] > 1, "up", "down"))
    parts = tacit.Dataset(table, data.y, data.sensitive).split((0.4, 0.3, 0.3), random_state=0)
    pd.concat([parts[0].X, parts[0].y, parts[0].sensitive], axis=1).assign(more=1).to_parquet(
        tmp_path / "train.parquet"
    )
    monkeypatch.setattr("tacit.tradeoff.streaming.AT_ONCE", 100)  # several reads
    settings = {"values": [0.3, 0.7], "seeds": 1, **QUICKLY}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = tacit.EIGAN(2, epochs=2)
        streamed = tacit.frontier(f, tmp_path / "train.parquet", *parts[1:], checkpoint=tmp_path / "c", **settings)
        in_memory = tacit.frontier(f, *parts, **settings)
    pd.testing.assert_frame_equal(streamed.table(), in_memory.table(), check_exact=True)
    assert streamed.rows["train"] == len(parts[0])
    assert streamed.choose(max_leakage={"s": 1.0}).seen(parts[0].X).all()
    with pytest.raises(InputError, match="CodebookFilter needs its rows in memory"):
        tacit.frontier(tacit.CodebookFilter(), tmp_path / "train.parquet", *parts[1:], **settings)
    parts[0].X.assign(y=parts[0].y["y"]).to_parquet(tmp_path / "less.parquet")
    with pytest.raises(InputError, match="has no column 's'"):
        tacit.frontier(f, tmp_path / "less.parquet", *parts[1:], **settings)
