"""One messy table, and every road that its records can take: all give the same release.

The table is a CSV with gaps in every spelling, booleans in several, spaces, quotes, words of any alphabet, dates as
text, numbers of every look, and units. It is read by `read_table`; its records then go through the filter, the bundle,
`apply`, `stream`, engines, the client with a real service, and the page in a real browser.
"""

from __future__ import annotations

import csv
import json
import warnings

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from service import running
from tacit.noise.keyed import unit_name
from tacit.records.cells import GAPS, MISSING_TEXT, OTHER_TEXT, numbers, text_number, words
from tacit.records.dataset import read_file
from tacit.records.encoding import TableEncoder
from tacit.records.schema import Column, TableSchema
from tacit.release.answer import Answerer
from tacit.release.bundle import read_bundle
from tacit.release.onnx import GraphBuilder
from tacit.release.stream import release_lines
from tacit.serve.app import make_app
from tacit.serve.client import Client, answer_file
from test_page import released_in_browser

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
KEY = bytes(range(32))
INPUTS = ["age", "pay", "own", "smokes", "job", "day", "code"]
JOBS = ["cook", "nurse", "Köchin", 'the "boss"', "smith, black", "O'Neil", "看護師"]


def messy(n, seed, fresh):
    """Cells as text, by column. Fresh ones have what the fit did not have."""
    rng = np.random.default_rng(seed)

    def mixed(cells, odd, share):
        return [str(rng.choice(odd)) if rng.random() < share else c for c in cells]

    age = [[f"{a}", f"{a}.0", f"{a}.00", f" {a}"][rng.integers(4)] for a in rng.integers(18, 90, n)]
    pay = [repr(p) for p in (1000 * rng.lognormal(size=n)).tolist()]
    own = rng.choice(["True", "TRUE", "true", "False", "FALSE", "false"], n).tolist()
    smokes = rng.choice(["True", "TRUE", "true", "False", "FALSE", "false"], n).tolist()
    job, day = rng.choice(JOBS, n).tolist(), [f"2024-0{m}-1{m}" for m in rng.integers(1, 8, n)]
    code = rng.choice(["007", "12", "A1", "1.0", "1e3"], n).tolist()
    if fresh:
        pay = mixed(pay, ["1e3", "1E+3", "+5", ".5", "5.", "-0.0", "123456789012345678901234567890", "1e15",
                          "0.1000000000000000055511151231257827", "9007199254740993", "1234.5  "], 0.3)  # fmt: skip
        own = mixed(own, [*GAPS, "1", "0", "1.0", "tRuE"], 0.4)
        job = mixed(job, ["king", "Königin", "cook ", "COOK", "Na", "-", "?", "nil", "\ue000other"], 0.3)
        day, code = mixed(day, ["2031-01-01", "1 May"], 0.2), mixed(code, ["7", "1", "12.0", "B2"], 0.2)
    made = {"age": mixed(age, GAPS, 0.2), "pay": mixed(pay, GAPS, 0.1), "own": own, "smokes": mixed(smokes, GAPS, 0.2),
            "job": mixed(job, GAPS, 0.3), "day": mixed(day, GAPS, 0.1), "code": code}  # fmt: skip
    made["who"] = [f"{w:03d}" if fresh and rng.random() < 0.3 else f"{w}" for w in rng.integers(1, 60, n)]
    known = np.array([int(j in JOBS[:3]) + (d < "2024-04") for j, d in zip(job, day, strict=True)])
    made["income"] = np.where(known + rng.normal(size=n) > 1, "high", "low").tolist()
    made["sex"] = np.where(rng.random(n) < 0.3 + 0.4 * (known > 0), "f", "m").tolist()
    return pd.DataFrame(made)


def write(cells, path, spaces):
    """The cells as a CSV, with spaces after commas where a person wrote it; quotes where needed, and where not."""
    rng = np.random.default_rng(0)

    def shown(cell):
        quoted = any(c in cell for c in ',"\n') or rng.random() < 0.2
        return " " * (spaces * rng.integers(3)) + ('"' + cell.replace('"', '""') + '"' if quoted else cell)

    rows = [[*cells.columns], *cells.to_numpy().tolist()]
    path.write_text("\ufeff" * spaces + "".join(",".join(map(shown, row)) + "\n" for row in rows), encoding="utf-8")
    return path


FILTERS = {
    "finite": lambda: tacit.CodebookFilter(n_codes=8, leakage_weight=0.1, n_folds=2, random_state=0),
    "continuous": lambda: tacit.baselines.LinearARL(2),
    "noisy": lambda: tacit.EIGAN(n_components=2, epochs=2, noise=0.5, random_state=0),
}


