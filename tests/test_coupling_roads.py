"""A table back by every road: filter, bundle, files, streams, engines, service and browser release the same cells."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

import tacit
from service import running
from tacit.errors import BundleError, InputError
from tacit.filters import conditionals
from tacit.noise.keyed import Occurrences
from tacit.records.cells import GAPS, times
from tacit.release.stream import release_lines
from test_page import released_in_browser
from test_paths import JOBS, write

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
KEY = b"k" * 32


def messy(n, seed, fresh=False):
    """Cells as text: numbers, booleans, words, days and times with gaps in every spelling."""
    rng = np.random.default_rng(seed)
    s = rng.integers(2, size=n)

    def mixed(cells, odd, share):
        return [str(rng.choice(odd)) if rng.random() < share else c for c in cells]

    age = [[f"{a}", f"{a}.0", f" {a}"][rng.integers(3)] for a in rng.integers(18, 70, n) + 10 * s]
    pay = [repr(p) for p in (1000 * rng.lognormal(0.3 * s, 1)).tolist()]
    job = np.where(rng.random(n) < 0.2 + 0.5 * s, "cook", rng.choice(JOBS, n)).tolist()
    day = [f"2024-0{m}-1{m}" for m in rng.integers(1, 8, n)]
    seen = [f"2024-01-{d:02d} {h:02d}:30" for d, h in zip(rng.integers(1, 28, n), rng.integers(0, 24, n), strict=True)]
    own = rng.choice(["True", "TRUE", "false"], n).tolist()
    if fresh:
        pay, job = mixed(pay, ["1e3", "+5", "-0.0", "1234.5  "], 0.2), mixed(job, ["king", "cook ", "Na"], 0.2)
        day, own = mixed(day, ["2031-01-01"], 0.2), mixed(own, ["1", "0", "tRuE"], 0.2)
    made = {"age": mixed(age, GAPS, 0.1), "pay": mixed(pay, GAPS, 0.1), "own": own, "job": mixed(job, GAPS, 0.2)}
    made |= {"day": mixed(day, GAPS, 0.1), "seen": seen, "key": [f"k{i:04d}" for i in range(n)]}
    made["who"] = [f"{w}" for w in rng.integers(1, 60, n)]
    made["rich"] = np.where(rng.random(n) < 0.5, "high", "low").tolist()
    made["sex"] = np.where(s, "m", "f").tolist()
    return pd.DataFrame(made)


def cells(table):
    """Every cell as it can be compared: a gap, a number, or a word."""
    return [[_cell(v) for v in row] for row in pd.DataFrame(table).astype(object).to_numpy().tolist()]


def _records(table):
    return [{k: None if pd.isna(v) else v for k, v in r.items()} for r in table.astype(object).to_dict("records")]


def _cell(value):
    if value is None or value != value or value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    return float(value) if isinstance(value, bool | int | float | np.number) else str(value)


class Road:
    """A coupling, its bundle, and fresh records: as a file, as raw text and as `read_table` has them."""

    def __init__(self, folder, **settings):
        self.folder = folder
        train = write(messy(500, 0), folder / "train.csv", True)
        data = tacit.read_table(train, "rich", "sex", unit="who")
        self.f = tacit.CouplingFilter(pass_through=["key"], random_state=0, **settings)
        self.f.fit(data.X, data.y, sensitive_features=data.sensitive)
        more = tacit.read_table(write(messy(200, 2), folder / "more.csv", False), "rich", "sex", unit="who")
        self.f = self.f.redraw(KEY)
        self.raw = messy(120, 1, True)
        self.csv = write(self.raw, folder / "fresh.csv", False)
        fresh = tacit.read_table(self.csv, "rich", "sex", unit="who", keep_sensitive=True)
        self.X, self.units = fresh.X.assign(rich=fresh.y["rich"]), fresh.units_of()
        self.bundle = tacit.save(self.f, folder / "f.tacit")
        self.release = tacit.load(self.bundle, noise_key=KEY)
        self.expected = self.f.transform(self.X, self.units)
        self.more = more

    def same(self, found, names=None):
        found = pd.DataFrame(found)
        assert list(found.columns) == list(self.expected.columns) or names is not None
        assert cells(found) == cells(self.expected)


@pytest.fixture(scope="module", autouse=True)
def _quick_laws():
    """Laws that are hardly learned: no road depends on them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditionals, "EPOCHS", 2)
        patch.setattr(conditionals, "NETS", 2)
        yield


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return Road(tmp_path_factory.mktemp("coupling"))


