"""Numbers as targets and as sensitive attributes: data, audit, report, filters, command line."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Lasso

import tacit
from commands import tacit_command
from tacit.auditing.trial import Trial
from tacit.filters.registry import make_filter
from tacit.labels import encode_labels
from tacit.records.dataset import Dataset
from tacit.report.report import Report
from tacit.report.results import NumberResult, Result

QUICK = {"measurements": ["no-baseline", "no-breadth", "no-linkability", "no-singling_out"]}


def people(n=1600, seed=0):
    """Age is told by column a, progression by b and c; sex by d."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["job"] = rng.choice(["x", "y"], n)
    age = (40 + 10 * X["a"] + 5 * rng.normal(size=n)).round(1)
    progression = 100 + 30 * X["b"] + 20 * X["c"] + 10 * rng.normal(size=n)
    sex = np.where(X["d"] + rng.normal(size=n) > 0, "f", "m")
    return X, pd.DataFrame({"progression": progression}), pd.DataFrame({"age": age, "sex": sex})


@pytest.fixture(scope="module")
def parts():
    return Dataset(*people(), name="people").split((0.4, 0.3, 0.3))


@pytest.fixture(scope="module")
def code(parts):
    train = parts[0]
    return tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)


@pytest.fixture(scope="module")
def report(parts, code):
    return tacit.audit(code, *parts[1:], ["ridge", "trees"], measurements="no-breadth")


# -- labels -------------------------------------------------------------------------------------


def test_a_part_with_few_values_is_still_a_number(parts):
    """Ten people have ten ages, which alone would look like classes."""
    few = parts[0].take(np.arange(10))
    assert few.is_number("age")
    assert encode_labels(few.sensitive, "s", 10, numbers=True).number_names == ["age"]
    assert few.labels("sensitive").number(1) is None


def test_classes_of_a_number_are_of_about_equal_size_and_those_of_the_whole(parts):
    whole, part = (d.labels("sensitive") for d in (parts[0], parts[1]))
    assert whole.classes[0].tolist() == part.classes[0].tolist()
    counts = np.bincount(whole.codes[:, 0])
    assert len(counts) == 4
    assert counts.min() > 0.2 * counts.sum()


def test_numbers_do_not_spoil_a_split():
    """With each value as a stratum of its own nothing would be left to the seed, and sex to the order of the rows."""
    X, y, s = people(400)
    s["sex"] = np.tile(["f", "m"], 200)
    halves = [Dataset(X, y, s).split((0.5, 0.5), random_state=seed) for seed in range(2)]
    assert not np.array_equal(halves[0][0].rows, halves[1][0].rows)
    for one, other in halves:
        assert abs((one.sensitive["sex"] == "f").mean() - (other.sensitive["sex"] == "f").mean()) <= 0.05


def test_said_to_be_a_number_or_a_class():
    floors, zips = np.arange(60) % 5, np.arange(60) * 7 + 10000
    X = pd.DataFrame({"a": np.arange(60.0)})
    assert not Dataset(X, {"floors": floors}, None).is_number("floors")
    assert Dataset(X, {"floors": floors}, None, numeric="floors").is_number("floors")
    assert (
        Dataset(X, None, {"zip": np.tile(zips, 1) + np.arange(60)}, numeric={"zip": False})
        .labels("sensitive")
        .number(0)
        is None
    )


def test_missing_numbers_take_no_part():
    X, y, s = people(600)
    s.loc[:299, "age"] = np.nan
    data = Dataset(X, y, s)
    _, attack, test = data.split()
    [task] = Trial.of(None, attack, test).number_tasks("sensitive")
    assert len(task.ya) + len(task.yt) < 300
    assert not np.isnan(task.ya).any()


def test_two_tables_are_cut_alike():
    """Parts that were not taken from one data set have classes of their own."""
    one, two = (Dataset(*people(300, seed)) for seed in (0, 1))
    labels = Trial.of(None, one, two).labels["sensitive"]
    assert len(labels.classes[0]) == 4
    assert np.bincount(labels.codes[:, 0]).min() > 100


# -- audit --------------------------------------------------------------------------------------