class Road:
    """A fitted filter, its bundle, and the messy records: as a file, as raw text and as `read_table` has them."""

    def __init__(self, name, folder):
        train = write(messy(700, 0, False), folder / "train.csv", True)
        self.folder, self.name = folder, name
        data = tacit.read_table(train, "income", "sex", unit="who")
        self.f = FILTERS[name]().fit(data.X, data.y, sensitive_features=data.sensitive)
        more = tacit.read_table(write(messy(300, 2, False), folder / "more.csv", False), "income", "sex")
        analyzer = tacit.serve.fit_analyzer(self.f, tacit.Dataset(more.X[INPUTS], more.y, more.sensitive), epochs=2)
        self.bundle = tacit.save(self.f, folder / "f.tacit", analyzer=analyzer)
        self.raw = messy(160, 1, True)
        self.csv = write(self.raw, folder / "fresh.csv", False)
        fresh = tacit.read_table(self.csv, "income", "sex", unit="who")
        self.X, self.units = fresh.X, fresh.units_of()
        self.noisy = self.f.mechanism_.noise is not None
        self.key = self.f.noise_key if self.noisy else None
        self.release = tacit.load(self.bundle, noise_key=self.key)
        self.unit = "who" if self.noisy else None
        self.expected = self.f.transform(self.X, units=self.units)

    def same(self, found):
        """Equal, but for the last digits of single precision, which may move noisy releases by a step of their grid."""
        found = np.asarray(found, dtype=float).reshape(self.expected.shape)
        step = 0.0 if not self.noisy else 1.01 * self.f.mechanism_.noise.scale * self.f.mechanism_.noise.grid
        digits = {"finite": 0.0, "continuous": 1e-9, "noisy": 1e-5}[self.name]
        scale = digits * (1 + np.abs(self.expected).max(axis=1, keepdims=True))
        wrong = np.flatnonzero((np.abs(found - self.expected) > step + scale).any(axis=1))
        assert not len(wrong), self.raw.iloc[wrong[:3]].to_dict("records")

    def records(self, typed):
        table = (self.X if typed else self.raw[INPUTS]).assign(who=self.units if typed else self.raw["who"])
        return [{k: None if pd.isna(v) else v for k, v in r.items()} for r in table.astype(object).to_dict("records")]

    def applied(self, source):
        out = self.folder / "out.csv"
        tacit.release.apply(self.bundle, source, out, noise_key=self.key, unit=self.unit, rows=50)
        return pd.read_csv(out).to_numpy()

    def streamed(self, lines, form):
        answers = list(release_lines(self.release, lines, form, self.unit))
        assert not [a for a in answers if "error" in a]
        return [list(a["release"].values()) for a in answers]


@pytest.fixture(scope="module", params=list(FILTERS))
def road(request, tmp_path_factory):
    return Road(request.param, tmp_path_factory.mktemp(request.param))


def test_a_gap_matters(road):
    """The control: records read otherwise are released otherwise."""
    gaps = road.X["job"].isna() | road.X["age"].isna() | road.X["own"].isna()
    assert gaps.mean() > 0.3
    other = road.X.assign(job=road.X["job"].where(road.X["job"].notna(), "N/A!"))
    with pytest.raises(AssertionError):
        road.same(road.f.transform(other, units=road.units))
    for column in ["job"] if road.name == "finite" else INPUTS:
        with pytest.raises(AssertionError):
            road.same(road.f.transform(road.X.assign(**{column: road.X[column].to_numpy()[::-1]}), units=road.units))
    assert len(np.unique(road.expected, axis=0)) > 3


def test_the_columns_are_what_they_should_be(road):
    kinds = {c.name: (c.kind, c.type, c.has_missing) for c in road.f.mechanism_.schema.encoder.columns}
    assert kinds["age"] == ("number", "float", True)
    assert kinds["pay"] == ("number", "float", True)
    assert kinds["own"] == ("number", "boolean", False)
    assert [kinds[c][0] for c in ("smokes", "job", "day", "code")] == ["category"] * 4
    by_name = {c.name: c.categories for c in road.f.mechanism_.schema.encoder.columns}
    assert by_name["smokes"] == ("False", "True")
    assert by_name["job"] == tuple(sorted(JOBS))
    assert by_name["code"] == ("007", "1.0", "12", "1e3", "A1")


