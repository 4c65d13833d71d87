"""No false claim, through the front door: what `tacit.audit` says is true of what leaves."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.auditing.looks import count_look, looks_file
from tacit.auditing.received import read_cells, receiver_cells
from tacit.errors import ContradictionError

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

QUICK = {"attackers": ["logistic", "trees"], "measurements": "no-baseline"}


def halves(n=2000, seed=0, **more):
    """Two parts with one fair sensitive class; nothing else."""
    rng = np.random.default_rng(seed)
    s = rng.integers(2, size=n)
    data = tacit.Dataset(rng.standard_normal((n, 2)), rng.integers(2, size=n), pd.DataFrame({"s": s}), **more)
    return data.split((0.5, 0.5), random_state=seed)


def secret(part):
    return part.sensitive["s"].to_numpy().astype(bool)


# -- what is claimed is read from what releases -----------------------------------------------------


def test_a_bound_below_the_measurement_is_an_error():
    attack, test = halves()
    released = [secret(p).astype(float)[:, None] for p in (attack, test)]
    report = tacit.audit(released, attack, test, **QUICK)
    assert report.bound["s"] == pytest.approx(1, abs=0.06)
    told = {k: getattr(report, k) for k in report.__dataclass_fields__}
    with pytest.raises(ContradictionError, match=r"reads 1.000 .* no attacker exceeds 0.600"):
        type(report)(**told | {"bound": {"s": 0.6}})
    assert type(report)(**told).sentence("s").startswith("s: leakage between")


def test_a_stored_audit_that_contradicts_itself_is_not_shown():
    from tacit.serve.app import summary

    attack, test = halves()
    report = tacit.audit([secret(p).astype(float)[:, None] for p in (attack, test)], attack, test, **QUICK)
    told = json.loads(report.to_json())
    assert summary(told)["leakage"]["s"]["certified"]
    assert summary({**told, "bound": {"s": 0.6}}) is None


# -- C: what counts as equal ------------------------------------------------------------------------


def test_what_a_receiver_cannot_tell_apart_is_certified_near_guessing():
    """The control: the same without a difference."""
    attack, test = halves()
    quiet = tacit.audit([np.ones((len(p), 1)) for p in (attack, test)], attack, test, **QUICK)
    assert quiet.certificate["s"].bound < 0.56


CELLS = {
    "leading blank": (" A", "A"),
    "trailing blank": ("A ", "A"),
    "gaps": ("NA", "null"),
    "decimals": ("1.0", "1.00"),
    "minus zero": ("-0", "0"),
    "quotes": ('"A"', "A"),
    "quoted number": ('"1"', "1"),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_that_differ_in_their_bytes_differ_for_a_receiver(name, tmp_path):
    path, other = tmp_path / "a.csv", "B" if "A" in CELLS[name][1] else "2"
    for cells, differ in ((CELLS[name], True), (CELLS[name][1:] * 2, False)):
        path.write_text("a\n" + "".join(f"{c}\n" for c in (*cells, other, other)))
        codes = receiver_cells(*[read_cells(path, pd.read_csv(path))] * 2)
        assert (codes[0] != codes[1]).any() == differ
        assert (codes[2] == codes[3]).all()


def test_what_ends_a_line_counts_too(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\r\n1,x\r\n1,x\n1,x\r\n")
    table = read_cells(path, pd.read_csv(path))
    assert table["(end of line)"].nunique() == 2
    path.write_bytes(b'a,b\n1.50,"x,\ny"\n2.50,z')
    table = pd.read_csv(path)
    assert read_cells(path, table).equals(table)  # every value is spelled in one way


def test_releases_of_ours_have_one_form():
    """No index, no attributes of the input, no -0.0."""
    data = halves()[0]
    X = pd.DataFrame(data.X, columns=["a", "b"], index=secret(data).astype(int))
    X.attrs["who"] = "the secret"
    f = tacit.CodebookFilter(4, decode=True, random_state=0).fit(X, data.y, sensitive_features=data.sensitive)
    for release in (f.transform(X), f.release_training_rows()):
        assert isinstance(release.index, pd.RangeIndex)
        assert not release.attrs
    eraser = tacit.baselines.LinearEraser().fit(-X, data.y, sensitive_features=data.sensitive)
    zero = eraser.transform(X * 0.0)
    assert not np.signbit(zero[zero == 0]).any()


def test_files_carry_no_metadata_of_their_input(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = tacit.load_dataset("quadrants", n=300)
    f = tacit.baselines.LinearEraser().fit(data.X, data.y, sensitive_features=data.sensitive)
    bundle = tacit.save(f, tmp_path / "f.tacit")
    table = pa.table({"a": data.X[:, 0], "b": data.X[:, 1]}).replace_schema_metadata({"who": "the secret"})
    pq.write_table(table, tmp_path / "in.parquet")
    tacit.release.apply(bundle, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pq.read_schema(tmp_path / "out.parquet").metadata is None
    assert b"the secret" not in (tmp_path / "out.parquet").read_bytes()


def test_numbers_count_by_their_bits():
    a = np.array([[0.0], [1.0], [np.nextafter(1, 2)]])
    assert len(np.unique(receiver_cells(a, a)[:, 0])) == 3
    assert np.array_equal(receiver_cells(a, a)[:3], receiver_cells(a, a)[3:])


# -- E: classes that are not there ------------------------------------------------------------------


def test_a_class_that_no_row_has_is_not_forgotten():
    attack, test = halves(n=800)
    released = [np.ones((len(p), 1)) for p in (attack, test)]
    two = tacit.audit(released, attack, test, **QUICK).certificate["s"]
    parts = [
        tacit.Dataset(p.X, p.y, p.sensitive, classes={"s": [0, 1, 2]})  # three classes, of which two are here
        for p in (attack, test)
    ]
    three = tacit.audit(released, *parts, **QUICK).certificate["s"]
    assert (two.n_classes, two.absent, three.n_classes, three.absent) == (2, 0, 3, 1)
    assert three.bound >= (2 * two.plugin + 1) / 3 > 0.6
    assert three.guessing == pytest.approx(1 / 3)


def test_parts_of_a_data_set_know_the_classes_of_the_whole():
    data = tacit.Dataset(np.zeros((10, 1)), None, pd.DataFrame({"s": [*"ababababa", "rare"], "t": [*"xyxyxyxyxy"]}))
    part = data.take(np.arange(9)).take(np.arange(2))
    assert sorted(part.classes_of("s")) == ["a", "b", "rare"]
    assert len(part.classes_of(" x ")) == 3


def test_classes_of_the_fit_count():
    train, attack, test = (d.take(np.arange(600)) for d in (*halves(1400), halves(1400, seed=1)[0]))
    third = np.where(np.arange(600) % 3 == 0, 2, train.sensitive["s"])
    f = tacit.CodebookFilter(4, random_state=0)
    f.fit(train.X, train.y, sensitive_features=pd.DataFrame({"s": third}))
    assert tacit.audit(f, attack, test, **QUICK).certificate["s"].absent == 1


# -- F: products and looks --------------------------------------------------------------------------


def test_looks_are_counted(tmp_path):
    attack, test = halves(n=1000)
    bounds = []
    for i in range(4):
        release = [np.random.default_rng(i).integers(2, size=(len(p), 1)).astype(float) for p in (attack, test)]
        report = tacit.audit(release, attack, test, **QUICK)
        assert report.settings.look == i + 1
        bounds.append(report.certificate["s"].bound - report.certificate["s"].plugin)
    assert bounds == sorted(bounds)
    assert bounds[3] > 1.2 * bounds[0]
    assert any("look 4 on these rows" in note for note in report.notes)
    again = tacit.audit(release, attack, test, **QUICK)
    assert again.settings.look == 4  # the same release is the same look
    assert again.bound == report.bound
    others = halves(n=1000, seed=5)
    fresh = [np.zeros((len(p), 1)) for p in others]
    assert tacit.audit(fresh, *others, **QUICK).settings.look == 1  # other rows


def test_other_splits_of_the_same_rows_are_looks_too():
    whole = halves(2000)[0]
    first, second = whole.split((0.5, 0.5), random_state=1), whole.split((0.6, 0.4), random_state=2)
    assert [count_look(*first, b"a"), count_look(*second, b"b"), count_look(*first, b"a")] == [1, 2, 1]


def test_looks_are_kept_by_the_project_and_by_one_process_at_a_time(tmp_path, monkeypatch):
    monkeypatch.delenv("TACIT_LOOKS")
    (tmp_path / ".tacit").mkdir()
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert looks_file() == tmp_path / ".tacit" / "looks.json"
    code = (
        "import sys, numpy as np; from tacit.records.dataset import Dataset; "
        "from tacit.auditing.looks import count_look; "
        "X = np.random.default_rng(0).random((400, 2)); s = np.arange(400) % 2; "
        "parts = Dataset(X, s, {'s': s}).split((0.5, 0.5), random_state=0); "
        "[count_look(*parts, f'{sys.argv[1]}-{i}'.encode()) for i in range(20)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(i)]) for i in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    kept = json.loads(looks_file().read_text())
    numbers = [n for part in kept["parts"] for n in part["looks"].values()]
    assert sorted(numbers) == list(range(1, 61))  # none lost, none twice
    assert looks_file().stat().st_mode & 0o077 == 0
    looks_file().write_text("{")
    with pytest.raises(tacit.TacitError, match="is damaged"):
        count_look(*halves(400), b"x")


def test_a_product_counts_the_units_of_all_its_attributes():
    """b has units of its own; taken by a's, the product would seem to have more people than it has."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(100), 20)
    b = rng.integers(2, size=100)[person]
    data = tacit.Dataset(
        rng.standard_normal((2000, 1)),
        rng.integers(2, size=2000),
        pd.DataFrame({"a": rng.integers(2, size=2000), "b": b}),
        units={"a": np.arange(2000), "b": person},
    )
    attack, test = data.split((0.5, 0.5), by="b")
    report = tacit.audit([np.ones((len(p), 1)) for p in (attack, test)], attack, test, **QUICK)
    assert report.certificate["a"].n_units == 2000
    assert report.certificate["b"].n_units == 100
    assert report.certificate["a x b"].n_units == 100


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.usefixtures("quickly")
def test_a_release_is_shuffled_where_its_order_tells(ordered, tmp_path, monkeypatch):
    """The secret is planted in the order of rows: it must not be in what is handed over."""
    rng = np.random.default_rng(0)
    s = np.sort(rng.integers(2, size=900)) if ordered else rng.integers(2, size=900)
    table = pd.DataFrame({"x": rng.standard_normal(900), "y": rng.integers(2, size=900), "s": s})
    table["y"] = (table["x"] > 0).astype(int)
    table.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    asked = ("fit", "people.csv", "--target", "y", "--sensitive", "s", "--out", "out", "--filter", "codebook")
    done = tacit_command(*asked)
    assert done.returncode == 0, done.stderr
    assert ("since their order tells s" in " ".join(done.stdout.split())) == ordered
    Z = pd.read_parquet(tmp_path / "out" / "release.parquet").to_numpy()
    assert len(Z) == 900
    kept = np.corrcoef(Z[:, 0], table["y"])[0, 1]  # aligned with the file, or not
    assert (abs(kept) < 0.3) == ordered
