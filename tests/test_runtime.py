"""The runtime: what goes in, keyed noise, quarantine, whole files and streams."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import ndtri
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.noise import keyed as noise
from tacit.records.cells import numbers
from tacit.release.bulk import apply
from tacit.release.keys import read_key
from tacit.release.runtime import load
from tacit.release.stream import release_lines

pytestmark = pytest.mark.filterwarnings(
    "ignore:records hold numbers far outside the fit"
)  # words and numbers of every kind are asked for

KEY = b"k" * 32


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": np.where(y == 1, "cook", "nurse"),
            "pay": np.where(rng.random(n) < 0.1, np.nan, 10 * s + rng.standard_normal(n)),
            "owner": rng.random(n) < 0.5,
        }
    )
    return X, y, s


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def plain(folder):
    """A deterministic release of a table with text."""
    X, y, s = table()
    return tacit.save(tacit.baselines.PrivatePLS(2).fit(X, y, sensitive_features=s), folder / "plain.tacit")


@pytest.fixture(scope="module")
def noisy(folder):
    X, y, s = table()
    return tacit.save(tacit.MinimaxFilter(2, noise=0.5, max_iter=3).fit(X, y, sensitive_features=s), folder / "n.tacit")


@pytest.fixture(scope="module")
def rows(folder):
    """A release of plain arrays."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.integers(2, size=300)
    return tacit.save(tacit.baselines.LaplaceMechanism(3.0).fit(X, y), folder / "rows.tacit")


# -- records in ---------------------------------------------------------------------------------


def test_all_kinds_of_tables_give_the_same(plain):
    X = table(50, seed=1)[0]
    X.loc[3, "job"] = None
    release = load(plain)
    expected = release.transform(X)
    arrow = pa.Table.from_pandas(X)
    shuffled = X[["owner", "pay", "job", "age"]].assign(more=1)
    categories = X.astype({"job": "category", "pay": "Float64", "age": "Int16", "owner": "boolean"})
    lists = {c: X[c].tolist() for c in X}
    mixed = X.to_numpy(dtype=object)
    for other in (arrow, shuffled, categories, lists, mixed, {c: X[c].to_numpy() for c in X}, X.astype({"age": str})):
        assert np.array_equal(release.transform(other), expected)
    assert release.transform(X.head(0)).shape == (0, 2)


def test_text_of_any_kind_is_only_text(plain):
    release = load(plain)
    X = table(3, seed=1)[0].astype({"job": object})
    odd = ["\ud800", "x" * 100_000, "\x00", "\ue000other", b"cook", 1.5]
    other = release.transform(X.assign(job="astronaut"))
    for word in odd:
        assert np.array_equal(release.transform(X.assign(job=pd.Series([word] * 3, dtype=object))), other), word


def test_records_that_do_not_fit_are_named_by_row_and_column(plain, rows):
    release = load(plain)
    X = table(20, seed=1)[0].astype({"age": object, "pay": object, "job": object})
    for column, value, message in (
        ("age", "old", r"'age', row 7: text of 3 characters is not a number; pass a number, or NaN"),
        ("pay", np.inf, r"'pay', row 7: infinity"),
        ("pay", [1], r"'pay', row 7: a list is not a number"),
    ):
        bad = X.copy()
        bad.at[7, column] = value
        with pytest.raises(tacit.TacitError, match=message):
            release.transform(bad)
    with pytest.raises(tacit.TacitError, match=r"'job', row 0: a number; pass text.*19 more rows"):
        release.transform(X.assign(job=1.0))
    with pytest.raises(tacit.TacitError, match="column 'pay' is not there"):
        release.transform(X.drop(columns="pay"))
    with pytest.raises(tacit.TacitError, match=r"shape \(5, 2\), but a record has the 4 columns age, job"):
        release.transform(np.zeros((5, 2)))
    with pytest.raises(tacit.TacitError, match="one length"):
        release.transform({"age": [1, 2], "job": ["cook"], "pay": [1.0], "owner": [True]})
    with pytest.raises(tacit.TacitError, match="type datetime64"):
        release.transform(X.assign(age=pd.Timestamp("2020-01-01")))
    array = load(rows, noise_key=KEY)
    with pytest.raises(tacit.TacitError, match="column 1, row 2: NaN"):
        array.transform([[0, 0, 0], [0, 0, 0], [0, np.nan, 0]])
    with pytest.raises(tacit.TacitError, match=r"shape \(2,\), but the bundle takes \(3,\)"):
        array.transform(np.zeros((4, 2)))
    with pytest.raises(tacit.TacitError, match="no numbers"):
        array.transform([["a", "b", "c"]])