def test_tables_in_memory(road):
    units = road.units if road.noisy else None
    typed = road.X.astype({"own": "object"})
    for X in (road.X, typed, road.raw[INPUTS]):
        road.same(road.f.transform(X, units=units))
        road.same(road.release.numbers(X, units))
        road.same(road.release.numbers({c: X[c].tolist() for c in X}, units))
        road.same(road.release.numbers(pa.Table.from_pandas(X.astype({"own": "str"}) if X is typed else X), units))
    for typed in (True, False):
        road.same(road.release.numbers([{k: r[k] for k in INPUTS} for r in road.records(typed)], units))


def test_files(road, tmp_path):
    road.same(road.applied(road.csv))
    road.same(road.applied(write(road.raw, tmp_path / "spaces.csv", True)))
    typed, text = road.X.assign(who=road.units), road.raw.astype(object)
    for table in (typed, text):
        table.to_parquet(tmp_path / "in.parquet")
        road.same(road.applied(tmp_path / "in.parquet"))
        pyarrow.feather.write_feather(pa.Table.from_pandas(table), tmp_path / "in.arrow", compression="uncompressed")
        road.same(road.applied(tmp_path / "in.arrow"))


def test_streams(road, tmp_path):
    road.same(road.streamed(road.csv.read_text().splitlines(), "csv"))
    spaces = write(road.raw, tmp_path / "spaces.csv", True)
    road.same(road.streamed(spaces.read_text(encoding="utf-8").splitlines(), "csv"))
    for typed in (True, False):
        lines = [json.dumps(r, default=lambda v: v.item()) for r in road.records(typed)]
        road.same(road.streamed(lines, "json"))


def test_engines(road):
    function = tacit.release.arrow_udf(road.release, unit=road.unit)
    for table in (road.X.assign(who=road.units), road.raw):
        road.same(function(pa.Table.from_pandas(table)).to_pandas().to_numpy())
        road.same(function(table).to_numpy())


def test_the_client_and_the_service(road, tmp_path):
    """What the client sends is the release, and the service answers from it as from the filter's own."""
    from starlette.testclient import TestClient

    sent = []

    class Recorded(httpx.BaseTransport):
        inner = TestClient(make_app(read_bundle(road.bundle), None))._transport

        def handle_request(self, request):
            sent.append(request.content)
            return self.inner.handle_request(request)

    typed = tmp_path / "typed.parquet"
    road.X.assign(who=road.units).to_parquet(typed)
    for source in (road.csv, typed):
        sent.clear()
        with Client("http://testserver", road.release, transport=Recorded()) as client:
            answer_file(client, source, tmp_path / "answers.csv", unit=road.unit)
        road.same(np.array([row for body in sent if body for row in json.loads(body)["release"]]))
        answers = pd.read_csv(tmp_path / "answers.csv")
        ours = Answerer(read_bundle(road.bundle)).answer(road.expected.reshape(len(road.X), -1))["answers"]["income"]
        assert (answers["income"] == ours["label"]).mean() > 0.98  # of two nearly equal classes either may come


def test_the_page(road, page):
    """Noise is drawn by the page itself, so a noisy filter is compared before it."""
    with running(road.bundle, "--no-auth") as (url, _):
        page.open(f"{url}/")
        for typed in (True, False):
            records = json.loads(json.dumps(road.records(typed), default=lambda v: v.item()))
            found = released_in_browser(page, road.bundle, records)
            if road.noisy:
                apart = found - road.release.noiseless(road.X)
                assert abs(apart.mean()) < 6 * road.f.mechanism_.noise.scale / np.sqrt(
                    apart.size
                )  # false alarm: 1 in 10^8
                assert np.abs(apart).max() < 7 * road.f.mechanism_.noise.scale
            else:
                road.same(found)


# -- the parts of the rule ----------------------------------------------------------------------------


def test_numbers_of_text():
    text = ["1e3", " 5", "5 ", "+.5", "-0", "0.1", "NA", "", None, "1_000", "NAN", "٣", "0x10", "1,5", "much", "inf"]
    found, problems = numbers("x", text)
    assert found[:9].tolist() == pytest.approx([1000, 5, 5, 0.5, 0, 0.1, np.nan, np.nan, np.nan], nan_ok=True)
    assert [p.row for p in problems] == [*range(9, 15), 15]
    assert numbers("x", ["TRUE", "false", "1"], boolean=True)[0].tolist() == [1, 0, 1]
    assert len(numbers("x", ["TRUE", "false", "1"])[1]) == 2