def test_a_number_is_read_and_told(parts):
    report = tacit.audit(None, *parts[1:], ["logistic", "trees", Lasso(0.01)], **QUICK)
    age, progression = report.leakage["age"], report.utility["progression"]
    assert isinstance(age, NumberResult)
    assert isinstance(report.leakage["sex"], Result)
    assert list(report.leakage) == ["age", "sex"]  # as the columns stand
    assert set(age.attackers) == {"ridge", "trees", "median trees", "Lasso"}
    assert 0.7 < age.low <= age.value <= age.high < 0.87  # the truth is .8
    assert (age.guessing, progression.guessing) == (0, 0)
    assert age.rank_correlation.value == pytest.approx(0.89, abs=0.03)
    assert age.mae.low < 4.0 < age.mae.high  # 5 sqrt(2 / pi)
    assert age.mae.guessing == pytest.approx(8.9, abs=0.7)
    assert progression.value > 0.85
    text = report.sentence("age")
    assert text.startswith("age: R² .")
    assert "guessing 0, rank correlation .8" in text
    assert "where guessing the median gives" in text
    assert any("are for classes, and are left out" in note for note in report.notes)


def test_whoever_knows_nothing_says_little():
    """Few rows of noise: the guesses of neighbors as they are would have an R² below -.1."""
    rng = np.random.default_rng(0)
    halves = Dataset(rng.normal(size=(300, 6)), None, {"age": rng.normal(50, 10, 300)}).split((0.5, 0.5))
    age = tacit.audit(None, *halves, ["neighbors"], **QUICK).leakage["age"]
    assert age.value > -0.04
    assert age.mae.value < 1.03 * age.mae.guessing


def test_classes_beside_a_number_are_measured_as_without_it(parts):
    """Figures of classes do not move by a bit."""
    attack, test = parts[1:]
    alone = [Dataset(d.X, None, d.sensitive[["sex"]], rows=d.rows) for d in (attack, test)]
    both = [Dataset(d.X, d.y, d.sensitive[["sex"]], rows=d.rows) for d in (attack, test)]
    a, b = (tacit.audit(None, *pair, ["logistic"], **QUICK).leakage["sex"] for pair in (alone, both))
    assert a == b


def test_cells_are_counted_and_the_classes_certified(report):
    age = report.leakage["age"]
    assert {"counting", "counting medians"} <= set(age.attackers)
    assert report.certificate["age"] is None
    certificate = report.certificate["age in 4 classes"]
    assert certificate.n_classes == 4
    assert 0.25 < certificate.bound < 0.5
    assert "in 4 classes of about equal size: any attacker names the right one with at most" in report.sentence("age")
    assert "age in 4 classes x sex" in report.certificate


def test_a_release_that_tells_the_number_is_not_certified_as_hiding_it(parts):
    """Four cells that are the quarters of age: the bound is 1 or close to it, and R² is large."""
    attack, test = parts[1:]
    cells = [d.labels("sensitive").codes[:, :1].astype(float) for d in (attack, test)]
    report = tacit.audit(cells, attack, test, **QUICK)
    assert report.leakage["age"].low > 0.7
    found = report.certificate["age in 4 classes"]
    assert found is None or found.bound > 0.99


def test_an_order_of_rows_that_tells_the_number_takes_the_certificate(parts):
    data = Dataset(*people(1500, 3))
    order = np.argsort(data.sensitive["age"].to_numpy(float), kind="stable")
    data = data.take(order)
    data = Dataset(data.X, data.y, data.sensitive[["age"]])
    attack, test = data.split((0.5, 0.5))
    cells = [(d.X[["d"]] > 0).to_numpy(float) for d in (attack, test)]
    report = tacit.audit(cells, attack, test, ["trees"], **QUICK)
    assert report.certificate["age in 4 classes"] is None
    assert any("the order of the rows tells it" in note for note in report.notes)


def test_units_widen_the_interval(parts):
    data = Dataset(*people(400))
    many = data.take(np.repeat(np.arange(400), 4))
    whose = np.repeat(np.arange(400), 4)
    widths = []
    for units in (whose, "rows"):
        d = Dataset(many.X, many.y, many.sensitive[["age"]], units=units)
        halves = [d.take(np.arange(0, 800)), d.take(np.arange(800, 1600))]
        age = tacit.audit(None, *halves, ["ridge"], **QUICK, options=tacit.AuditOptions(pooled=())).leakage["age"]
        widths.append(age.high - age.low)
    assert widths[0] > 1.5 * widths[1]


def test_requirements_are_of_r_squared(report):
    report.require(leakage={"age": 0.2}, utility={"progression": 0.3})
    with pytest.raises(tacit.TacitError, match=r"age: R² may be as high as .* allowed -0.500"):
        report.require(leakage={"age": -0.5})
    with pytest.raises(tacit.TacitError, match="progression: R² may be as low as"):
        report.require(utility={"progression": 0.99})
    with pytest.raises(tacit.TacitError, match="'age in 4 classes'"):
        report.require(leakage={"age": 0.9}, certified=True)
    report.require(leakage={"age in 4 classes": 0.6}, certified=True)