def test_quarantine_loses_nothing(plain):
    release = load(plain)
    X = table(30, seed=1)[0].astype({"age": object})
    whole = release.transform(X)
    bad = X.copy()
    bad.at[4, "age"], bad.at[9, "pay"] = "old", -np.inf
    found = release.transform(bad, on_error="quarantine")
    assert found.bad_rows.tolist() == [4, 9]
    assert [(p.row, p.column) for p in found.problems] == [(4, "'age'"), (9, "'pay'")]
    assert sorted([*found.rows, *found.bad_rows]) == list(range(30))
    assert np.array_equal(found.release, whole[found.rows])
    everything = release.transform(bad.iloc[[4, 9]], on_error="quarantine")
    assert everything.release.shape == (0, 2)
    with pytest.raises(tacit.TacitError, match="on_error"):
        release.transform(X, on_error="ignore")


# -- noise --------------------------------------------------------------------------------------


def test_the_normal_quantile_is_scipys():
    p = np.concatenate([np.random.default_rng(0).random(20_000), 2.0 ** -np.arange(1, 60), [0.5, 0.075, 0.925]])
    assert np.allclose(noise.normal_quantile(p), ndtri(p), rtol=1e-13, atol=1e-15)


def test_noise_has_the_variance_of_its_formula(noisy, rows):
    """Of n = 40,000 draws; the sample variance lies within five standard errors (false alarms: 1 in 10^6)."""
    X = pd.concat([table(20_000, seed=5)[0]] * 1)
    X["pay"] = np.random.default_rng(0).standard_normal(len(X))
    release = load(noisy, noise_key=KEY)
    drawn = (release.transform(X) - release.noiseless(X)).ravel()
    assert drawn.std() ** 2 / 0.25 == pytest.approx(1, abs=5 * np.sqrt(2 / len(drawn)))
    laplace = load(rows, noise_key=KEY)
    Z = np.random.default_rng(0).standard_normal((20_000, 3))
    drawn = (laplace.transform(Z) - laplace.noiseless(Z)).ravel()
    scale = laplace.manifest["noise"]["scale"]
    # Var = 2 b^2; the fourth moment 24 b^4 gives a standard error of sqrt(5 / n)
    assert drawn.var() / (2 * scale**2) == pytest.approx(1, abs=5 * np.sqrt(5 / len(drawn)))
    step = 2.0**-12 * scale
    assert np.array_equal(np.rint(laplace.transform(Z) / step) * step, laplace.transform(Z))


def test_the_same_record_gets_the_same_noise(noisy, tmp_path):
    X = table(40, seed=1)[0]
    one, same, other = load(noisy, noise_key=KEY), load(noisy, noise_key=KEY), load(noisy, noise_key=b"o" * 32)
    Z = one.transform(X)
    assert np.array_equal(Z, one.transform(X))
    assert np.array_equal(Z, same.transform(X))
    assert np.array_equal(Z[10:20], same.transform(X.iloc[10:20]))
    assert not (other.transform(X) == Z).any()
    # a word that is not a category cannot be varied to draw again
    odd = [one.transform(X.head(1).assign(job=word)) for word in ("king", "queen")]
    assert np.array_equal(*odd)
    (tmp_path / "key").write_text(KEY.hex())
    assert np.array_equal(Z, load(noisy, noise_key=tmp_path / "key").transform(X))
    for bad in (b"short", tmp_path / "nothing", "zz"):
        with pytest.raises(tacit.TacitError, match="noise_key"):
            read_key(bad)


