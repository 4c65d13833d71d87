"""Differentially private fits: the accountant, the steps, the statement, and a membership attack below the bound."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import tacit
from tacit.baselines import LinearARL, LinearEraser
from tacit.baselines.moments import beside_labels, summed_products
from tacit.errors import InputError
from tacit.federated import DistributedEIGAN, Node
from tacit.filters.codebook import count_pieces, made_up
from tacit.filters.public_intake import encode_in_public
from tacit.ledger.recording import entry
from tacit.noise.accounting import DP, Spent, epsilon_of
from tacit.training.private_steps import PrivateSteps

accounting = pytest.importorskip("dp_accounting")
pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.CollapseWarning")  # the fits are short


# -- the accountant ----------------------------------------------------------------------------------


def test_one_gaussian_step_is_the_closed_form():
    """Theorem 8 of Balle & Wang (2018) gives delta of the Gaussian mechanism; no library in between."""
    for noise in (0.8, 2.0, 5.0):
        epsilon = epsilon_of(1.0, noise, 1, 1e-5)
        a, b = 1 / (2 * noise), epsilon * noise
        assert norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) == pytest.approx(1e-5, rel=2e-3)


@pytest.mark.parametrize("rate, noise, steps", [(0.01, 1.0, 500), (0.05, 2.0, 300), (0.3, 3.0, 50)])
def test_epsilon_is_the_librarys_own(rate, noise, steps):
    """By another road: step by step instead of composed at once; and no more than its RDP accountant says."""
    event = accounting.PoissonSampledDpEvent(rate, accounting.GaussianDpEvent(noise))
    found = epsilon_of(rate, noise, steps, 1e-5)
    one = accounting.pld.PLDAccountant().compose(event, steps).get_epsilon(1e-5)
    loose = accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-5)
    assert one <= found <= 1.002 * one  # its grid is coarser, and rounds upwards
    assert found <= loose
    assert epsilon_of(rate, noise, 2 * steps, 1e-5) > found < epsilon_of(rate, noise / 2, steps, 1e-5)


def test_the_advantage_bound():
    """It is that of randomized response, which has it exactly; delta adds to it."""
    for epsilon in (0.1, 1.0, 5.0):
        told = math.exp(epsilon) / (1 + math.exp(epsilon))
        spent = Spent(epsilon, 0.0, "record", 10, 1.0, 1.0, 0.1, 1)
        assert spent.advantage == pytest.approx(2 * told - 1)


# -- the steps ---------------------------------------------------------------------------------------


def steps_of(units=None, n=50, clip=1.0, rate=0.4, noise=None):
    made = PrivateSteps(DP(5.0, 1e-4, clip), units, n, int(rate * n), 1000)
    if noise is not None:
        made.noise_multiplier = noise
    return made


def loss(params, x):
    return (params["w"] * x).sum()  # the gradient of a row is the row


def moved(steps, rows, X):
    w = torch.zeros(X.shape[1], requires_grad=True)
    steps.descend(torch.optim.SGD([w], lr=1.0), loss, {"w": w}, rows, (X[rows],))
    return -w.detach() * steps.rate * steps.people


def test_a_record_moves_a_step_by_its_clip_at_most():
    steps, X = steps_of(noise=0.0), 100 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    X[7] = 1e30
    X[8] = torch.nan
    X[9] *= 1e-4
    rows = torch.arange(50)
    whole = moved(steps, rows, X)
    for i in range(50):
        without = moved(steps, rows[rows != i], X)
        assert (whole - without).norm() <= 1 + 1e-4
    short = moved(steps, rows[9:10], X)
    assert torch.allclose(short, X[9], atol=1e-6)  # one that is short enough is not changed
    assert X[9].norm() < 1


def test_a_person_moves_a_step_by_the_clip_at_most_however_many_records():
    units = np.repeat(np.arange(10), 5)
    steps, X = steps_of(units, noise=0.0), 100 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(50)
    whole = moved(steps, rows, X)
    for person in range(10):
        without = moved(steps, rows[torch.from_numpy(units != person)], X)
        assert (whole - without).norm() <= 1 + 1e-4
    by_record = steps_of(None, noise=0.0)  # the control: as records, a person moves it by more
    assert (moved(by_record, rows, X) - moved(by_record, rows[5:], X)).norm() > 1.5
    assert set(np.bincount(units[steps.sample().numpy()], minlength=10)) <= {0, 5}  # people come whole


def test_noise_and_sampling_are_what_the_accountant_was_told():
    """Variance within 5 standard errors (false alarm below 1e-6), sampling rate within 5 too; fresh draws each run."""
    steps, X = steps_of(noise=3.0, clip=0.5), torch.zeros(50, 3000)
    draws = moved(steps, torch.arange(50), X)
    expected = (3.0 * 0.5) ** 2
    assert abs(draws.var().item() - expected) < 5 * expected * math.sqrt(2 / 3000)
    assert moved(steps, torch.arange(0), X).abs().max() > 0  # nobody takes part: noise alone
    sizes = np.array([len(steps.sample()) for _ in range(400)])
    assert abs(sizes.mean() - 20) < 5 * math.sqrt(50 * 0.4 * 0.6 / 400)
    assert sizes.std() > 1  # Poisson: not one size
    other = steps_of(noise=3.0, clip=0.5)
    assert not torch.allclose(draws, moved(other, torch.arange(50), X))


def test_a_budget_is_not_overdrawn():
    steps = steps_of()
    steps.taken = steps.n_steps
    with pytest.raises(InputError, match="all 1,000 steps of this fit's privacy budget are taken"):
        moved(steps, torch.arange(3), torch.zeros(50, 3))


# -- fits --------------------------------------------------------------------------------------------


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["m", "f"], n)
    age = rng.normal(40 + 8 * (sex == "m"), 9, n)
    X = pd.DataFrame({"age": age, "hours": rng.normal(40, 5, n), "job": rng.choice(["cook", "nurse"], n)})
    X.loc[::17, "age"] = np.nan
    y = pd.DataFrame({"late": np.where(X["hours"] + rng.normal(0, 2, n) > 40, "yes", "no")})
    return X, y, pd.DataFrame({"sex": sex})


PUBLIC = {"ranges": {"age": (0, 100), "hours": (0, 100)}, "categories": {"job": ("cook", "nurse", "pilot")}}
GAME = {"n_components": 2, "epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    X, y, s = table()
    return tacit.EIGAN(**GAME, dp=DP(3.0, 1e-4, **PUBLIC)).fit(X, y, sensitive_features=s)


def test_what_was_spent_is_what_was_asked(fitted):
    spent = fitted.dp_
    assert 2.9 <= spent.epsilon <= 3.0
    assert (spent.delta, spent.unit, spent.people) == (1e-4, "record", 400)
    event = accounting.PoissonSampledDpEvent(spent.sampling_rate, accounting.GaussianDpEvent(spent.noise_multiplier))
    own = accounting.pld.PLDAccountant().compose(event, spent.steps).get_epsilon(spent.delta)
    assert own <= spent.epsilon <= 1.002 * own
    per_epoch = 400 // round(spent.sampling_rate * 400)
    assert spent.steps == 2 * per_epoch * 6  # five steps of the adversaries and one of the encoder in every round
    assert all(np.isnan(v) for line in fitted.history_ for k, v in line.items() if k != "epoch")


def test_nothing_of_the_scaling_is_learned_where_it_is_stated(fitted):
    columns = {c.name: c for c in fitted.encoder_.columns}
    assert (columns["age"].mean, columns["age"].low, columns["age"].high) == (50.0, 0.0, 100.0)
    assert columns["job"].categories == ("cook", "nurse", "pilot")
    assert not any("learned from the records" in text for text in fitted.dp_.not_covered)
    half = DP(3.0, 1e-4, ranges={"age": (0, 100)})
    f = tacit.EIGAN(**GAME, dp=half).fit(*table()[:2], sensitive_features=table()[2])
    assert "scaling and words of hours, job, which were learned from the records" in f.dp_.not_covered


def test_the_statement_is_in_manifest_report_and_ledger(fitted, tmp_path):
    X, y, s = table(seed=1)
    release = tacit.load(tacit.save(fitted, tmp_path / "f.tacit"))
    told = release.manifest["parameters"]["dp"]
    assert told == json.loads(json.dumps(fitted.dp_.to_dict()))
    assert (told["unit"], told["delta"]) == ("record", 1e-4)
    assert entry(release, "apply", "x.csv", "lab", 3)["fit_privacy"] == told
    data = tacit.Dataset(X, y, s)
    report = tacit.audit(
        fitted, *data.split((0.5, 0.5), random_state=0), attackers=["logistic"], measurements="no-baseline"
    )
    assert any("differentially private: epsilon 3.00, delta 0.0001, for every record" in n for n in report.notes)
    plain = tacit.EIGAN(**GAME).fit(X, y, sensitive_features=s)
    bundle = tacit.load(tacit.save(plain, tmp_path / "plain.tacit"))
    assert bundle.manifest["parameters"]["dp"] is None
    assert "fit_privacy" not in entry(bundle, "apply", "x.csv", "lab", 3)
    fitted.set_params(dp=None)
    assert tacit.load(tacit.save(fitted, tmp_path / "again.tacit")).manifest["parameters"]["dp"] == told
    fitted.set_params(dp=DP(3.0, 1e-4, **PUBLIC))


def test_people_are_the_unit_where_there_are_units():
    X, y, s = table()
    f = tacit.EIGAN(**GAME, dp=DP(3.0, 1e-4)).fit(X, y, sensitive_features=s, units=np.arange(400) // 4)
    assert (f.dp_.unit, f.dp_.people) == ("person", 100)


def test_the_same_seed_draws_other_noise():
    """Whoever knows random_state (it is in the manifest) must not be able to draw the noise again."""
    X, y, s = table(200)
    one, two = (tacit.EIGAN(**GAME, dp=DP(3.0, 1e-4)).fit(X, y, sensitive_features=s).transform(X) for _ in range(2))
    assert np.abs(one - two).max() > 1e-4


def normalized(n_in, n_out):
    return torch.nn.Sequential(torch.nn.BatchNorm1d(n_in), torch.nn.Linear(n_in, n_out))


def test_bad_input():
    X, y, s = table(200)
    for dp, words in (
        (DP(delta=0.01), "dp.delta=0.01 allows everything to be told of one of 200 people"),
        (DP(epsilon=0), "dp.epsilon"),
        (DP(delta=1e-5, ranges={"agee": (0, 1)}), "dp states column 'agee', which the records do not have"),
        (3.0, "dp is a tacit.DP"),
    ):
        with pytest.raises(InputError, match=words):
            tacit.EIGAN(**GAME, dp=dp).fit(X, y, sensitive_features=s)
    with pytest.raises(InputError, match="goes without n_bins=4"):
        tacit.EIGAN(**GAME, dp=DP(), n_bins=4).fit(X, y, sensitive_features=s)
    with pytest.raises(InputError, match="batch normalization"):
        tacit.EIGAN(**GAME, dp=DP(), encoder=normalized).fit(X, y, sensitive_features=s)
    f = tacit.EIGAN(**GAME, dp=DP(3.0, 1e-4)).fit(X, y, sensitive_features=s)
    with pytest.raises(InputError, match="which dp has not paid for"):
        f.release_training_rows()


# -- membership --------------------------------------------------------------------------------------


def test_an_attack_on_membership_stays_below_the_bound():
    """Fits that memorize coin flips: without dp the attack exceeds the bound of epsilon 1, with it not.

    The attacker learns from half of the members how codes go with labels, and scores how well others fit. With dp the
    advantage 2 AUC - 1 has a standard error of .07 about
    hardly more than 0, six of them below the bound: a false alarm is rarer than 1 in 1,000,000.
    """
    rng = np.random.default_rng(0)
    X, y, s = rng.normal(size=(400, 100)).clip(-3, 3), rng.integers(2, size=400), rng.integers(2, size=400)
    game = {"epochs": 60, "batch_size": 30, "learning_rate": 3e-3, "adversary_steps": 1, "random_state": 0}
    advantage = []
    for dp in (DP(1.0, 1e-3, ranges=(-3.0, 3.0)), None):
        f = tacit.EIGAN(4, 0.9, **game, dp=dp).fit(X[:200], y[:200], sensitive_features=s[:200])
        codes = f.transform(X)
        answers = LogisticRegression().fit(codes[:100], y[:100]).predict_proba(codes[100:])
        right = answers[np.arange(300), y[100:]]
        advantage.append(2 * roc_auc_score(np.arange(300) < 100, right) - 1)
        if dp:
            bound = f.dp_.advantage
    assert advantage[0] < bound < advantage[1]


# -- nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
def test_every_node_pays_for_its_own_people(secure):
    nodes = [Node(X, y, sensitive_features=s) for X, y, s in (table(200, 1), table(300, 2), table(250, 3))]
    f = DistributedEIGAN(**{**GAME, "epochs": 3}, sync_every=2, dp=DP(4.0, 1e-4), secure=secure).fit(nodes)
    assert 3.9 <= f.dp_.epsilon <= 4.0  # the noise is for four epochs: two rounds of two
    assert any("which nodes agree on" in text for text in f.dp_.not_covered)
    with pytest.raises(InputError, match="sync_unit='epoch'"):
        DistributedEIGAN(**GAME, dp=DP(4.0, 1e-4), sync_unit="step").fit(nodes)


# -- a codebook by noisy counts ----------------------------------------------------------------------

NEAR = {"ranges": {"age": (20, 80), "hours": (25, 55)}, "categories": {"job": ("cook", "nurse")}}


def test_a_codebook_by_noisy_counts(tmp_path):
    """It serves the target (.85 and more in 20 tries with fresh noise, guessing .5), and tells what it cost."""
    X, y, s = table(2000)
    f = tacit.CodebookFilter(n_codes=4, random_state=0, dp=DP(2.0, 1e-5, **NEAR)).fit(X, y, sensitive_features=s)
    fresh, late, _ = table(1000, 7)
    Z = f.transform(fresh)
    truth = (late["late"] == "yes").to_numpy()
    assert LogisticRegression().fit(Z, truth).score(Z, truth) > 0.75
    assert 1.98 <= f.dp_.epsilon <= 2.0
    assert (f.dp_.unit, f.dp_.steps) == ("record", 1)
    assert tacit.load(tacit.save(f, tmp_path / "f.tacit")).manifest["parameters"]["dp"]["epsilon"] == f.dp_.epsilon
    with pytest.raises(InputError, match="which dp has not paid for"):
        f.release_training_rows()
    with pytest.raises(InputError, match="records here have the shape"):
        tacit.CodebookFilter(dp=DP(2.0, 1e-3)).fit(
            np.zeros((50, 1, 4)) + np.arange(50)[:, None, None], np.arange(50) % 2
        )


def test_a_person_moves_all_counts_by_less_than_their_noise_is_for():
    """The sensitivity that the noise is scaled by, from the counts themselves with and without a person."""
    X, y, s = table(60)
    units = np.arange(60) // 3
    f = tacit.CodebookFilter(random_state=0, dp=DP(2.0, 1e-3, **NEAR))

    def problem(rows):
        return encode_in_public(f, f.dp, X[rows], y[rows], s[rows], units[rows])

    whole, spent = problem(np.ones(60, bool)), made_up(problem(np.ones(60, bool)), f.dp, ())[1]
    for person in range(5):
        pairs = zip(count_pieces(whole), count_pieces(problem(units != person)), strict=True)
        moved = math.sqrt(sum(((a - b) ** 2).sum() for a, b in pairs))
        assert 0.5 < moved <= spent.clip + 1e-9
    assert (spent.unit, spent.people, spent.clip) == ("person", 20, math.sqrt(1 + 3))


# -- closed forms ------------------------------------------------------------------------------------


def test_an_encoder_from_noisy_sums():
    """At epsilon 8 it is nearly the plain one: likeness .99 and more in 20 tries with fresh noise."""
    X, y, s = table(4000)
    plain = LinearARL().fit(X, y, sensitive_features=s).transform(X)
    f = LinearARL(dp=DP(8.0, 1e-5, **NEAR)).fit(X, y, sensitive_features=s)
    assert abs(np.corrcoef(f.transform(X).ravel(), plain.ravel())[0, 1]) > 0.9
    assert 7.9 <= f.dp_.epsilon <= 8.0


def test_an_eraser_from_noisy_sums(tmp_path):
    """What goes with sex is gone (.05 at most in 20 tries with fresh noise), what does not has stayed."""
    X, _, s = table(4000)
    f = LinearEraser(dp=DP(8.0, 1e-5, **NEAR)).fit(X, sensitive_features=s)
    sex, Z = (s["sex"] == "m").to_numpy(), f.transform(X)
    age, hours = Z[:, 0], Z[:, 2]  # after age comes whether it is missing
    assert abs(np.corrcoef(X["age"].fillna(44), sex)[0, 1]) > 0.35
    assert abs(np.corrcoef(age, sex)[0, 1]) < 0.15
    assert np.corrcoef(hours, X["hours"].clip(25, 55))[0, 1] > 0.95
    assert tacit.load(tacit.save(f, tmp_path / "f.tacit")).manifest["parameters"]["dp"]["unit"] == "record"


@pytest.mark.parametrize("estimator", [LinearARL, LinearEraser])
def test_noise_on_sums_is_added_once(estimator):
    X, y, s = table(200)
    f = estimator(dp=DP(8.0, 1e-3)).fit(X, y, sensitive_features=s)
    with pytest.raises(InputError, match="which dp has not paid for"):
        f.release_training_rows()
    with pytest.raises(InputError, match="use fit"):
        estimator(dp=DP()).partial_fit(X, y, sensitive_features=s)


def test_a_person_moves_the_sums_by_less_than_their_noise_is_for():
    X, y, s = table(60)
    y.loc[3, "late"] = None
    units = np.arange(60) // 3
    f = LinearARL(dp=DP(2.0, 1e-3, clip=0.7, **NEAR))

    def sums(rows):
        problem = encode_in_public(f, f.dp, X[rows], y[rows], s[rows], units[rows])
        made, _, reach = beside_labels(problem, 0.7)
        return summed_products(made, problem.crowd), reach

    whole, reach = sums(np.ones(60, bool))
    moved = [np.linalg.norm(whole - sums(units != person)[0]) for person in range(20)]
    assert 0.3 * reach < max(moved) <= reach * (1 + 1e-9)