def test_json_keeps_numbers(report):
    again = Report.from_json(report.to_json())
    assert again.leakage["age"] == report.leakage["age"]
    assert again.to_json() == report.to_json()


def test_text_markdown_and_page_tell_numbers(report, tmp_path):
    text, markdown = str(report), report.to_markdown()
    assert "age (R²)" in text
    assert "mean error" in text
    assert "age (R²)" in markdown
    page = report.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "progression: R²" in page
    assert "mean error, in its own units" in page
    assert page.count("What the best attacker answers") == 1  # of sex


def test_the_label_alone_is_a_number(report):
    """The floor predicts progression as a number: about as well as trees can, and it tells nothing of age."""
    assert report.label_only_utility["progression"].value > 0.7
    assert report.label_only["age"].value < 0.1


def test_what_changed_is_paired(parts, code):
    from tacit.auditing.paired_change import paired_change

    attack, test = parts[1:]
    found = {c.name: c for c in paired_change((attack.X, test.X), code, attack, test, ["ridge"]).changes}
    assert found["age"].high < -0.5


# -- filters ------------------------------------------------------------------------------------

hiding = pytest.mark.filterwarnings("ignore:.*it is hidden as 5 classes")
HIDES = {
    "eigan": {"n_components": 3, "epochs": 8, "noise": None},
    "minimax": {"n_components": 2},
    "codebook": {},
    "linear-arl": {},
    "coupling": {},
}


@hiding
@pytest.mark.parametrize("name", HIDES)
def test_filters_hide_and_keep_numbers(name, parts):
    """Raw columns explain .8 of age and .9 of progression; a linear attacker finds little of age in a release."""
    train, attack, test = (Dataset(d.X, d.y, d.sensitive[["age"]]) for d in parts)
    f = make_filter(name, random_state=0, **HIDES[name])
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    report = tacit.audit(
        f, attack, test, ["ridge", "trees"], measurements=[*QUICK["measurements"], "no-few_columns"], attacker_knows=()
    )
    assert report.utility["progression"].value > 0.5
    assert report.leakage["age"].value < 0.25
    classes = name in ("codebook", "coupling")
    assert any("classes of about equal size" in note for note in f.notes_) == classes


def test_an_eraser_leaves_a_number_uncorrelated(parts):
    train = parts[0]
    Z = tacit.baselines.LinearEraser().fit(train.X, sensitive_features=train.sensitive[["age"]]).transform(train.X)
    age = train.sensitive["age"].to_numpy(float)
    for column in Z.T[Z.std(axis=0) > 1e-12]:
        assert abs(np.corrcoef(column, age)[0, 1]) < 1e-8


def test_the_label_alone_of_a_number_leaves_as_a_number(parts, tmp_path):
    train, _, test = parts
    f = tacit.baselines.LabelOnly(n_folds=2, random_state=0).fit(train.X, train.y)
    Z = f.transform(test.X)
    assert len(np.unique(Z)) > 100
    assert np.corrcoef(Z[:, 0], test.y["progression"].to_numpy(float))[0, 1] > 0.85
    loaded = tacit.load(tacit.save(f, tmp_path / "f.tacit"))
    assert np.allclose(loaded.transform(test.X), Z, rtol=1e-5)


def test_dp_and_chunks_refuse_numbers(parts):
    train = parts[0]
    for f in (tacit.EIGAN(dp=tacit.DP(3.0)), tacit.baselines.LinearEraser(dp=tacit.DP(3.0))):
        with pytest.raises(tacit.TacitError, match=r"is a number: cut it into classes"):
            f.fit(train.X, train.y, sensitive_features=train.sensitive)
    with pytest.raises(tacit.TacitError, match="numbers cannot be taken here"):
        tacit.baselines.LinearEraser().partial_fit(train.X, sensitive_features=train.sensitive)


def test_a_frontier_of_numbers(parts):
    train, attack, test = (Dataset(d.X, d.y, d.sensitive[["age"]]) for d in parts)
    front = tacit.frontier(tacit.CodebookFilter(random_state=0), train, attack, test, [0, 20], 1, "logistic")
    table = front.table()
    assert table["progression"].max() > 0.5
    assert "progression mean error" in table
    assert front.find({"age": 0.3}).utility["progression"].value > 0.5
    area = front.hypervolume()
    assert 0.3 < area.low <= area.value <= area.high <= 1
    assert "R² of progression, age" in str(front)


# -- polars -------------------------------------------------------------------------------------


