"""The parts of papers/eigan that a wrong figure could hide in."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

import tacit
from papers.data import REGISTRY
from papers.eigan.age import read_years
from papers.eigan.face_networks import redrawn, xception
from papers.eigan.importance import ENCODERS
from papers.eigan.protocol import in_print, titanic_parts, validation
from papers.eigan.titanic_wide import joined, wide_parts

# an experiment in it has the same name
synthetic, tables, uploads = (importlib.import_module(f"papers.eigan.{m}") for m in ("synthetic", "tables", "uploads"))


@pytest.fixture
def points():
    return tacit.load_dataset("quadrants", n=400, random_state=0)


def test_seven_of_ten_rows_are_the_filters():
    if not REGISTRY["titanic"].present:
        pytest.skip("titanic is not here")
    train, attack, test = titanic_parts(0)
    assert len(train) / (len(train) + len(attack) + len(test)) == pytest.approx(0.7, abs=0.01)


def test_titanic_has_the_authors_columns_and_attackers_rows_of_their_own():
    """1321 columns: 1287 words of names, 16 of tickets, two numbers, 16 classes; 712 passengers have no gap."""
    if not REGISTRY["titanic"].present:
        pytest.skip("titanic is not here")
    parts = wide_parts(0)
    assert {p.X.shape[1] for p in parts} == {1321}
    assert [len(p) for p in parts] == [427, 214, 71]
    whole = joined(*parts[:2])
    assert len(whole) == 641
    assert (whole.y["Survived"].to_numpy() == np.concatenate([p.y["Survived"] for p in parts[:2]])).all()
    learned, *others = ({row.tobytes() for row in p.X} for p in parts)
    assert not any(learned & other for other in others)  # a name is one passenger's


def test_settings_are_chosen_on_rows_of_the_filter_alone(points):
    train, *others = points.split((0.7, 0.15, 0.15), random_state=0)
    own, held_out = validation(train, 0)
    rows = {tuple(x) for x in np.concatenate([o.X for o in others])}
    assert len(own) + len(held_out) == len(train)
    assert not rows & {tuple(x) for x in np.concatenate([own.X, held_out.X])}


def test_the_papers_measure_is_taken_on_all_held_out_rows(points):
    """Two parts and one of the same rows give the same figures; a label that nobody knows gives guessing's."""
    train, one, other = points.split((0.7, 0.15, 0.15), random_state=0)
    whole = tacit.Dataset(np.concatenate([one.X, other.X]), *(
        np.concatenate([getattr(p, side).to_numpy() for p in (one, other)]) for side in ("y", "sensitive")
    ))  # fmt: skip
    whole.y.columns, whole.sensitive.columns = one.y.columns, one.sensitive.columns
    apart, joined = (in_print(None, train, parts, 0, 5) for parts in ([one, other], [whole]))
    assert apart == joined
    assert apart["colour"]["accuracy"] > 0.95
    nothing = tacit.Dataset(np.zeros_like(train.X), train.y, train.sensitive)
    blind = in_print(None, nothing, [tacit.Dataset(np.zeros_like(one.X), one.y, one.sensitive)], 0, 5)["colour"]
    assert blind["log_loss"] == pytest.approx(blind["guessing_loss"], abs=0.05)


def test_a_linear_evaluator_sees_no_circle():
    circle = tacit.load_dataset("circles", n=600, random_state=0)
    train, test = circle.split((0.7, 0.3), random_state=0)
    curved, straight = (in_print(None, train, [test], 0, 40, ["colour"], h)["colour"]["accuracy"] for h in ((64,), ()))
    assert curved > 0.9
    assert straight < 0.75


def test_a_setting_is_taken_when_its_adversary_guesses_or_is_nearest_to_it(points, monkeypatch):
    read = {"mild": 0.9, "near": 0.6, "there": 0.509, "harsh": 0.5}
    monkeypatch.setattr(tables, "fitted", lambda release, train, seed: release)
    monkeypatch.setattr(tables, "in_print", lambda release, *rest: {"shape": {"accuracy": read[release],
                                                                              "guessing": 0.5}})  # fmt: skip

    def chosen(*choices):
        return tables.at_guessing(str, choices, points, 0, {"evaluation": 1})

    assert chosen(*read) == "there"
    assert chosen("near", "mild") == "near"
    assert chosen("mild") == "mild"


