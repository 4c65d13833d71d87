"""Attackers who know raw columns of a person, before and after a release that looks at the sensitive column."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.auditing.measurements.attacker_knowledge import telling_sets
from tacit.auditing.stats import paired_gain
from tacit.auditing.trial import Trial, TrialSettings
from tacit.errors import InputError
from tacit.report.report import Report

QUICK = {"attackers": ["trees"], "measurements": ["no-baseline", "no-breadth"]}


def people(n: int = 600, seed: int = 0) -> tacit.Dataset:
    """A coin, a word that tells the sex in 7 of 10 cases, and a number that tells it faintly."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    X = pd.DataFrame(
        {
            "coin": rng.choice(["heads", "tails"], n),
            "job": np.where(rng.random(n) < np.where(male, 0.7, 0.3), "smith", "nurse"),
            "height": rng.normal(np.where(male, 0.3, 0.0), 1),
            "born": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        }
    )
    return tacit.Dataset(X, X["coin"].rename("won"), pd.Series(np.where(male, "m", "f"), name="sex"))


class Tossed:
    """The coin, turned over for men: alone it tells nothing, and beside the raw coin everything."""

    mechanism_ = SimpleNamespace(sees_sensitive=True, noise=None, epsilon=None, sensitive_classes={})

    def transform(self, X, units=None, sensitive_features=None, y=None):
        assert y is not None
        turned = (X["coin"] == "heads") ^ (sensitive_features["sex"] == "m").to_numpy()
        return pd.DataFrame({"coin": np.where(turned, "heads", "tails")})


@pytest.fixture(scope="module")
def report():
    return tacit.audit(Tossed(), people(seed=1), people(seed=2), attacker_knows=[["coin"], ["job"], "all"], **QUICK)


def test_what_is_known_with_the_release_and_without_it(report):
    assert report.leakage["sex"].low < 0.5 < report.leakage["sex"].high
    found = report.knowledge["sex"]
    assert list(found) == ["coin", "job", "all"]
    coin, job = found["coin"], found["job"]
    assert coin.alone.low < 0.5 < coin.alone.high
    assert coin.together.value == 1
    assert coin.gain.value == pytest.approx(coin.together.value - coin.alone.value)
    assert coin.gain.low > 0.4
    assert 0.6 < job.alone.value < 0.8
    assert job.gain.low <= 0 <= job.gain.high


def test_the_headline_says_it_in_one_sentence(report):
    alone = f"{report.knowledge['sex']['coin'].alone.value:.3f}".removeprefix("0")
    told = f"someone who knows coin guesses sex at {alone} alone and 1.000 with the release"
    assert report.sentence("sex").endswith(told)
    assert told in " ".join(str(report).split())


def test_it_is_printed_kept_and_on_the_page(report, tmp_path):
    assert report.knowledge["sex"]["all"].figures("sex") in " ".join(str(report).split())
    assert report.knowledge["sex"]["all"].figures("sex") in report.to_markdown()
    assert Report.from_json(report.to_json()).knowledge == report.knowledge
    page = report.to_html(tmp_path / "page.html").read_text()
    assert "Who knows raw columns of the person" in page
    assert page.count("<td>coin</td>") == 1
    assert "Other kinds of attack" not in page  # there are none
    assert set(report.table["role"]) >= {"knows coin", "knows job", "knows all"}


def test_a_release_that_looks_at_the_sensitive_column_is_asked_by_default():
    """The most telling column, the three most telling and all; other releases only where it is asked for."""
    parts = people(seed=1), people(seed=2)
    found = tacit.audit(Tossed(), *parts, **QUICK).knowledge["sex"]
    assert [k.split(", ")[0] for k in found] == ["job", "job", "all"]
    assert len(list(found)[1].split(", ")) == 3
    assert tacit.audit(Tossed(), *parts, attacker_knows=(), **QUICK).knowledge == {}
    other = tuple(d.X[["height"]] for d in parts)
    assert tacit.audit(other, *parts, **QUICK).knowledge == {}
    asked = tacit.audit(other, *parts, attacker_knows=[["job"]], **QUICK).knowledge["sex"]["job"]
    assert asked.gain.high > 0 > asked.gain.low - 0.1


