"""Drift: no false alarm however often it is asked, what matters is found, and the bound on what has moved holds."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_hypergeom

import tacit
from commands import tacit_command
from tacit.auditing.drift import (
    few_share,
    log_evidence,
    many_share,
    moved_accuracy,
    moved_balanced,
    telling_of,
    together,
    total_variation_end,
)
from tacit.auditing.monitor import LOOK, WINDOW, Drift, Moved, Watch
from tacit.auditing.released_values import one_of_each, released_codes
from tacit.errors import InputError, RequirementNotMet
from tacit.report.released import Telling
from tacit.report.report import Report

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found
DELTA = 0.05


# -- the test ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [(3, 4), (1, 1, 6), (5, 0, 2, 1)])
def test_evidence_has_a_mean_of_at_most_one_whatever_the_law(both):
    """Exact: over every way in which the new records can be drawn from the urn of all."""
    both = np.array(both)
    for n in range(1, both.sum()):
        draws = [np.array(d) for d in itertools.product(*(range(b + 1) for b in both)) if sum(d) == n]
        chances = [multivariate_hypergeom.pmf(d, both, n) for d in draws]
        mean = sum(c * math.exp(log_evidence(both - d, d)) for c, d in zip(chances, draws, strict=True))
        assert sum(chances) == pytest.approx(1)
        assert mean <= 1 + 1e-9
    assert log_evidence(both, np.zeros_like(both)) == 0.0


def test_evidence_grows_with_drift_and_a_mean_of_evidence_is_evidence():
    old = np.array([500, 300, 200])
    grown = [log_evidence(old, np.array([250 - d, 150, 100 + d])) for d in (0, 25, 50, 100)]
    assert grown == sorted(grown)
    assert together([math.log(2), math.log(4)]) == pytest.approx(math.log(3))


def first_alarm(known, days, delta=DELTA):
    watch = Watch.start([len(known)])
    for day, records in enumerate(days):
        watch.add(None, records[:, None], None)
        watch.look([known], delta)
        if watch.facts["drifted"]:
            return day
    return None


def alarms(law, n, streams, days, seed, new=None):
    """How many streams raise an alarm, 100 records a day, asked every day."""
    rng = np.random.default_rng(seed)
    drawn = ((rng.multinomial(n, law), rng.choice(len(law), size=(days, 100), p=new)) for _ in range(streams))
    return sum(first_alarm(known, list(records)) is not None for known, records in drawn)


def code(k, seed=0):
    """A law of released values, and P(sensitive | value)."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, 2.0)), rng.dirichlet(np.full(2, 1.0), size=k)


def balanced(law, posterior):
    joint = law[:, None] * posterior
    return float((joint / joint.sum(axis=0)).max(axis=1).sum() / posterior.shape[1])


def shifted(law, posterior, way):
    """Moved along what moves the best attacker most until he has gained (1) or lost (-1) .05: the cheapest shift."""
    new = law
    for _ in range(1000):
        ratio = posterior / (new @ posterior)
        best = ratio.argmax(axis=1)
        hits = [(new * ratio[:, s])[best == s].sum() for s in range(ratio.shape[1])]
        new = new * np.exp(0.02 * way * (ratio.max(axis=1) - ratio @ hits))
        new = new / new.sum()
        if abs(balanced(new, posterior) - balanced(law, posterior)) >= 0.05:
            return new
    raise AssertionError("no shift of these values moves leakage by .05")


@pytest.mark.parametrize("k", [4, 16, 64])
def test_few_false_alarms(k):
    """At most 5 % of streams; 11 of 60 would come with probability 2e-4."""
    law = code(k)[0]
    assert alarms(law, 500, 60, 60, seed=k, new=law) <= 10


@pytest.mark.slow  # a thousand streams, asked daily for a year
@pytest.mark.parametrize(("k", "n"), [(4, 5000), (16, 1000), (16, 20000), (64, 5000)])
def test_at_most_one_stream_in_twenty_has_a_false_alarm_in_a_year(k, n):
    law = code(k)[0]
    assert alarms(law, n, 1000, 365, seed=k, new=law) <= 50


@pytest.mark.parametrize("k", [4, 16, 64])
@pytest.mark.parametrize("way", [1, -1])
def test_a_shift_that_moves_leakage_by_five_points_is_found_within_two_thousand_records(k, way):
    """Found in .99 to 1.00 of streams (benchmarks/drift.py): at 99 % each, fewer than 18 of 20 come 1 in 1,000."""
    law, posterior = code(k)
    assert alarms(law, 5000, 20, 20, seed=k, new=shifted(law, posterior, way)) >= 18