def test_the_sensitive_column_is_dropped_and_few_cells_are_changed(road):
    assert list(road.expected.columns) == ["age", "pay", "own", "job", "day", "seen", "key", "rich"]
    assert (road.expected["key"] == road.X["key"]).all()
    types = dict(zip([c.name for c in road.f.mechanism_.columns],
                     [c.column.type if c.column.kind == "number" else "word" for c in road.f.mechanism_.columns],
                     strict=True))  # fmt: skip
    assert types == {"age": "float", "pay": "float", "own": "boolean", "job": "word", "day": "day", "seen": "time",
                     "rich": "word"}  # fmt: skip
    known = road.expected["day"].notna()
    assert road.expected["day"][known].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert (road.expected["job"] == road.X["job"]).mean() > 0.4
    assert (road.expected["job"] != road.X["job"]).mean() > 0.1


def test_tables_in_memory(road):
    for X in (road.X, road.raw):
        road.same(road.release.transform(X, road.units))
        road.same(road.release.transform({c: X[c].tolist() for c in X}, road.units), names=True)
        road.same(road.release.transform(_records(X), road.units), names=True)
        road.same(road.release.transform(pa.Table.from_pandas(X), road.units), names=True)
    beside = road.release.transform(
        road.X.drop(columns=["sex", "rich"]), road.units, sensitive_features=road.X["sex"], y=road.X["rich"]
    )
    road.same(beside)
    pd.testing.assert_frame_equal(beside, road.expected)


def test_files_and_streams(road, tmp_path):
    def applied(source, suffix=".csv", **options):
        out = tmp_path / f"out{suffix}"
        tacit.release.apply(road.bundle, source, out, noise_key=KEY, unit="who", rows=50, **options)
        return pd.read_csv(out, dtype={"key": str}) if suffix == ".csv" else pd.read_parquet(out)

    road.same(applied(road.csv))
    road.same(applied(road.csv, ".parquet"))
    road.same(applied(write(road.raw, tmp_path / "spaces.csv", True)))
    for table in (road.X.assign(who=road.units), road.raw.astype(object)):
        table.to_parquet(tmp_path / "in.parquet")
        road.same(applied(tmp_path / "in.parquet", ".parquet"))
        pyarrow.feather.write_feather(pa.Table.from_pandas(table), tmp_path / "in.arrow", compression="uncompressed")
        road.same(applied(tmp_path / "in.arrow"))
    answers = list(release_lines(road.release, road.csv.read_text().splitlines(), "csv", "who"))
    road.same([a["release"] for a in answers])
    lines = [json.dumps(r) for r in road.raw.to_dict("records")]
    road.same([a["release"] for a in release_lines(road.release, lines, "json", "who")])


def test_without_units_a_file_is_one_file(road, tmp_path):
    """Equal records of a file are drawn apart, however it is cut into parts."""
    twice = pd.concat([road.X] * 2, ignore_index=True)
    whole = road.f.transform(twice)
    file = Occurrences()
    parts = [road.release.transform(twice[at : at + 50], file=file) for at in range(0, len(twice), 50)]
    assert cells(pd.concat(parts)) == cells(whole)
    n = len(road.X)
    assert cells(whole[:n]) != cells(whole[n:])
    twice.to_parquet(tmp_path / "in.parquet")
    tacit.release.apply(road.bundle, tmp_path / "in.parquet", tmp_path / "out.parquet", noise_key=KEY, rows=70)
    assert cells(pd.read_parquet(tmp_path / "out.parquet")) == cells(whole)