def test_without_a_key_the_user_is_told(noisy):
    X = table(20, seed=1)[0]
    release = load(noisy)
    with pytest.warns(tacit.TacitWarning, match="no noise_key was given.*can average"):
        Z = release.transform(X)
    assert np.array_equal(Z, release.transform(X))
    assert not (release.redraw().transform(X) == Z).any()


def test_bundles_of_one_key_draw_apart(folder):
    """The same draws at two sizes could be solved for the record."""
    X, y, s = table()
    drawn = []
    for scale in (0.5, 1.0):
        f = tacit.MinimaxFilter(2, noise=scale, max_iter=3, random_state=0).fit(X, y, sensitive_features=s)
        release = load(tacit.save(f, folder / "x.tacit"), noise_key=KEY)
        drawn.append((release.transform(X) - release.noiseless(X)).ravel() / scale)
    assert abs(np.corrcoef(drawn)[0, 1]) < 5 / np.sqrt(len(drawn[0]))


def test_bundles_are_certified_like_their_filters(noisy, rows):
    rng = np.random.default_rng(3)
    X, y, s = table(3000, seed=4)
    data = tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}), units="rows")
    report = tacit.audit(
        load(noisy, noise_key=KEY), *data.split((0.5, 0.5)), attackers="logistic", measurements="no-baseline"
    )
    assert report.status("s") == "certified"
    Z = tacit.Dataset(rng.standard_normal((600, 3)), data.y[:600], data.sensitive[:600])
    report = tacit.audit(
        load(rows, noise_key=KEY), *Z.split((0.5, 0.5)), attackers="logistic", measurements="no-baseline"
    )
    assert report.certificate["s"].epsilon == pytest.approx(3.0)


# -- whole files --------------------------------------------------------------------------------


def written(X, path):
    if path.suffix == ".csv":
        X.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        X.to_parquet(path, row_group_size=100)
    else:
        arrow = pa.Table.from_pandas(X)
        with pa.ipc.new_file(path, arrow.schema) as file:
            file.write_table(arrow, max_chunksize=70)
    return path


def readback(path):
    if path.suffix == ".csv":
        return pd.read_csv(path).to_numpy()
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_numpy()
    if path.suffix == ".npz":
        return np.load(path)["release"]
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all().to_pandas().to_numpy()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_files_in_and_out(suffix, plain, tmp_path):
    X = table(257, seed=2)[0].assign(secret="not for release")
    expected = load(plain).transform(X)
    source = written(X, tmp_path / f"in.{suffix}")
    for out in ("csv", "parquet", "arrow", "npz"):
        told = []
        done = apply(plain, source, tmp_path / f"out.{out}", rows=100, callback=lambda _, now, all: told.append(now))  # noqa: B023
        assert (done.rows, done.released, done.quarantined) == (257, 257, 0)
        assert told[-1] == 257
        assert readback(tmp_path / f"out.{out}") == pytest.approx(expected, abs=1e-12)
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".")]


def test_arrays_in_and_out(rows, tmp_path):
    X = np.random.default_rng(0).standard_normal((1000, 3))
    np.savez_compressed(tmp_path / "in.npz", X=X)
    apply(rows, tmp_path / "in.npz", tmp_path / "out.npz", noise_key=KEY, rows=64)
    assert np.array_equal(readback(tmp_path / "out.npz"), load(rows, noise_key=KEY).transform(X))


def test_csv_is_read_as_tables_are_fitted(plain, tmp_path):
    """Spaces after commas, spellings of gaps, truth as words: as in `tacit.read_table`."""
    text = "age, job, pay, owner\n30, cook, NA, True\n40, nurse, 1.5, False\n50, , n/a, True\n"
    (tmp_path / "in.csv").write_text(text)
    apply(plain, tmp_path / "in.csv", tmp_path / "out.csv")
    X = pd.read_csv(io.StringIO(text), skipinitialspace=True)
    assert readback(tmp_path / "out.csv") == pytest.approx(load(plain).transform(X), abs=1e-12)


