"""Bundles: every filter is exported, agrees with itself, and runs without the training libraries."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from onnx import TensorProto
from sklearn.base import clone
from torch import nn

import tacit
from forged import forged as forge
from tacit.errors import BundleError
from tacit.filters.registry import registered_filters
from tacit.noise.keyed import Finite
from tacit.release.bundle import read_bundle
from tacit.release.onnx import GraphBuilder
from tacit.release.saving import compare
from tacit.release.trust import check_graph

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

FILTERS = {
    f"{name}, {i}" if i else name: f
    for name, registered in registered_filters("table").items()
    for i, f in enumerate(registered.example_filters(random_state=0))
}


def people_table(n=300, seed=0):
    """Text, booleans, integers, floats and gaps."""
    rng = np.random.default_rng(seed)
    sex, rich = rng.integers(2, size=(2, n))
    job = np.where(rich + 0.5 * rng.standard_normal(n) > 0.5, "lawyer", np.where(sex == 1, "nurse", "cook"))
    return tacit.Dataset(
        pd.DataFrame(
            {
                "age": rng.integers(18, 80, n),
                "job": job,
                "height": 165 + 12 * sex + 7 * rng.standard_normal(n),
                "owner": rng.random(n) < 0.3,
                "hours": np.where(rng.random(n) < 0.2, np.nan, 30 + 10 * rich + rng.standard_normal(n)),
                "town": rng.choice(["north", "süd", "", None], n),
            }
        ),
        pd.DataFrame({"rich": rich}),
        pd.DataFrame({"sex": sex}),
    )


@pytest.fixture(scope="module")
def people():
    return people_table()


@pytest.fixture(scope="module")
def saved(people, tmp_path_factory):
    """Fitted filters and their bundles by name, made when they are first asked for."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}

    def get(name):
        if name not in made:
            y = people.y
            if getattr(FILTERS[name], "output", None) == "onehot":
                y = pd.DataFrame({"job": people.X["job"].to_numpy()})
            f = clone(FILTERS[name]).fit(people.X, y, sensitive_features=people.sensitive)
            made[name] = f, tacit.save(f, folder / f"{len(made)}.tacit")
        return made[name]

    return get


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_the_bundle_releases_what_the_filter_does(name, saved):
    f, path = saved(name)
    fresh = people_table(1200, seed=1).X
    fresh.loc[0, "job"] = "astronaut"  # unseen: "other"
    fresh.loc[1, "age"] = np.nan
    release = tacit.load(path, noise_key=f.noise_key)
    ours, theirs = f.transform(fresh), release.transform(fresh)
    if isinstance(ours, pd.DataFrame):
        assert theirs.equals(ours)
        return
    assert theirs.dtype == np.float64
    assert theirs.shape == ours.shape
    if isinstance(f.mechanism_.support, Finite):
        assert (theirs == ours).all(axis=1).mean() >= 0.999
    else:
        noise = f.mechanism_.noise
        step = 0 if noise is None else 2.0**-12 * noise.scale  # a noisy sum is rounded to a grid
        apart = np.abs(theirs - ours) - 1e-5 * np.abs(ours).max(axis=0)
        assert (apart <= step * 1.001).all()
        assert (apart <= 0).mean() > 0.99
    # in the bits, too: the sign of a zero could be read
    assert not np.signbit(theirs[theirs == 0]).any()


RUN_ALONE = """
import json, sys
import numpy as np
import onnxruntime
from tacit.release.runtime import load
import warnings; warnings.simplefilter("ignore")
records = {k: [None if v != v else v for v in c] for k, c in json.load(open(sys.argv[1])).items()}
for path in sys.argv[2:]:
    out = load(path, noise_key=b"k" * 32, trust=True).transform(records)
    assert len(out) == 5, path
heavy = [m for m in ("torch", "sklearn", "pandas", "scipy", "onnx", "lightgbm", "pyarrow") if m in sys.modules]
print(heavy)
"""


