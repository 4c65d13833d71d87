"""A server that reads people out of answers: attacks of the red team, and cleverer ones, against a node's own handler.

Every attack is run against a node without its floors first (the control): there it works.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares

pytest.importorskip("flwr")

from tacit.errors import InputError
from tacit.federated.common_schema import agree
from tacit.federated.flower.carried import from_records, to_records
from tacit.federated.flower.client_app import answer_request
from tacit.federated.flower.config import read_node
from tacit.federated.grants import DAY, Grants, blur_figures, fewest_people, influence
from tacit.federated.node_audit import audit_here
from tacit.federated.protocol import Message, ProtocolError, over, under
from tacit.records.dataset import Dataset
from tacit.records.people import Crowd

COLUMNS = list("abcdef")
WITHOUT = {"min_people": 1, "min_count": 1, "blur": 0, "max_federations": 10**6}  # a node as it was before
NEAR = 0.01  # of a standard deviation, in every column: a record that is known


def make_node(folder: Path, hold_out: float = 0.4, **settings) -> None:
    """A node of 800 people with six numbers each."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(800, 6)), columns=COLUMNS)
    table["sick"] = np.where(table["a"] + rng.normal(size=800) > 0, "yes", "no")
    table["sex"] = np.where(table["b"] + rng.normal(size=800) > 0, "f", "m")
    folder.mkdir(exist_ok=True)
    table.to_csv(folder / "node.csv", index=False)
    for name in ("node.key", "authority.pem"):
        (folder / name).touch()
    told = {"name": "n", "server": "s:1", "keys": ".", "data": "node.csv", "target": "sick", "sensitive": "sex"}
    lines = [f"{k} = {json.dumps(v)}" for k, v in (told | {"hold_out": hold_out} | settings).items()]
    (folder / "node.toml").write_text("\n".join(lines))


class Curious:
    """The server's side of the wire: any question, under any name."""

    def __init__(self, folder: Path, **settings) -> None:
        self.config = read_node(folder / "node.toml")
        self.settings = {"n_components": 2, "adversary_steps": 1, "sync_unit": "step"} | settings

    def ask(self, kind: str, round_: int, federation: str, facts=None, arrays=None) -> Message:
        told = {"federation": federation, "settings": self.settings, **(facts or {})}
        return answer_request(self.config, from_records(to_records(Message(kind, "n", round_, told, arrays or {}))))

    def step(self, federation: str, weights: dict[str, np.ndarray], seed: int = 0, round_: int = 0) -> dict:
        """What the node makes of these weights in one round."""
        agreed, scaling = agree([self.ask("describe", -1, federation, {"categories": None})])
        facts = {"agreed": agreed, "seed": seed, "position": 0, "unit": self.settings["sync_unit"]}
        facts["count"] = self.settings.get("sync_every", 1)
        answer = self.ask("train", round_, federation, facts, over("values/", weights) | over("scaling/", scaling))
        return {k: v.astype(np.float64) for k, v in under("values/", answer.arrays).items()}