def test_bad_rows_of_files(plain, tmp_path):
    X = table(250, seed=2)[0].astype({"age": object, "owner": object})
    X.at[120, "age"], X.at[207, "owner"] = "old", "perhaps"
    source = written(X, tmp_path / "in.csv")
    with pytest.raises(tacit.TacitError, match=r"'age', row 120: text of 3 char.*Nothing was released"):
        apply(plain, source, tmp_path / "out.parquet")
    assert os.listdir(tmp_path) == ["in.csv"]
    done = apply(plain, source, tmp_path / "out.parquet", on_error="quarantine")
    assert (done.rows, done.released, done.quarantined) == (250, 248, 2)
    lines = [json.loads(line) for line in done.quarantine.read_text().splitlines()]
    assert [line["row"] for line in lines] == [120, 207]
    assert lines[0]["record"]["age"] == "old"
    assert list(lines[1]["problems"]) == ["'owner'"]
    good = X.drop(index=[120, 207])
    assert readback(tmp_path / "out.parquet") == pytest.approx(load(plain).transform(good), abs=1e-12)
    for target, message in ((tmp_path / "out.txt", "cannot write '.txt'"), (tmp_path / "out", "without suffix")):
        with pytest.raises(tacit.TacitError, match=message):
            apply(plain, source, target)
    with pytest.raises(tacit.TacitError, match="no column 'pay'"):
        apply(plain, written(X.drop(columns="pay"), tmp_path / "less.csv"), tmp_path / "out.csv")


def test_memory_does_not_grow_with_the_file(rows, tmp_path):
    """Peak memory of a process that releases 40 times as many rows is nearly the same.

    Of its own address space: `ru_maxrss` begins with the size of the process that started it.
    """
    code = (
        "import re, sys; from tacit.release.bulk import apply; "
        "apply(*sys.argv[1:], noise_key=b'k' * 32, rows=2000); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    peaks = []
    for n in (5_000, 200_000):
        np.savez(tmp_path / "in.npz", X=np.random.default_rng(0).standard_normal((n, 3)))
        arguments = [sys.executable, "-c", code, str(rows), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
        peaks.append(int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout))
    # the larger file and its release would take 9,600 KiB; noise without units counts records, 16 bytes each, and
    # copies the counts when they grow
    assert peaks[1] - peaks[0] < 8_000


# -- streams and functions ----------------------------------------------------------------------


def test_lines_of_json(plain):
    X = table(3, seed=1)[0]
    release = load(plain)
    expected = release.transform(X)
    good = [
        json.dumps({k: None if v != v else v for k, v in row.items()}) for row in X.astype(object).to_dict("records")
    ]
    lines = [good[0], "{", good[1], "3", json.dumps({"age": 3}), "", good[2], "[" * 50_000]
    answers = list(release_lines(release, lines))
    names = list(release.get_feature_names_out())
    found = [[a["release"][n] for n in names] for a in answers if "release" in a]
    assert np.array_equal(found, expected)
    assert [a["line"] for a in answers if "error" in a] == [2, 4, 5, 8]


def test_arrow_functions(plain):
    X = table(30, seed=1)[0]
    released = tacit.release.arrow_udf(plain)(pa.RecordBatch.from_pandas(X))
    assert released.schema.names == list(load(plain).get_feature_names_out())
    assert np.array_equal(released.to_pandas().to_numpy(), load(plain).transform(X))


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-P", "-m", "tacit", "release", *map(str, arguments)],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}, **options,
    )  # fmt: skip


def test_the_command_line(plain, tmp_path):
    X = table(300, seed=1)[0]
    source = written(X, tmp_path / "in.csv")
    bundle = tmp_path / "b.tacit"
    bundle.write_bytes(plain.read_bytes())
    assert "Public key" in command("key", "signing", tmp_path / "me").stdout
    refused = command("apply", bundle, source, tmp_path / "out.csv", "--trusted-key", tmp_path / "me.pub")
    assert refused.returncode == 2
    assert "is not signed" in refused.stderr
    assert command("sign", bundle, "--signing-key", tmp_path / "me").returncode == 0
    assert "is whole and signed" in command("verify", bundle, "--trusted-key", tmp_path / "me.pub").stdout
    done = command("apply", bundle, source, tmp_path / "out.csv", "--trusted-key", tmp_path / "me.pub")
    assert "Released 300 of 300 rows" in done.stdout, done.stderr
    assert readback(tmp_path / "out.csv") == pytest.approx(load(plain).transform(X), abs=1e-12)
    lines = command("stream", bundle, input='{"age": 30, "job": "cook", "pay": 1, "owner": true}\nnonsense\n')
    assert [list(json.loads(line)) for line in lines.stdout.splitlines()] == [["release"], ["error", "line"]]
    assert "1 records released, 1 refused" in lines.stderr
    assert "takes: age (number), job (category)" in command("show", bundle).stdout