@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_bundles_run_without_the_training_libraries(saved, people, tmp_path):
    paths = [str(saved(name)[1]) for name in FILTERS]
    (tmp_path / "records.json").write_text(json.dumps(people.X.head().to_dict(orient="list")))
    arguments = [sys.executable, "-c", RUN_ALONE, str(tmp_path / "records.json"), *paths]
    out = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "[]", out.stderr


def test_a_wrong_export_is_not_written(people, saved, tmp_path, monkeypatch):
    f = tacit.baselines.LinearARL().fit(people.X, people.y, sensitive_features=people.sensitive)
    assert compare(f, tacit.load(tacit.save(f, tmp_path / "right.tacit"))) < 1e-12
    good = type(f.code_).graph
    wrong = lambda self, g, x: g.op("Mul", good(self, g, x), g.number(1.00002))  # noqa: E731
    monkeypatch.setattr(type(f.code_), "graph", wrong)
    with pytest.raises(tacit.TacitError, match=r"differs from the filter by 2\.0e-05"):
        tacit.save(f, tmp_path / "wrong.tacit")
    codebook, _ = saved("codebook")
    width = len(codebook.get_feature_names_out())
    monkeypatch.setattr(type(codebook.mechanism_.code), "graph", lambda self, g, x: g.columns(x, [0] * width))
    with pytest.raises(tacit.TacitError, match="agrees with the filter on 0"):
        tacit.save(codebook, tmp_path / "wrong.tacit")
    assert sorted(os.listdir(tmp_path)) == ["right.tacit"]


def test_what_cannot_be_saved_says_why(people, tmp_path):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression

    nystroem = tacit.baselines.KernelARL(features=Nystroem(n_components=5))
    nystroem.fit(people.X, people.y, sensitive_features=people.sensitive)
    with pytest.raises(tacit.TacitError, match=r"hold some of them, which must not travel"):
        tacit.save(nystroem, tmp_path / "x.tacit")
    label = tacit.baselines.LabelOnly(LogisticRegression(), n_folds=2).fit(people.X, people.y)
    with pytest.raises(tacit.TacitError, match="LogisticRegression cannot be saved"):
        tacit.save(label, tmp_path / "x.tacit")
    with pytest.raises(tacit.TacitError, match=r"NAME\.tacit"):
        tacit.save(label, tmp_path / "x.zip")
    with pytest.raises(tacit.TacitError, match="only Tacit's filters"):
        tacit.save(LogisticRegression(), tmp_path / "x.tacit")
    assert not os.listdir(tmp_path)