def test_records_that_cannot_be_hidden_are_refused_or_set_aside(road, tmp_path):
    bad = road.raw[:6].copy()
    bad.loc[1, "sex"], bad.loc[2, "sex"], bad.loc[4, "day"] = "x", "", "1 May"
    for row, what in ((1, "was not in the fit"), (2, "missing, and this release looks at it"), (4, "is not a time")):
        with pytest.raises(InputError, match=what):
            road.release.transform(bad.iloc[[row]])
    with pytest.raises(InputError, match="looks at the sensitive column 'sex', and it is not there"):
        road.release.transform(road.X.drop(columns="sex"))
    found = road.release.transform(bad, on_error="quarantine")
    assert found.rows.tolist() == [0, 3, 5]
    assert found.bad_rows.tolist() == [1, 2, 4]
    write(bad, tmp_path / "bad.csv", False)
    done = tacit.release.apply(road.bundle, tmp_path / "bad.csv", tmp_path / "o.csv", noise_key=KEY,
                               on_error="quarantine")  # fmt: skip
    assert (done.released, done.quarantined) == (3, 3)


def test_a_combination_that_was_never_seen_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    sex, place = rng.choice(["f", "m"], 300), rng.choice(["north", "south"], 300)
    place[sex == "m"] = "north"
    X = pd.DataFrame({"a": rng.integers(4, size=300)})
    both = pd.DataFrame({"sex": sex, "place": place})
    f = tacit.CouplingFilter(random_state=0).fit(X, sensitive_features=both)
    strange = pd.DataFrame({"sex": ["f", "m"], "place": ["south", "south"]})
    with pytest.raises(InputError, match=r"row 1: the combination \(m, south\) was not in the fit"):
        f.transform(X[:2], sensitive_features=strange)
    release = tacit.load(tacit.save(f, tmp_path / "f.tacit"), noise_key=f.noise_key)
    with pytest.raises(InputError, match="this combination was not in the fit"):
        release.transform(X[:2], sensitive_features=strange)
    with pytest.raises(InputError, match="this combination was not in the fit"):
        release.numbers(X[:2], sensitive_features=strange)  # what a client sends
    found = release.transform(X[:2], sensitive_features=strange, on_error="quarantine")
    assert found.rows.tolist() == [0]


def test_sensitive_values_that_are_drawn_are_drawn_alike_everywhere(tmp_path):
    table = messy(400, 5)
    X = tacit.read_table(write(table, tmp_path / "t.csv", False), "rich", "sex", unit="who").X.drop(columns="key")
    sex = table["sex"].where(np.arange(400) % 5 > 0, None)
    f = tacit.CouplingFilter(unknown="draw", random_state=0).fit(X, sensitive_features=sex)
    release = tacit.load(tacit.save(f, tmp_path / "f.tacit"), noise_key=f.noise_key)
    ours = f.transform(X, sensitive_features=sex)
    assert cells(release.transform(X, sensitive_features=sex)) == cells(ours)
    assert cells(release.transform(X, sensitive_features=table["sex"])) != cells(ours)


def test_a_lying_bundle_is_refused(road, tmp_path):
    from test_bundle import changed, forged

    for path, value, what in (
        (["output", "types"], ["text"], "output.table does not fit"),
        (["output", "carried"], {"nobody": "text"}, "output"),
        (["output", "table"], [["x"]] * 7, "names a value of"),
        (["input", "columns", 0, "role"], "boss", "unknown field|has no known role"),
    ):
        lying = forged(road.bundle, tmp_path, manifest=changed(path, value))
        with pytest.raises(BundleError, match=what):
            tacit.load(lying, noise_key=KEY).transform(road.X, road.units)


@pytest.fixture(scope="module")
def open_road(tmp_path_factory):
    """At strength 0 nothing is replaced, so what a page draws for itself does not matter."""
    return Road(tmp_path_factory.mktemp("open"), strength=0.0)