def test_audit_reads_a_bundle(plain, tmp_path):
    X, y, s = table(200, seed=9)
    X.assign(y=y, s=s).to_csv(tmp_path / "fresh.csv", index=False)
    arguments = ["audit", str(plain), "--data", str(tmp_path / "fresh.csv"), "--target", "y", "--sensitive", "s"]
    done = CliRunner().invoke(app, [*arguments, "--attackers", "logistic", "--out", str(tmp_path / "o")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "o" / "audit.json").read_text())
    assert found["name"] == "plain.tacit"
    # control: the job is the target, so the bundle's release tells it
    assert found["utility"]["y"]["accuracy"]["value"] > 0.9


@pytest.mark.slow
def test_fit_writes_a_bundle_and_audit_reads_it(tmp_path):
    X, y, s = table(600)
    X.assign(y=y, s=s).to_csv(tmp_path / "t.csv", index=False)
    roles = ("--target", "y", "--sensitive", "s")
    fit = [sys.executable, "-P", "-m", "tacit", "fit", str(tmp_path / "t.csv"), *roles, "--out", str(tmp_path / "o")]
    out = subprocess.run([*fit, "--filter", "eigan"], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    fresh, labels, secret = table(600, seed=9)
    fresh.assign(y=labels, s=secret).to_csv(tmp_path / "fresh.csv", index=False)
    audit = [sys.executable, "-P", "-m", "tacit", "audit", str(tmp_path / "o" / "filter.tacit"), "--data",
             str(tmp_path / "fresh.csv"), *roles]  # fmt: skip
    out = subprocess.run(audit, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert "filter.tacit" in out.stdout
    # under the key of the fit the bundle draws as the filter did, so that no row is released twice with other noise
    whole = pd.read_parquet(tmp_path / "o" / "release.parquet").to_numpy()
    (key,) = (tmp_path / "o-keys").glob("*.noise.key")
    again = load(tmp_path / "o" / "filter.tacit", noise_key=key).transform(X)
    assert (np.abs(whole - again) < 1e-6).all(axis=1).mean() > 0.4  # half of the rows were not in the fit


def test_records_are_encoded_without_the_rest_of_the_graph(folder):
    """What names the draws is asked for first: the networks behind it must not run for that."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=300)
    X = pd.DataFrame({"height": 165 + 12 * s + rng.integers(-9, 9, 300), "eyes": rng.choice(["blue", "brown"], 300)})
    f = tacit.CouplingFilter(random_state=0).fit(X, sensitive_features=pd.Series(s, name="s"))
    release = load(tacit.save(f, folder / "encoded.tacit"), noise_key=b"k" * 32)
    taken = [i.name for i in release._encoder.get_inputs()], [o.name for o in release._encoder.get_outputs()]
    assert taken == (["numbers", "texts"], ["encoded"])  # no noise, and no release
    whole = {i.name for i in release._session.get_inputs()}
    assert whole == {"numbers", "texts", "noise"}
    names = f.mechanism_.draw_names(X)
    assert release.draw_names(X.assign(s=s)) == names
    assert len(set(names)) == len(X)


def test_a_list_of_words_and_truths_keeps_both():
    """Numpy makes words of all of them, and "True" is not a number."""
    values, problems = numbers("n", ["5", True])
    assert values.tolist() == [5.0, 1.0]
    assert not problems
    with_gap, problems = numbers("n", ["5", True, None])
    assert with_gap[:2].tolist() == [5.0, 1.0]
    assert np.isnan(with_gap[2])
    assert not problems