def test_scikit_learns_boosted_trees_are_exported_too(people, tmp_path):
    """Where LightGBM is not installed."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    for y in (people.y, pd.DataFrame({"job": people.X["job"].to_numpy()})):
        f = tacit.baselines.LabelOnly(HistGradientBoostingClassifier(max_iter=5), n_folds=2).fit(people.X, y)
        assert compare(f, tacit.load(tacit.save(f, tmp_path / "x.tacit"))) <= 0.001


@pytest.mark.parametrize("shape", [(3, 8), (1, 5, 6)])
def test_windows_and_images(shape, tmp_path):
    rng = np.random.default_rng(0)
    X, y, s = rng.standard_normal((200, *shape)) * 3 + 50, rng.integers(2, size=200), rng.integers(2, size=200)
    X[..., 0] += y.reshape(-1, *[1] * (len(shape) - 1))
    for f in (
        tacit.MinimaxFilter(2, max_iter=2, random_state=0),
        tacit.CodebookFilter(4, epochs=1, random_state=0),
        tacit.baselines.LinearEraser(),
        tacit.baselines.LaplaceMechanism(),
    ):
        f.fit(X, y, sensitive_features=s)
        release = tacit.load(tacit.save(f, tmp_path / "x.tacit"), noise_key=f.noise_key)
        assert np.abs(release.transform(X) - f.transform(X)).max() <= 1e-5 * np.abs(f.transform(X)).max()


@pytest.mark.parametrize(
    "f",
    [
        tacit.DPFE(n_components=4, epochs=1, random_state=0),
        tacit.DPFE(n_components=4, epochs=1, noise_ratio=0.5, random_state=0),
        tacit.AnonymizingAutoencoder(epochs=1, n_maps=8, regularizers=("wide",), random_state=0),
        tacit.AnonymizingAutoencoder(epochs=1, noise=0.5, n_maps=8, regularizers=("wide",), random_state=0),
        tacit.AnonymizingAutoencoder(epochs=1, codes=4, random_state=0),
        tacit.TaskMask(keep=0.25, epochs=1, random_state=0),
    ],
    ids=["DPFE", "DPFE, noise", "autoencoder", "autoencoder, noise", "autoencoder, codes", "mask"],
)
@pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
def test_deep_filters_release_what_their_bundles_do(f, tmp_path):
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 80))
    shape = {tacit.DPFE: (20,), tacit.AnonymizingAutoencoder: (3, 32), tacit.TaskMask: (1, 16, 16)}[type(f)]
    X = rng.standard_normal((80, *shape)) + y.reshape(-1, *[1] * len(shape))
    f = clone(f).fit(X, y, sensitive_features=s)
    release = tacit.load(tacit.save(f, tmp_path / "x.tacit"), noise_key=f.noise_key)
    ours, theirs = f.transform(X), release.transform(X)
    same = (np.abs(ours - theirs) <= 1e-5 * np.abs(ours).max()).reshape(80, -1).all(axis=1)
    assert same.mean() >= (0.98 if isinstance(f.mechanism_.support, Finite) else 1.0)


class Masker(nn.Module):
    """What deep filters are made of: convolutions, norms, pools, skips, a code on a ball, the largest quarter kept."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU())
        self.up, self.plain_up = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.Conv2d(16, 3, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.down(a)
        score = torch.sigmoid(self.last(torch.cat([a + self.plain_up(b), self.up(b)], 1))).flatten(1)
        keep = score >= torch.topk(score, score.shape[1] // 4, dim=1).values[:, -1:]
        code = x.flatten(1) * keep
        return (code / code.norm(dim=1, keepdim=True).clamp_min(1.0)).view_as(x)


def test_deep_networks_are_exported():
    torch.manual_seed(0)
    net = Masker().double().eval()
    net.first[1].running_mean += 0.3
    g = GraphBuilder()
    g.output(g.torch(net, g.input("X", TensorProto.DOUBLE, (3, 8, 8)), "net"), "release")
    model = g.build()
    check_graph(model)
    X = np.random.default_rng(0).standard_normal((200, 3, 8, 8))
    found = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"X": X})[0]
    with torch.no_grad():
        expected = net(torch.from_numpy(X)).numpy()
    same = ((found == 0) == (expected == 0)).reshape(200, -1).all(axis=1)
    assert same.mean() >= 0.99  # the mask, apart from the numbers
    assert np.abs(found - expected)[same].max() < 1e-5
    assert 0.2 < (found != 0).mean() < 0.3
    assert g.weights["net.first.0.weight"].dtype == np.float64


def test_nothing_of_a_training_row_is_in_the_bundle(tmp_path):
    """Rare categories, exact extremes and row fingerprints would each show one person."""
    rng = np.random.default_rng(0)
    n = 400
    income = np.round(rng.lognormal(10, 0.5, n), 2)
    job = rng.choice(["nurse", "cook"], n).astype(object)
    job[7] = "king"
    y = rng.integers(2, size=n)
    f = tacit.CodebookFilter(4, n_folds=2, random_state=0).fit(pd.DataFrame({"income": income, "job": job}), y)
    path = tacit.save(f, tmp_path / "x.tacit")
    content = path.read_bytes()
    assert b"nurse" in content
    assert b"king" not in content
    manifest = json.dumps(read_bundle(path).manifest)
    for extreme in (income.min(), income.max()):
        assert repr(float(extreme)) not in manifest
    low, high = read_bundle(path).manifest["input"]["columns"][0]["range"]
    assert (income >= high).sum() < 10  # outwards from where ten people lie beyond
    assert low <= np.sort(income)[9]
    assert high >= np.sort(income)[-10]
    assert all(print_.tobytes() not in content for print_ in f.mechanism_.memory.prints)