def test_words_of_text():
    found, problems = words("x", ["a", " a", "a ", "NA", " n/a", None, "b", True, "None"], ("a", "None"))
    gap, other = MISSING_TEXT, OTHER_TEXT
    assert found.tolist() == ["a", "a", other, gap, gap, gap, other, other, "None"]  # a category is never a gap
    assert not problems
    assert words("x", ["TRUE", False, " true", "1"], ("False", "True"))[0].tolist() == ["True", "False", "True", other]
    assert words("x", ["TRUE"], ("True", "maybe"))[0].tolist() == [other]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30))
@settings(max_examples=100, deadline=None)
def test_every_digit_of_a_number_counts(value):
    assert text_number(repr(value)) == float(value)


def test_a_file_is_read_with_every_digit(tmp_path):
    """pandas' quick parser is off by the last bit in some of these."""
    rng = np.random.default_rng(0)
    values = rng.random(2000) * 10.0 ** rng.integers(-30, 30, 2000)
    (tmp_path / "in.csv").write_text("x\n" + "".join(f"{v!r}\n" for v in values.tolist()))
    assert (read_file(tmp_path / "in.csv")["x"].to_numpy() == values).all()


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r", exclude_categories=["Cs"]), max_size=6).map(
    str.lstrip
)
ODD = st.sampled_from(["1", "2.5", "007", "True", "false", "NA", "", "x ", 'a"b', "a,b", "a\nb", "1e400", "-", "NaN"])


@given(st.lists(st.tuples(CELL | ODD, CELL | ODD, ODD), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_file_means_what_pandas_takes_it_for(tmp_path_factory, rows):
    """What cells say does not depend on the parser: numbers, booleans, words and gaps as pandas has them."""
    path = tmp_path_factory.getbasetemp() / "generated.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pd.read_csv(path, skipinitialspace=True, float_precision="round_trip")
    ours = read_file(path)
    assert len(ours) == len(theirs) == len(rows)
    for name in "abc":
        gaps = theirs[name].isna()
        assert (ours[name].isna() == gaps).all()
        mine, other = ours[name][~gaps], theirs[name][~gaps]
        if pd.api.types.is_numeric_dtype(other) and not pd.api.types.is_bool_dtype(other):
            assert mine.astype(float).tolist() == other.astype(float).tolist()
        else:
            assert mine.astype(str).tolist() == other.astype(str).tolist()


def test_names_of_columns_and_forms_of_files(tmp_path):
    import gzip

    text = ',age,pay," job"\n0,1,2,"a\nb"\n1,3,NA,c\n'
    (tmp_path / "in.csv").write_text("\ufeff" + text)
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("in.csv", "in.csv.gz"):
        table = read_file(tmp_path / name)
        assert table.columns.tolist() == ["Unnamed: 0", "age", "pay", "job"]
        assert table["job"].tolist() == ["a\nb", "c"]
        assert table["age"].tolist() == [1, 3]


def test_one_person_has_one_name():
    """A column of units is text to `stream` and numbers to `read_table`."""
    assert len({unit_name(u) for u in (7, 7.0, "7", "007", " 7", "7.0", np.int64(7), np.float32(7))}) == 1
    assert len({unit_name(u) for u in ("7a", "07a", 7, 70, 7.5, "7.5", "-7")}) == 6


CELLS = st.none() | st.sampled_from([*GAPS, "a", "b", " a", "zebra", "True", "é"])
NUMBERS = st.none() | st.floats(-1e6, 1e6) | st.integers(-(2**60), 2**60) | st.sampled_from(["5", " 7.25", "NA", True])


@given(st.lists(st.tuples(NUMBERS, CELLS, NUMBERS, CELLS), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_graph_encodes_as_the_encoder_does(rows):
    """Encoding exists twice, in numpy and as a graph; raw records reach both by the same rule."""
    encoder, session = _encoder_and_graph()
    names = ["n", "w", "m", "v"]
    raw = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    feeds, _, problems = TableSchema(encoder.columns).check(raw)
    assert not problems
    found = session.run(["encoded"], feeds)[0]
    frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in raw.items()})
    assert np.array_equal(found, encoder.transform(frame))


_made: list = []


def _encoder_and_graph():
    if not _made:
        import onnxruntime

        encoder = TableEncoder()
        encoder.columns = (
            Column("n", "number", 1.25, 3.5, has_missing=True),
            Column("w", "category", categories=("a", "b", "é")),
            Column("m", "number", -2.0, 0.7),
            Column("v", "category", categories=("True",)),
        )
        g = GraphBuilder()
        g.output(g.table(encoder.columns), "encoded")
        _made.append((encoder, onnxruntime.InferenceSession(g.build(), providers=["CPUExecutionProvider"])))
    return _made[0]