def test_the_page_releases_a_table_without_the_sensitive_column(open_road, page):
    road = open_road
    data = tacit.Dataset(road.more.X, road.more.y, road.more.sensitive, road.more.units)
    analyzer = tacit.serve.fit_analyzer(road.f, data, epochs=2)
    bundle = tacit.save(road.f, road.folder / "served.tacit", analyzer=analyzer)
    codes = road.release.numbers(road.X, road.units)
    with running(bundle, "--no-auth") as (url, _):
        page.open(f"{url}/")
        for table in (road.raw, road.X.assign(who=road.units)):
            records = [
                {k: None if pd.isna(v) else v for k, v in r.items()} for r in table.astype(object).to_dict("records")
            ]
            found = released_in_browser(page, bundle, json.loads(json.dumps(records, default=lambda v: v.item())))
            # a word that the fit did not have is replaced by a draw, and the page draws for itself
            assert (found == codes)[road.raw["job"].isin([*JOBS, *GAPS])].all()
            assert road.raw["job"].isin([*JOBS, *GAPS]).mean() > 0.7
        page.open(f"{url}/")
        page.evaluate("new Promise(r => { const t = setInterval(() => { if (document.querySelector('#output dl')) "
                      "{ clearInterval(t); r(1); } }, 100); })")  # fmt: skip
        shown = page.evaluate("document.getElementById('output').innerText")
        assert "never sent" in shown
        assert "sex" not in [line.strip() for line in shown.splitlines()]
        text = road.csv.read_text()
        released = page.evaluate(
            f"""(async () => {{
            const link = () => document.getElementById("released-file"), make = URL.createObjectURL;
            let made; // the page may fetch nothing but its service, not even its own blob
            URL.createObjectURL = blob => {{ made = blob; return make(blob); }};
            const file = new File([{json.dumps(text)}], "fresh.csv");
            const input = document.querySelector("input[type=file]");
            const held = new DataTransfer(); held.items.add(file); input.files = held.files;
            input.dispatchEvent(new Event("change"));
            for (let i = 0; i < 6000 && !link(); i++) await new Promise(r => setTimeout(r, 100));
            return await made.text();
        }})()"""
        )
        out = road.folder / "from_page.csv"
        out.write_text(released)
        known = road.raw["job"].isin([*JOBS, *GAPS]).to_numpy()
        assert cells(pd.read_csv(out)[known]) == cells(road.expected[known])


def test_times_are_read_in_every_form():
    import datetime

    day = datetime.date(1970, 1, 3)
    found, wrong = times("t", ["1970-01-03", day, pd.Timestamp("1970-01-03"), " 1970-01-03", "NA", None, "soon"], "D")
    assert found[:4].tolist() == [2.0] * 4
    assert np.isnan(found[4:6]).all()
    assert [p.row for p in wrong] == [6]
    seconds = times("t", np.array(["1970-01-01T00:01", "NaT"], dtype="M8[us]"), "s")[0]
    assert seconds[0] == 60.0
    assert np.isnan(seconds[1])


# -- the frontier and the command line --------------------------------------------------------------


def parts(n=900):
    rng = np.random.default_rng(0)
    s, y = rng.integers(2, size=(2, n))
    X = pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.2 + 0.6 * s, "x", "z"),
            "b": y + rng.normal(0, 0.7, n),
            "c": rng.integers(3, size=n),
        }
    )
    whole = tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}), units="rows")
    return whole.split((0.5, 0.25, 0.25), random_state=0)


@pytest.mark.usefixtures("breadths")
def test_a_frontier_shares_its_models_and_gives_the_filter_back():
    train, attack, test = parts()
    front = tacit.frontier(tacit.CouplingFilter(random_state=0), train, attack, test, values=[0.0, 1.0], seeds=1,
                           n_jobs=1, attackers="logistic", limit=False)  # fmt: skip
    leak = front.table().sort_values("value")["s"].tolist()
    assert leak[0] > 0.7 > 0.6 > leak[1]
    broad = front.table().sort_values("value")["breadth"].tolist()
    assert broad[0] > broad[1] > 0.5
    best = front.choose(max_leakage={"s": 0.65})
    assert best.strength == 1.0
    assert list(best.transform(test.X, sensitive_features=test.sensitive, y=test.y).columns) == ["a", "b", "c", "y"]