def encoded(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The node's training rows as it encodes them, and rows that it held out."""
    train, attack, test = read_node(folder / "node.toml").parts()
    mean, spread = train.X.mean(), train.X.std(ddof=0)
    return tuple(((X - mean) / spread).to_numpy() for X in (train.X, pd.concat([attack.X, test.X])))


def found(rows: np.ndarray, guesses: np.ndarray) -> int:
    """How many different rows one of the guesses is near."""
    if not len(guesses):
        return 0
    far = np.abs(rows[:, None] - guesses[None]).max(axis=2)
    return int((far.min(axis=1) < NEAR).sum())


TINY = 1e-4  # weights so small that Adam's step is the gradient itself


def all_alive() -> dict[str, np.ndarray]:
    """Every hidden unit sees every record: of one record, the weight's gradient over the bias's is the record."""
    return {"0.weight": np.zeros((128, 6)), "0.bias": np.full(128, TINY), "2.weight": np.full((2, 128), 1e-10),
            "2.bias": np.zeros(2)}  # fmt: skip


def traps(k: float = 1.0) -> dict[str, np.ndarray]:
    """Hidden unit i sees who has more than a threshold in column a: neighbours differ by the records in between."""
    cuts = np.linspace(-3, 3, 128)
    weight = np.zeros((128, 6))
    weight[:, 0] = TINY
    return {"0.weight": weight, "0.bias": -TINY * cuts, "2.weight": np.full((2, 128), 1e-10 * k), "2.bias": np.zeros(2)}


def typed(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {k: v.astype(np.float32) for k, v in weights.items()}


def moved(
    curious: Curious, federation: str, weights: dict[str, np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    start = typed(weights)
    after = curious.step(federation, start, seed)
    return after["0.weight"] - start["0.weight"].astype(float), after["0.bias"] - start["0.bias"].astype(float)


def one_by_one(curious: Curious, n: int) -> np.ndarray:
    """H2 of the review: batches of one record."""
    guesses = []
    for i in range(n):
        w, b = moved(curious, f"f{i}", all_alive(), seed=i)
        best = np.abs(b).argmax()
        guesses.append(w[best] / b[best])
    return np.array(guesses)


def by_traps(curious: Curious, n: int) -> np.ndarray:
    """Batches as large as the node wants them: differences of neighbouring hidden units."""
    guesses = []
    for i in range(n):
        w, b = moved(curious, f"f{i}", traps(), seed=i)
        dw, db = np.diff(w, axis=0), np.diff(b)
        use = np.abs(db) > 1e-3 * np.abs(db).max()
        guesses.append(dw[use] / db[use, None])
    return np.concatenate(guesses)


def test_batches_of_one_record_are_refused(tmp_path):
    """The red team read 60 of 60 answers as records."""
    make_node(tmp_path / "before", **WITHOUT)
    make_node(tmp_path / "now", max_federations=1000)
    rows, others = encoded(tmp_path / "before")
    guesses = one_by_one(Curious(tmp_path / "before", batch_size=1), 60)
    assert all(found(rows, g[None]) for g in guesses)  # 60 of 60
    assert found(others, guesses) == 0  # and that is no chance
    curious, read = Curious(tmp_path / "now", batch_size=1), []
    for i in range(60):
        with pytest.raises(InputError, match="a step of 1 rows may be of 1 people; this node answers for at least 20"):
            read.append(moved(curious, f"f{i}", all_alive(), seed=i))
    assert len(read) == 0


def test_traps_isolate_records_in_large_batches_and_noise_hides_them(tmp_path):
    """A floor alone is no answer to a server that chooses the weights."""
    make_node(tmp_path / "floor", blur=0, max_federations=1000)
    make_node(tmp_path / "now", max_federations=1000)
    rows, others = encoded(tmp_path / "now")
    read = [by_traps(Curious(tmp_path / name, batch_size=32), 4) for name in ("floor", "now")]
    assert found(rows, read[0]) >= 60  # of 128 in four batches
    assert found(others, read[0]) == 0
    assert len(read[1]) > 0
    assert found(rows, read[1]) == 0


def test_who_spends_the_questions_of_days_on_one_outlier_does_not_read_it(tmp_path):
    """All hidden units look at the one person whose column a is highest, under gains at which Adam shows magnitudes.

    Of 128 units and ten federations, two days', enough noise is left that no column is read to .1 of a standard
    deviation by more than luck; all six within .01 are fewer than 1 of 1,000 under fresh noise.
    """
    rate, gains = 0.001, np.geomspace(1e-8, 1e-4, 128)

    def guess(folder: Path, times: int) -> np.ndarray:
        rows, _ = encoded(folder)
        cut = np.sort(rows[:, 0])[-2:].mean()
        weight = np.zeros((128, 6))
        weight[:, 0] = TINY
        start = {"0.weight": weight, "0.bias": np.full(128, -TINY * cut), "2.weight": np.tile(gains, (2, 1))}
        curious = Curious(folder, batch_size=len(rows), learning_rate=rate)
        moves = [moved(curious, f"f{i}", start | {"2.bias": np.zeros(2)}, seed=0) for i in range(times)]
        dw, db = (np.mean([m[j] for m in moves], axis=0) / rate for j in (0, 1))

        def off(parameters):
            size = parameters[0] * gains / gains[-1]
            told = np.column_stack([size[:, None] * parameters[1:], size])
            return (told / (np.abs(told) + 1) - np.column_stack([dw, db])).ravel()

        fits = [least_squares(off, np.r_[sign * s, np.zeros(6)]) for sign in (1, -1) for s in (1, 10, 100)]
        return min(fits, key=lambda f: f.cost).x[1:]

    make_node(tmp_path / "before", blur=0)
    make_node(tmp_path / "now", max_federations=10)
    rows, _ = encoded(tmp_path / "now")
    read = [guess(tmp_path / "before", 1), guess(tmp_path / "now", 10)]
    assert found(rows, read[0][None]) == 1
    assert found(rows, read[1][None]) == 0


def test_a_question_is_answered_once(tmp_path):
    make_node(tmp_path / "now")
    curious = Curious(tmp_path / "now", batch_size=32)
    first = curious.step("f", typed(all_alive()), seed=1, round_=3)
    again = curious.step("f", typed(traps()), seed=2, round_=3)  # another question under the same number
    assert all(np.array_equal(first[k], again[k]) for k in first)
    with pytest.raises(ProtocolError, match="round 3 was answered, and rounds go forward; asked for 2"):
        curious.step("f", typed(traps()), round_=2)
    with pytest.raises(ProtocolError, match="this node answers 200"):
        curious.step("f", typed(traps()), round_=200)
    with pytest.raises(ProtocolError, match="other settings than this federation began with"):
        Curious(tmp_path / "now", batch_size=33).step("f", typed(traps()), round_=4)
    for i in range(4):  # another name is another federation
        other = curious.step(f"g{i}", typed(all_alive()), seed=1, round_=3)
        assert not np.array_equal(first["0.weight"], other["0.weight"])  # with its own noise
    with pytest.raises(ProtocolError, match="5 federations began here within 24 hours"):
        curious.step("h", typed(all_alive()), seed=1, round_=3)
    curious.step("f", typed(all_alive()), round_=4)  # the first goes on
    path = tmp_path / "now" / "state" / "granted.json"
    granted = json.loads(path.read_text())
    path.write_text(json.dumps(granted | {"federations": {k: t - DAY for k, t in granted["federations"].items()}}))
    curious.step("h", typed(all_alive()), seed=1, round_=3)  # the next day


def test_a_round_is_what_was_agreed(tmp_path):
    make_node(tmp_path / "now", min_steps=4)
    with pytest.raises(ProtocolError, match="a round of 1 steps; this node takes at least 4"):
        Curious(tmp_path / "now", batch_size=32).step("f", typed(all_alive()))
    curious = Curious(tmp_path / "now", batch_size=32, sync_every=4)
    curious.step("g", typed(all_alive()))
    with pytest.raises(ProtocolError, match="asked for 1 'step' in a round, agreed were 4 'step'"):
        curious.ask("train", 1, "g", {"count": 1, "unit": "step"}, over("values/", typed(all_alive())))


def test_settings_that_would_take_all_memory_are_refused_at_once(tmp_path):
    make_node(tmp_path / "now")
    with pytest.raises(InputError, match="n_components must be a whole number between 1 and 10000"):
        Curious(tmp_path / "now", n_components=10**9).ask("describe", -1, "f")


def test_floors_count_people(tmp_path):
    assert fewest_people(Crowd(600, np.arange(600) // 10), 32) == 4
    assert fewest_people(Crowd(600), 32) == 32
    make_node(tmp_path / "now", unit="who")
    path = tmp_path / "now" / "node.csv"
    table = pd.read_csv(path)
    table.assign(who=np.arange(800) // 10).to_csv(path, index=False)
    with pytest.raises(InputError, match="a step of 32 rows may be of 4 people"):
        Curious(tmp_path / "now", batch_size=32).step("f", typed(all_alive()))
    Curious(tmp_path / "now", batch_size=200).step("g", typed(all_alive()))
    table.assign(who=np.arange(800) // 50).to_csv(path, index=False)
    with pytest.raises(InputError, match="a table of 500 rows may be of 10 people"):
        Curious(tmp_path / "now").ask("describe", -1, "h")
    # a class of one person with many records is one person
    make_node(tmp_path / "now", hold_out=0, unit="who")
    odd = np.where(np.arange(800) < 10, "x", table["sex"])
    table.assign(who=np.arange(800) // 10, sex=odd).to_csv(path, index=False)
    with pytest.raises(InputError, match="a class of 'sex' has 1 people here"):
        Curious(tmp_path / "now").ask("describe", -1, "i")


def test_sums_are_given_once_and_words_of_few_people_do_not_leave(tmp_path):
    make_node(tmp_path / "now", hold_out=0, algorithm="LinearARL", unit="who")
    path = tmp_path / "now" / "node.csv"
    table = pd.read_csv(path)
    job = np.where(np.arange(800) < 8, "astronaut", np.where(np.arange(800) % 2, "cook", "nurse"))
    table.assign(who=np.arange(800) // 8, job=job).to_csv(path, index=False)
    curious = Curious(tmp_path / "now")
    curious.settings = {"algorithm": "LinearARL"}
    described = curious.ask("describe", -1, "f")
    assert described.facts["columns"][-1]["categories"] == ["cook", "nurse"]  # eight records, and one person
    agreed, scaling = agree([described])
    agreed["columns"][-1]["categories"] = ["astronaut", "cook", "nurse"]  # the server may ask for it all the same
    facts = {"agreed": agreed}
    sums = curious.ask("sum", 0, "f", facts, over("scaling/", scaling))
    assert sums.arrays["mean"][6] == 0
    with pytest.raises(ProtocolError, match="gives its sums once"):
        curious.ask("sum", 1, "f", facts, over("scaling/", scaling))


def test_two_tables_that_differ_in_one_person_are_not_both_told_of(tmp_path):
    """Sums are exact: the difference of two would be that person's record."""
    make_node(tmp_path / "now", hold_out=0, algorithm="LinearARL", max_federations=9)
    path = tmp_path / "now" / "node.csv"
    table = pd.read_csv(path)
    curious = Curious(tmp_path / "now")
    curious.settings = {"algorithm": "LinearARL"}
    curious.ask("describe", -1, "f")
    other_label = table.assign(sex=["m" if table["sex"][0] == "f" else "f", *table["sex"][1:]])
    one_more = pd.concat([table, table[:1].assign(a=0.5)])
    changed = {"gone": table[1:], "other label": other_label, "new": one_more}
    for name, other in changed.items():
        other.to_csv(path, index=False)
        with pytest.raises(ProtocolError, match="this table differs in 1 people from one that took part before"):
            curious.ask("describe", -1, name)
    for name, other in {"the same, in another order": table[::-1], "21 fewer": table[21:]}.items():
        other.to_csv(path, index=False)
        curious.ask("describe", -1, name)


# -- audits ---------------------------------------------------------------------------------------------


class Chosen:
    """Releases column b, but for one person: theirs is what the server wants it to be."""

    def __init__(self, person: pd.Series, value: float) -> None:
        self.person, self.value = person, value

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        here = np.isclose(X[COLUMNS], self.person[COLUMNS].to_numpy(float)).all(axis=1)
        return np.where(here, self.value, X["b"])[:, None]


def leakage(figures) -> float:
    return next(f["value"] for f in figures if f["role"] == "leakage")


def test_audits_of_chosen_filters_tell_nobodys_attribute(tmp_path, monkeypatch, one_attacker):
    """The red team read 28 of 28 people by two audits each, in which one person is released as a man or a woman.

    Now two audits tell at most an epsilon of .5 of the figure that moves: no test of two hypotheses is right more often
    than e^.5 / (1 + e^.5) = .62, and under fresh noise 25 or more of 28 are right in fewer than 1 of 500 (binomial).
    """
    make_node(tmp_path / "now")
    config = read_node(tmp_path / "now" / "node.toml")
    _, attack, test = config.parts()
    sure = [i for i in range(len(test)) if abs(test.X["b"].iloc[i]) < 0.5][:28]  # whose attribute b does not tell
    truth, exact, told = [], [], []
    for i in sure:
        pair = [audit_here(Chosen(test.X.iloc[i], value), attack, test) for value in (8.0, -8.0)]
        truth.append(test.sensitive["sex"].iloc[i] == "f")
        exact.append(leakage(pair[0]) - leakage(pair[1]))
        noisy = [
            blur_figures(f, test, config.audit_epsilon, np.random.default_rng(i + 99 * j)) for j, f in enumerate(pair)
        ]
        told.append(leakage(noisy[0]) - leakage(noisy[1]))
    assert ((np.array(exact) > 0) == truth).sum() == 28  # the control, and as it was
    assert ((np.array(told) > 0) == truth).sum() <= 24

    # and through the handler there are no two audits to compare, but of two federations; and few of these
    asked = []
    monkeypatch.setattr("tacit.federated.flower.client_app._given_filter", lambda bundle: asked.append(1) or
                        Chosen(test.X.iloc[int(bundle[0])], float(bundle[1]) - 8))  # fmt: skip
    curious = Curious(tmp_path / "now", batch_size=32)
    with pytest.raises(ProtocolError, match="this node has no filter yet"):  # it took no part in that one
        curious.ask("audit", 1, "never", {}, {"bundle": np.array([0, 16], np.uint8)})
    figures = []
    for federation in range(4):
        curious.step(str(federation), typed(all_alive()))
        for value in (0, 16):
            answer = curious.ask("audit", 1, str(federation), {}, {"bundle": np.array([0, value], np.uint8)})
            figures.append(json.dumps(answer.facts["figures"]))
    assert len(asked) == 4
    assert figures[0] == figures[1]
    assert len(set(figures)) > 1  # noise of its own for each; coarse figures may meet


def test_the_budget_of_audits_ends(tmp_path, monkeypatch, one_attacker):
    make_node(tmp_path / "now", audit_budget=1, max_federations=10)
    monkeypatch.setattr("tacit.federated.flower.client_app.audit_here", None, raising=False)
    monkeypatch.setattr("tacit.federated.node_audit.audit_here", lambda *args, **kwargs: [])
    monkeypatch.setattr("tacit.federated.flower.client_app._given_filter", lambda bundle: None)
    curious = Curious(tmp_path / "now", batch_size=32)
    for federation in "abc":
        curious.step(federation, typed(all_alive()))
    for federation in "ab":
        curious.ask("audit", 1, federation, {}, {"bundle": np.zeros(2, np.uint8)})
    with pytest.raises(ProtocolError, match="have spent an epsilon of 1 of 1"):
        curious.ask("audit", 1, "c", {}, {"bundle": np.zeros(2, np.uint8)})


def test_nobody_moves_a_figure_by_more_than_the_noise_is_made_for():
    """Against every single change of one person, whichever answers the attacker gives."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(5, 30))
        units, codes = np.sort(rng.integers(n // 2, size=n)), rng.integers(3, size=n)
        right = rng.integers(2, size=n).astype(float)
        other = np.where(units == rng.choice(units), 1 - right, right)
        most = influence(codes, units, n)
        for measure in (
            by_person,
            lambda r, c, u: np.mean([by_person(r[c == k], None, u[c == k]) for k in np.unique(c)]),
        ):
            assert abs(measure(right, codes, units) - measure(other, codes, units)) <= most + 1e-12


def by_person(right, codes, units) -> float:
    return float(np.mean([right[units == u].mean() for u in np.unique(units)]))


def test_intervals_of_noised_figures_still_hold_the_figure():
    """Each fails with 2.5 % by the noise: of 400, 22 or more do so in fewer than 1 of 250 runs (binomial)."""
    test = Dataset(np.zeros((200, 1)), pd.DataFrame({"y": ["a", "b"] * 100}), pd.DataFrame({"s": ["c", "d"] * 100}))
    figure = {"role": "leakage", "attribute": "s", "value": 0.5, "low": 0.5, "high": 0.5, "guessing": 0.5}
    rng = np.random.default_rng(0)
    told = [blur_figures([figure], test, 0.5, rng)[0] for _ in range(400)]
    assert sum(not f["low"] <= 0.5 <= f["high"] for f in told) < 22
    assert np.std([f["value"] for f in told]) > 0.01  # one person moves it by .005


def test_floors_are_checked_and_have_their_defaults():
    Grants().check()
    with pytest.raises(InputError, match="min_people must be a whole number of at least 1"):
        Grants(min_people=0).check()