def test_a_polars_frame_is_taken_wherever_one_of_pandas_is(tmp_path):
    X, y, s = people(500)
    y = pd.DataFrame({"ill": np.where(y["progression"] > 100, "yes", "no")})
    X.loc[3, "job"] = None
    inside = [pl.from_pandas(t) for t in (X, y, s[["sex"]])]
    for f in (tacit.EIGAN(2, epochs=2, random_state=0), tacit.CouplingFilter(random_state=0, n_folds=2)):
        Z = []
        for A, b, c in ((X, y, s[["sex"]]), inside):
            f._key = b"k" * 32
            more = {"sensitive_features": c, "y": b} if isinstance(f, tacit.CouplingFilter) else {}
            Z.append(f.fit(A, b, sensitive_features=c).transform(A, **more))
        assert np.array_equal(np.asarray(Z[0]), np.asarray(Z[1]))
    release = tacit.load(tacit.save(tacit.EIGAN(2, epochs=2, random_state=0).fit(X, y), tmp_path / "f.tacit"))
    assert np.array_equal(release.transform(X), release.transform(inside[0]))
    data = Dataset(*inside)
    assert data.sensitive["sex"].tolist() == s["sex"].tolist()
    assert list(data.X.columns) == list(X.columns)


# -- command line -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y, s = people(900)
    path = tmp_path_factory.mktemp("numbers") / "people.csv"
    pd.concat([X.round(3), y.round(1), s], axis=1).to_csv(path, index=False)
    return path


def one_line(told):
    return " ".join(told.stdout.split())


def test_the_command_line_needs_no_bins(table, tmp_path):
    out, asked = tmp_path / "out", ["--target", "progression", "--sensitive", "age"]
    told = tacit_command("fit", table, *asked, "--filter", "linear-arl", "--out", out)
    assert told.returncode == 0, told.stderr
    assert "progression R²" in one_line(told)
    assert "age: R² " in one_line(told)
    assert "where guessing the median gives" in one_line(told)
    assert Report.from_json((out / "audit.json").read_text()).leakage["age"].headline == "r2"
    less = [word for name in ("breadth", "singling_out", "linkability") for word in ("--measure", f"no-{name}")]
    told = tacit_command("audit", out / "filter.tacit", "--data", table, *asked, "--require", "age=.9", *less)
    assert told.returncode == 0, told.stderr
    assert "age (R²)" in one_line(told)
    told = tacit_command("audit", table, "--data", table, *asked, "--require", "age=.1", *less)
    assert told.returncode == 3


def test_the_command_line_says_which_columns_are_numbers(table):
    asked = ["--target", "progression", "--sensitive", "sex", "--numeric", "sex"]
    told = tacit_command("audit", table, "--data", table, *asked)
    assert told.returncode == 2
    assert "numeric names 'sex'" in " ".join(told.stderr.split())


# -- real data ----------------------------------------------------------------------------------


def test_diabetes_keeps_its_progression_as_a_number():
    data = tacit.load_dataset("diabetes")
    assert data.is_number("progression")
    assert data.y["progression"].median() == 140.5
    attack, test = data.split((0.6, 0.4), random_state=0)
    report = tacit.audit(None, attack, test, ["ridge"], **QUICK)
    progression = report.utility["progression"]
    assert 0.25 < progression.value < 0.65  # linear models explain about half of it
    assert progression.mae.high < progression.mae.guessing
    assert tacit.load_dataset("diabetes", classes=True).y["progression"].nunique() == 2


@pytest.mark.parametrize("role", ["sensitive", "target"])
def test_adults_age(role, real):
    sides = {"sensitive": "age"} if role == "sensitive" else {"target": "age"}
    data = real("adult", **sides)
    train, attack, test = data.take(np.arange(3000)).split()
    raw = tacit.audit(None, attack, test, ["ridge", "trees"], **QUICK)
    assert (raw.leakage if role == "sensitive" else raw.utility)["age"].low > 0.25
    f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    report = tacit.audit(f, attack, test, **QUICK)
    if role == "sensitive":
        assert report.leakage["age"].high < 0.2
        assert report.certificate["age in 4 classes"].bound < 0.5
    else:
        assert report.utility["age"].low > 0.1


def test_a_policy_holds_a_number_to_its_r_squared(table):
    policy = table.parent / "tacit.toml"
    told = '[data]\nfile = "people.csv"\ntargets = ["progression"]\nsensitive = ["age"]\n'
    told += '[filter]\nname = "linear-arl"\n[limits]\nleakage = { age = %s }\nutility = { progression = 0.5 }\n'
    for most, code in ((0.5, 0), (0.0001, 3)):
        policy.write_text(told % most)
        done = tacit_command("check", policy)
        assert done.returncode == code, done.stderr + done.stdout
    assert "R² .9" in one_line(done) or "R² 0.9" in one_line(done)