def test_the_card_and_the_audit_travel(people, tmp_path):
    fresh = people_table(600, seed=2).split((0.5, 0.5), random_state=0)
    f = tacit.baselines.LinearARL().fit(people.X, people.y, sensitive_features=people.sensitive)
    report = tacit.audit(f, *fresh, attackers="logistic", measurements="no-baseline")
    release = tacit.load(tacit.save(f, tmp_path / "x.tacit", report))
    assert release.audit["leakage"]["sex"]["attacker"] == "logistic"
    assert report.to_markdown() in release.card
    assert tacit.load(tacit.save(f, tmp_path / "y.tacit")).audit is None
    again = tacit.audit(release, *fresh, attackers="logistic", measurements="no-baseline")
    assert again.leakage["sex"].value == pytest.approx(report.leakage["sex"].value, abs=1e-9)
    assert set(release.weights()) >= {"mean", "directions"}


def test_saving_twice_gives_the_same_bytes(saved, tmp_path):
    f, path = saved("codebook")
    assert tacit.save(f, tmp_path / path.name).read_bytes() == path.read_bytes()


# -- strangers' files ---------------------------------------------------------------------------


@pytest.fixture
def small(people, tmp_path):
    f = tacit.baselines.LinearARL().fit(people.X, people.y, sensitive_features=people.sensitive)
    return tacit.save(f, tmp_path / "small.tacit")


def forged(path, tmp_path, **changes):
    """A bundle whose hashes are right but whose content was changed."""
    return forge(path, tmp_path / "forged.tacit", **changes)


def test_damage_is_noticed(small, tmp_path):
    data = bytearray(small.read_bytes())
    at = data.index(b"encoder.mean")
    data[at] ^= 1
    (tmp_path / "bad.tacit").write_bytes(data)
    with pytest.raises(BundleError, match="damaged"):
        tacit.load(tmp_path / "bad.tacit")
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        (tmp_path / "bad.tacit").write_bytes(small.read_bytes()[:cut])
        with pytest.raises(BundleError):
            tacit.load(tmp_path / "bad.tacit")
    (tmp_path / "bad.tacit").write_bytes(small.read_bytes() + b"more")
    with pytest.raises(BundleError):
        tacit.load(tmp_path / "bad.tacit")