def test_the_printed_game_has_the_heads_of_appendix_c(points):
    """Logistic regression where boundaries are straight, one hidden layer on circles."""
    layers = {}
    for figure, (_, _, heads) in synthetic.SHAPES.items():
        game = synthetic.printed(points, 0, {"epochs": 1, "heads": heads})
        nets = [make(2, 2) for make in (game.target_head, game.sensitive_head)]
        layers[figure] = [sum(isinstance(m, torch.nn.Linear) for m in net.modules()) for net in nets]
    assert layers == {"Fig. 2": [1, 1], "Fig. 10": [1, 1], "Fig. 11": [2, 2], "Fig. 12": [1, 1]}


@pytest.mark.filterwarnings("ignore::tacit.errors.CollapseWarning")  # one epoch will do
def test_fig4_looks_at_the_encoder_whose_heads_are_fast(points):
    s = {"printed_epochs": 1, "alphas": [0.5], "evaluation": 1, "epochs": 1}
    printed, ours = (make(points, 0, s) for make in ENCODERS.values())
    assert (printed.head_lr_factor, printed.n_components, printed.bounded) == (100, 10, False)
    assert (ours.n_components, ours.noise) == (4, 0.3)


# -- what a node uploads -------------------------------------------------------------------------------


def path(rounds=3, size=200):
    rng = np.random.default_rng(0)
    return [{"a": rng.standard_normal(size), "b": rng.standard_normal((4, 5))} for _ in range(rounds + 1)]


def test_the_server_knows_the_last_value_that_was_sent():
    way = path()
    whole = uploads.known_to_server(way, 1.0, np.random.default_rng(0))
    assert whole == pytest.approx(np.concatenate([(way[-1][k] - way[0][k]).ravel() for k in way[0]]), abs=1e-6)
    once, often = (uploads.known_to_server(way[:n], 0.2, np.random.default_rng(0)) for n in (2, 4))
    once, often = (int((~np.isnan(known)).sum()) for known in (once, often))
    assert once == 40 + 4
    assert once < often < 220


def test_a_server_that_gets_more_sees_more():
    """A property that every weight tells a little of: read from all of them, hardly from one in a hundred."""
    rng = np.random.default_rng(1)
    kinds = np.arange(160) % 2
    start = {"a": np.zeros(400)}
    ways = [[start, {"a": 0.25 * k + rng.standard_normal(400)}] for k in kinds]
    where = (np.arange(160) >= 80).astype(int)
    labels = uploads.pd.DataFrame({"population": np.array(["even", "mostly men"])[kinds]})
    settings = {"directions": 20, "attackers": ["logistic"]}

    def read(phi):
        whole, known = (np.stack([uploads.known_to_server(way, p, rng) for way in ways]) for p in (1.0, phi))
        return uploads.told_apart(whole[:80], known, labels, where, 0, settings)

    much, little = read(1.0), read(0.01)
    assert much["low"] > 0.7
    assert little["low"] < 0.6
    assert much["guessing"] == 0.5


def test_a_node_has_the_people_it_was_drawn():
    men = np.arange(1000) % 3 == 0
    people = uploads.draw_people(men, 100, 0.8, np.random.default_rng(0))
    assert men[people].sum() == 80
    assert len(set(people)) == 100


# -- age, faces ----------------------------------------------------------------------------------------


def test_regressors_read_what_is_there_and_nothing_where_nothing_is():
    rng = np.random.default_rng(0)
    years = rng.uniform(17, 90, 800)
    told = np.column_stack([years + rng.normal(0, 5, 800), rng.standard_normal(800)])
    blind = rng.standard_normal((800, 2))
    seen, unseen = (read_years(Z[:400], years[:400], Z[400:], years[400:], 0) for Z in (told, blind))
    assert seen["low"] > 0.85
    assert seen["low"] <= seen["value"] <= seen["high"]
    assert unseen["high"] < 0.05


def test_faces_are_redrawn_in_their_own_shape_and_read_again():
    x = torch.zeros(3, 1, 30, 32)
    code = redrawn((1, 30, 32), 960)(x)
    assert code.shape == (3, 960)
    assert xception((1, 30, 32), 960, 20)(code).shape == (3, 20)
    with pytest.raises(AssertionError):
        redrawn((1, 30, 32), 32)