def test_sets_are_chosen_on_the_rows_attackers_learn_from():
    """A column that tells all in `test`, and nothing in `attack`, is not the most telling one."""
    attack, test = people(seed=1), people(seed=2)
    told = tacit.Dataset(
        test.X.assign(coin=test.sensitive["sex"].map({"m": "heads", "f": "tails"})), test.y, test.sensitive
    )
    chosen = [telling_sets(Trial.of(None, *parts), 0)[0] for parts in ((attack, told), (told, attack))]
    assert chosen == [("job", ("job",)), ("coin", ("coin",))]


@pytest.mark.parametrize(
    "knows, message",
    [([["age"]], "'age'"), ([["sex"]], "'sex'"), ([[]], "no column")],
)
def test_columns_that_are_not_there_are_refused_before_the_work(knows, message):
    class Never:
        def transform(self, X):
            raise AssertionError("the work began")

    with pytest.raises(InputError, match=f"knows names {message}.*coin, job, height, born, won"):
        tacit.audit(Never(), people(seed=1), people(seed=2), attacker_knows=knows)


def test_windows_have_no_columns_to_know():
    rng = np.random.default_rng(0)
    windows = [tacit.Dataset(rng.normal(size=(60, 1, 4)), None, rng.choice(["a", "b"], 60)) for _ in range(2)]
    with pytest.raises(InputError, match="columns of a table"):
        tacit.audit(None, *windows, attacker_knows=["all"])


def test_equal_records_of_both_parts_are_released_as_rows_of_one_file():
    """In two files they would share their draws, and a certificate would count one observation twice."""

    class Numbered(Tossed):
        def transform(self, X, units=None, sensitive_features=None, y=None):
            return pd.DataFrame({"number": np.arange(len(X))})

    parts = people(60, seed=1), people(60, seed=1)
    Z = Trial.of(Numbered(), *parts, TrialSettings()).Z
    assert [z["number"].tolist() for z in Z] == [list(range(60)), list(range(60, 120))]


@pytest.mark.parametrize("copies", [1, 4])
def test_the_interval_of_a_gain_holds(copies):
    """Missed in at most 5 %: more than 19 of 200 by chance in 1 of 250 runs. Units are people of 4 equal records."""
    rng = np.random.default_rng(copies)
    missed = 0
    for _ in range(200):
        truth = np.repeat(rng.integers(2, size=150), copies)
        right = np.repeat(rng.random((2, 150)) < [[0.7], [0.6]], copies, axis=1)
        found = paired_gain(truth, *np.where(right, truth, 1 - truth), np.repeat(np.arange(150), copies))
        missed += not found.low <= 0.1 <= found.high
    assert missed <= 19
    assert paired_gain(truth, truth, truth) == (0, 0, 0, 0)


def test_the_command_line_asks_for_all_of_it(tmp_path):
    data = people(300, seed=1)
    pd.concat([data.X, data.y, data.sensitive], axis=1).to_csv(tmp_path / "people.csv", index=False)
    data.X[["coin", "job"]].to_csv(tmp_path / "released.csv", index=False)
    common = (
        "--data",
        str(tmp_path / "people.csv"),
        "--target",
        "won",
        "--sensitive",
        "sex",
        "--attackers",
        "logistic",
    )
    out = tacit_command(
        "audit", str(tmp_path / "released.csv"), *common, "--attacker-knows", "job,height", "--attacker-knows", "all",
        "--measure", "auto", "--measure", "breadth",
        "--measure", "few_columns", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    told = Report.from_json((tmp_path / "out" / "audit.json").read_text())
    assert list(told.knowledge["sex"]) == ["job, height", "all"]
    assert {"coin", "job", "height", "born", "won"} < {f.subject for f in told.findings if f.name == "breadth"}
    assert "certified for whoever reads any two columns" in " ".join(out.stdout.split())
    wrong = tacit_command("audit", str(tmp_path / "released.csv"), *common, "--attacker-knows", "age")
    assert wrong.returncode == 2
    assert "knows names 'age'" in " ".join(wrong.stderr.split())


def test_a_released_column_may_travel_along_as_it_was_too():
    """Both stand in the receiver's table under names of their own, dates too."""
    parts = people(60, seed=1), people(60, seed=2)
    Z = Trial.of(tuple(d.X[["born", "job"]] for d in parts), *parts, TrialSettings(alongside=("born",)))
    assert list(Z.frames[0].columns) == ["born", "job", "born (alongside)"]
    assert Z.encoded[0].shape[1] == Z.encoded[1].shape[1]