def rezip(path, out, change=lambda infos: infos, compress=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path) as old:
        members = [(i.filename, old.read(i)) for i in old.infolist()]
    with zipfile.ZipFile(out, "w", compress) as new:
        for name, data in change(members):
            new.writestr(name, data)
    return out


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda m: [*m, ("../outside.txt", b"x")], "member '../outside.txt'"),
        (lambda m: [*m, ("/etc/outside", b"x")], "member '/etc/outside'"),
        (lambda m: [*m, ("code.py", b"x")], "member 'code.py'"),
        (lambda m: [*m, *[(f"{i}", b"") for i in range(50)]], "unusual zip directory"),
        (lambda m: m[1:], "has no manifest.json"),
        (lambda m: [(n, b"[" * 100_000 if n == "manifest.json" else d) for n, d in m], "cannot be read as JSON"),
        (lambda m: [(n, b"[]" if n == "manifest.json" else d) for n, d in m], "not an object"),
    ],
)
def test_odd_archives_are_refused(change, message, small, tmp_path):
    with pytest.raises(BundleError, match=message):
        tacit.load(rezip(small, tmp_path / "odd.tacit", change), trust=True)
    assert sorted(os.listdir(tmp_path)) == ["odd.tacit", "small.tacit"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bombs_and_doubles_are_refused(small, tmp_path):
    with pytest.raises(BundleError, match="compressed"):
        tacit.load(rezip(small, tmp_path / "x.tacit", compress=zipfile.ZIP_DEFLATED))
    with pytest.raises(BundleError, match="two members"):
        tacit.load(rezip(small, tmp_path / "x.tacit", lambda m: [*m[:-1], m[0]]))
    # entries that claim more than there is
    data = bytearray(small.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 20 : at + 28] = struct.pack("<LL", 2**23, 2**23)
    (tmp_path / "x.tacit").write_bytes(data)
    with pytest.raises(BundleError, match="overlap"):
        tacit.load(tmp_path / "x.tacit")
    with open(tmp_path / "huge.tacit", "wb") as file:
        file.truncate(2**33)  # sparse: it takes no room
    with pytest.raises(BundleError, match="at most"):
        tacit.load(tmp_path / "huge.tacit")


def changed(path, value):
    """A manifest with one value replaced; None removes it."""

    def change(manifest):
        manifest = json.loads(json.dumps(manifest))
        at = manifest
        for key in path[:-1]:
            at = at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return manifest

    return change


@pytest.mark.parametrize(
    "path, value, message",
    [
        (["format"], 7, "format 7, this Tacit reads format 1"),
        (["record_bytes"], 0, "out of range"),
        (["expires"], "2027-02-30", "expires is not a day"),
        (["expires"], "soon", "expires is not a day"),
        (["expires"], 20270201, "expires is not a day"),
        (["analyzer"], {"targets": []}, "analyzer.targets"),
        (["output", "codes"], 2.5, "out of range"),
        (["format"], "1", "no format version"),
        (["format"], True, "no format version"),
        (["code"], "print()", "unknown field 'code'"),
        (["input"], None, "lacks the field 'input'"),
        (["input", "columns", 0, "kind"], "date", "no known kind"),
        (["input", "columns", 1, "categories"], ["a", "a"], "one name twice"),
        (["input", "columns", 0, "range"], [0, 1e301], "not a usable number"),
        (["output", "shape"], [-1], "out of range"),
        (["output", "shape"], [2**24, 2**24], "too large"),
        (["output", "names"], ["a", "b", "c"], "3 names for 1 numbers"),
        (["noise"], {"distribution": "none"}, "noise"),
        (["fingerprint"], "x" * 64, "unknown field 'fingerprint'"),
        (["sketch", "entries"], "no base64!", "sketch.entries is not base64"),
        (["sketch", "looks"], [[1]], "holds more than pairs"),
        (["min_people"], 0, "out of range"),
    ],
)
def test_forged_manifests_are_refused(path, value, message, small, tmp_path):
    with pytest.raises(BundleError, match=message):
        tacit.load(forged(small, tmp_path, manifest=changed(path, value)))


NOTHING = {"meaning": "", "table": None, "codes": None, "types": None, "carried": {}}


def test_a_graph_that_is_not_what_the_manifest_says_is_refused(small, saved, tmp_path, people):
    lying = forged(
        small,
        tmp_path,
        manifest=changed(["output"], {**NOTHING, "shape": [2], "names": ["a", "b"]}),
    )
    with pytest.raises(BundleError, match=r"the graph gives .* its manifest says"):
        tacit.load(lying).transform(people.X)
    fewer = forged(
        small, tmp_path, manifest=lambda m: m | {"input": {**m["input"], "columns": m["input"]["columns"][:1]}}
    )
    with pytest.raises(BundleError, match=r"model.onnx takes .* the manifest says"):
        tacit.load(fewer)
    _, path = saved("laplace")
    loose = forged(path, tmp_path, manifest=changed(["noise", "radius"], 0.1))
    with pytest.raises(BundleError, match="leaves the ball"):
        tacit.load(loose, noise_key=b"k" * 32).transform(people.X)
    heading = (2**40).to_bytes(8, "little")
    with pytest.raises(BundleError, match="weights"):
        tacit.load(forged(small, tmp_path, weights_safetensors=heading + b"{}")).weights()


def test_a_filter_that_learns_nothing_says_so(tmp_path):
    f = tacit.baselines.Resample(25, 50).fit(np.zeros((4, 2, 50)))
    with pytest.raises(tacit.TacitError, match="Resample learns nothing"):
        tacit.save(f, tmp_path / "f.tacit")


def test_records_unlike_those_of_the_fit_are_noted_once(saved, people):
    _, path = saved("codebook")
    release = tacit.load(path)
    odd = people.X.assign(**{people.X.select_dtypes("number").columns[0]: 1e9})
    with pytest.warns(tacit.TacitWarning, match="far outside the fit"):
        release.transform(odd)
    assert sum(release.unusual(odd).values()) >= len(odd)