def test_a_shift_after_a_quiet_month_is_found_by_the_last_records():
    law, posterior = code(16)
    rng = np.random.default_rng(0)
    days = [*rng.choice(16, size=(30, 100), p=law), *rng.choice(16, size=(20, 100), p=shifted(law, posterior, 1))]
    assert 30 <= first_alarm(rng.multinomial(5000, law), days) < 50


def test_what_is_not_promised_class_laws_that_move_may_hide_in_the_values():
    """The counterexample: P(sensitive | value) changes, no value's share does. Nobody can see it, and nothing holds."""
    law, before, after = np.full(4, 0.25), np.tile([0.5, 0.5], (4, 1)), np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    assert balanced(law, before) == 0.5
    assert balanced(law, after) == 1.0
    telling = Telling(0.5, (1.0, 1.0), (0.5, 0.5))
    assert moved_balanced(0.5, 0.0, 2, telling, 0.0) == 0.5  # under its condition, which is broken here


# -- how far a certificate can have moved -----------------------------------------------------------


def exact_telling(law, posterior):
    ratio = posterior / (law @ posterior)
    best = posterior.max(axis=1)
    return Telling(float((law @ posterior).min()), (ratio.min(), ratio.max()), (best.min(), best.max()))


def laws(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, k = int(rng.integers(2, 6)), int(rng.integers(2, 12))
        law, posterior = rng.dirichlet(np.ones(k)), rng.dirichlet(np.full(m, rng.choice([0.3, 3.0, 30.0])), size=k)
        yield law, rng.dirichlet(rng.choice([3.0, 30.0, 300.0]) * law + 0.01), posterior


@pytest.mark.parametrize("few", [0.0, 1.0])
def test_the_moved_bound_is_never_below_the_truth(few):
    """An inequality, no statistics: law, variation and what values tell are known exactly."""
    useful = 0
    for law, new, posterior in laws(2000):
        d, telling, m = np.abs(law - new).sum() / 2, exact_telling(law, posterior), posterior.shape[1]
        bound = moved_balanced(balanced(law, posterior), d, m, telling, few)
        assert bound >= balanced(new, posterior) - 1e-9
        plain = moved_accuracy(float(law @ posterior.max(axis=1)), d, m, telling, few)
        assert plain >= float(new @ posterior.max(axis=1)) - 1e-9
        useful += bound < 0.99
    assert useful > 500  # a bound of one would hold for everything


def test_half_the_variation_is_not_enough():
    """The control: the bounds above could have failed."""
    below = 0
    for law, new, posterior in laws(2000):
        telling, m = exact_telling(law, posterior), posterior.shape[1]
        d = np.abs(law - new).sum() / 4
        below += moved_accuracy(float(law @ posterior.max(axis=1)), d, m, telling, 0.0) < new @ posterior.max(axis=1)
    assert below > 0


def test_the_moved_bound_of_counts_is_above_the_truth():
    """Everything counted: fails in at most 5 %; 32 of 300 would come with probability 5e-5."""
    rng, below, far = np.random.default_rng(0), 0, 0
    for law, new, posterior in itertools.islice(laws(3000, seed=1), 300):
        k, m = posterior.shape
        table = np.zeros((k + 1, m), dtype=int)
        table[:-1] = rng.multinomial(2000, (law[:, None] * posterior).ravel()).reshape(k, m)
        old, now = table.sum(axis=1), np.append(rng.multinomial(1000, new), 0)
        end, many = total_variation_end(old, now, DELTA / 4), many_share(old)
        few = few_share(old, many, DELTA / 8) + few_share(now, many, DELTA / 8)
        telling = telling_of(table, many, DELTA / 2)
        below += moved_balanced(balanced(law, posterior), end, m, telling, few) < balanced(new, posterior)
        far += end < np.abs(law - new).sum() / 2
    assert max(below, far) <= 31


def test_values_that_are_not_named_count_as_having_nothing_in_common():
    assert total_variation_end(np.array([50, 50]), np.array([50, 50]), 0.5) > 0.5


# -- from a bundle ----------------------------------------------------------------------------------


def people(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    X = pd.DataFrame({"a": y + 0.6 * rng.standard_normal(n) + shift, "b": s + rng.standard_normal(n)})
    return tacit.Dataset(X, pd.DataFrame({"t": y}), pd.DataFrame({"s": s}), units="rows")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    train, attack, test = people(3000, 0).split((0.3, 0.35, 0.35))
    f = tacit.CodebookFilter(4, n_folds=2, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return tacit.save(f, tmp_path_factory.mktemp("drift") / "f.tacit", tacit.audit(f, attack, test, floor=False))


def test_a_bundle_notices_another_population_and_says_what_it_can(bundle):
    same, other = tacit.drift(bundle, people(1500, 1).X), tacit.drift(bundle, people(1500, 1, shift=1.0).X)
    assert not same.drifted
    same.require()
    assert other.drifted
    assert other.moved["s"].balanced > same.moved["s"].balanced > same.moved["s"].certified
    assert "if P(sensitive | released value) is what it was" in str(same)
    with pytest.raises(RequirementNotMet, match="drift: the released values are not those"):
        other.require()
    assert tacit.drift(bundle, people(LOOK - 1, 1).X).sentence == f"too few records to say: {LOOK - 1} of {LOOK}"


def test_new_labels_certify_anew(bundle):
    """What no value shows, labels do: here the released value itself has become the sensitive attribute."""
    new, release = people(1500, 2), tacit.load(bundle)
    cells = released_codes(release.report.released, release.transform(new.X))[:, 0]
    told = tacit.drift(bundle, new.X, sensitive_features=pd.DataFrame({"s": cells % 2}))
    honest = tacit.drift(bundle, new.X, sensitive_features=new.sensitive)
    assert not told.drifted
    assert told.moved["s"].counted.bound > 0.95 > told.moved["s"].balanced
    assert honest.moved["s"].counted.bound < 0.8
    assert "on these new rows" in str(honest)


def test_the_same_batch_counts_once_and_asks_add_up(bundle, tmp_path):
    state, days = tmp_path / "s", [people(300, seed) for seed in range(3, 6)]
    assert tacit.drift(bundle, days[0].X, state).records == 300
    again = tacit.drift(bundle, days[0].X, state)
    assert (again.records, again.looks) == (300, 1)
    assert "counted before" in again.notes[0]
    assert state.stat().st_mode & 0o077 == 0
    tacit.drift(bundle, days[1].X, state)
    last = tacit.drift(bundle, tacit.load(bundle).transform(days[2].X), state, released=True)
    assert (last.records, last.looks) == (900, 3)
    with pytest.raises(InputError, match="without units"):
        tacit.drift(bundle, days[1].X, state, units=np.arange(300))


def test_a_state_belongs_to_its_bundle(bundle, tmp_path):
    tacit.drift(bundle, people(300, 3).X, tmp_path / "s")
    reference = tacit.load(bundle).report.released
    column = reference.columns["release"]
    other = replace(reference, columns={"release": replace(column, counts=(*column.counts[:-1], 7))})
    with pytest.raises(InputError, match="belongs to the drift of a bundle with other"):
        Watch.read(tmp_path / "s", other)


def test_everybody_counts_once_by_their_latest_record():
    watch = Watch.start([3])
    watch.add(None, np.array([[0], [0], [1]]), np.array(["ann", "ann", "bob"]))
    assert watch.counts(lately=False)[0].tolist() == [1, 1, 0]
    watch.add(None, np.array([[2]]), np.array(["ann"]))
    assert watch.counts(lately=False)[0].tolist() == [0, 1, 1]
    assert watch.facts["records"] == 3
    assert len(one_of_each(np.array([5, 5, 5, 6]), 4)) == 2


def test_a_person_is_known_again_however_the_column_was_stored():
    watch = Watch.start([3])
    watch.add(None, np.array([[0], [1]]), np.array(["007", "8"]))
    watch.add(None, np.array([[2], [2]]), np.array([7.0, 8.0]))
    assert watch.counts(lately=False)[0].tolist() == [0, 0, 2]


def test_a_moved_bound_says_of_which_records_it_is():
    """Not "now": what moved an hour ago is hidden among all records before it."""
    told = Drift(False, 55000, 220, 0.1, 100.0, 0.02, 0.95, {"sex": Moved(0.56, 0.57, 0.56)})
    assert "over all these records ≤ .570 balanced" in str(told)
    assert "over the last 2,000 records ≤ .570 balanced" in str(replace(told, drifted=True))


def test_the_last_records_are_kept_and_the_others_counted():
    watch = Watch.start([2])
    watch.add(None, np.zeros((WINDOW, 1), dtype=int), None)
    watch.add(None, np.ones((10, 1), dtype=int), None)
    assert watch.counts(lately=False)[0].tolist() == [WINDOW, 10]
    assert watch.counts(lately=True)[0].tolist() == [WINDOW - 10, 10]
    assert len(watch.rows) == WINDOW


def parts_of(Z, *parts):
    return tuple(Z.iloc[p.rows].reset_index(drop=True) for p in parts)


def test_a_bundle_names_no_value_that_few_share():
    """Two people have a value of their own: it is counted with all others, and is nowhere in the report."""
    data = people(600, 0)
    Z = pd.DataFrame({"z": np.where(np.arange(600) % 2, "even", "odd").astype(object)})
    Z.loc[[5, 300], "z"] = "the mayor"
    attack, test = data.split((0.5, 0.5))
    report = tacit.audit(parts_of(Z, attack, test), attack, test, "logistic", floor=False)
    assert report.released.columns["release"].values == ("even", "odd")
    assert report.released.columns["release"].counts[-1] == 2
    assert "mayor" not in report.to_json()
    back = Report.from_json(report.to_json())
    assert back.released == report.released
    old = {k: v for k, v in report.to_dict().items() if k != "released"}
    assert Report.from_dict(json.loads(json.dumps(old))).released is None


def test_numbers_and_tables_are_counted_column_by_column():
    data = people(800, 0)
    attack, test = data.split((0.5, 0.5))
    Z = data.X.assign(job=np.where(data.y["t"], "cook", "nurse"), person=np.arange(800))
    report = tacit.audit(parts_of(Z, attack, test), attack, test, "logistic", floor=False)
    released = report.released
    assert not released.whole
    assert [len(c.counts) for c in released.columns.values()] == [11, 11, 3, 11]
    assert all(sum(c.counts) == released.n == 800 for c in released.columns.values())
    codes = released_codes(released, Z.assign(job="king", a=np.nan))
    assert codes[:, 0].tolist() == [10] * 800  # what is missing, or new, is another value
    assert codes[:, 2].tolist() == [2] * 800
    with pytest.raises(InputError, match="have no column 'a'"):
        released_codes(released, Z.drop(columns="a"))


def test_a_bundle_without_counts_says_what_to_do(tmp_path):
    f = tacit.baselines.LinearARL().fit(
        *(people(200, 0).X, people(200, 0).y), sensitive_features=people(200, 0).sensitive
    )
    with pytest.raises(InputError, match=r"saved without an audit.*Audit the filter again"):
        tacit.drift(tacit.save(f, tmp_path / "x.tacit"), people(300, 1).X)


def test_a_released_table_is_watched_and_its_pairs_are_certified_anew(tmp_path):
    def table(n, seed, shift):
        rng = np.random.default_rng(seed)
        s = rng.integers(2, size=n)
        X = pd.DataFrame(
            {"hours": 10 * rng.integers(4, size=n), "job": np.where(rng.random(n) < shift, "cook", "nurse")}
        )
        return tacit.Dataset(X, pd.DataFrame({"t": rng.integers(2, size=n)}), pd.DataFrame({"sex": s}), units="rows")

    train, attack, test = table(1500, 0, 0.5).split((0.4, 0.3, 0.3))
    f = tacit.CouplingFilter(random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    report = tacit.audit(f, attack, test, floor=False)
    path = tacit.save(f, tmp_path / "t.tacit", report)
    release = tacit.load(path, noise_key=f.noise_key)
    same, other = table(1000, 1, 0.5), table(1000, 1, 0.9)
    found = tacit.drift(release, same.X, sensitive_features=same.sensitive, y=same.y)
    assert not found.drifted
    assert found.moved["sex"].counted.whom == "whoever reads any two columns"
    whole = pd.concat([other.X, other.y, other.sensitive], axis=1)
    assert tacit.drift(release, whole).drifted


def test_the_command_says_no_drift_drift_and_what_is_wrong(bundle, tmp_path):
    for name, shift in (("same", 0.0), ("other", 1.5)):
        data = people(1000, 7, shift)
        pd.concat([data.X, data.sensitive], axis=1).to_parquet(tmp_path / f"{name}.parquet")
    state = tmp_path / "drift.state"
    good = tacit_command("drift", bundle, tmp_path / "same.parquet", "--state", state, "--sensitive", "s")
    assert good.returncode == 0, good.stderr
    assert "no drift was found (1,000 records in 1 looks" in good.stdout
    bad = tacit_command("drift", bundle, tmp_path / "other.parquet", "--state", state)
    assert bad.returncode == 3
    assert "not met: drift" in bad.stderr
    wrong = tacit_command("drift", bundle, tmp_path / "same.parquet", "--unit", "person")
    assert wrong.returncode == 2
    assert "no column 'person'" in wrong.stderr
