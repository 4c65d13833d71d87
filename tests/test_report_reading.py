"""A report comes back from its JSON as it was, also from bundles."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import KBinsDiscretizer

import tacit
from tacit.errors import InputError
from tacit.report.certificates import AnyCertificate, Certificate, GaussianCertificate, LocalPrivacyCertificate
from tacit.report.report import SCHEMA, Report
from tacit.report.results import Measure, Result

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

KINDS = {
    "finite": Certificate,
    "gaussian": GaussianCertificate,
    "local privacy": LocalPrivacyCertificate,
    "raw": None,
    "everything": Certificate,
}


def people(n: int = 900, units: bool = False) -> tacit.Dataset:
    rng = np.random.default_rng(0)
    who = np.arange(n) // 3 if units else np.arange(n)
    s, t = rng.integers(2, size=n)[who], rng.integers(2, size=n)
    X = pd.DataFrame({"a": t + rng.normal(size=n), "b": s + rng.normal(size=n)})
    sensitive = pd.DataFrame({"s": s.astype(float), "age": rng.integers(3, size=n)[who]})
    sensitive.loc[::7, "s"] = np.nan
    return tacit.Dataset(X, pd.DataFrame({"t": t}), sensitive, units=who if units else "rows", name="people")


@pytest.fixture(scope="module")
def made():
    """By kind, a report and the filter it is of."""
    train, attack, test = people().split(random_state=0)

    def of(f, **options):
        f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
        return tacit.audit(f, attack, test, attackers="logistic", **options), f

    found = {
        "finite": of(tacit.CodebookFilter(4, random_state=0)),
        "gaussian": of(tacit.MinimaxFilter(1, noise=3.0, max_iter=2, random_state=0), measurements="no-baseline"),
        "local privacy": of(tacit.baselines.LaplaceMechanism(epsilon=1.0, random_state=0), measurements="no-baseline"),
        "raw": (
            tacit.audit(
                None, attack, test, attackers="logistic", measurements=["auto", "other_columns", "reconstruction"]
            ),
            None,
        ),
    }
    train, attack, test = people(units=True).split(random_state=0)
    raw = found["raw"][0]
    found["raw"] = replace(raw, examples=(([[0.5, 1.0]], None, [[0.25, 0.75]]),)), None
    options = {"measurements": "no-baseline", "options": tacit.AuditOptions(train=train, groups=("a",))}
    coarse = KBinsDiscretizer(2, encode="ordinal").fit(train.X)
    found["everything"] = tacit.audit(coarse, attack, test, attackers="logistic", **options), None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_comes_back_as_it_was(made, kind):
    report, _ = made[kind]
    back = Report.from_json(report.to_json())
    assert repr(back) == repr(report)  # NaN is NaN, tuples are tuples, certificates are of their kind
    assert back.to_dict() == report.to_dict()
    assert str(back) == str(report)
    assert {type(c) for c in back.certificate.values() if c is not None} <= {KINDS[kind]}
    assert (KINDS[kind] is None) == all(c is None for c in back.certificate.values())


def test_the_reports_have_what_must_come_back(made):
    """The control: nothing above came back only because it was empty."""
    full, raw = made["everything"][0], made["raw"][0]
    assert all((full.in_sample, full.attacks, full.detectable, full.exposure, full.groups))
    assert all((raw.label_only, raw.limit, raw.findings, raw.examples))


def test_nan_is_none_in_json_and_nan_again(made):
    report, _ = made["finite"]
    told = report.to_dict()
    told["leakage"]["s"]["auc"] = {"value": None, "low": None, "high": None, "guessing": 0.5}
    auc = Report.from_dict(json.loads(json.dumps(told))).leakage["s"].auc
    assert math.isnan(auc.value)
    assert auc.guessing == 0.5


def test_a_bundle_carries_a_report(made, tmp_path):
    report, f = made["finite"]
    release = tacit.load(tacit.save(f, tmp_path / "x.tacit", report))
    assert repr(release.report) == repr(report)
    release.report.require(leakage={"s": 1.0})
    assert tacit.load(tacit.save(f, tmp_path / "y.tacit")).report is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({"schema": other}, "schema 1") for other in (SCHEMA - 1, SCHEMA + 1, 3, True)),
        ({"schema": None}, "schema 1"),
        ({"leakage": []}, "report, leakage: expected Mapping"),
        ({"leakage": {"s": {"attribute": "s"}}}, "report, leakage, s: .*missing"),
        ({"fresh": "yes"}, "report, fresh: expected bool, found 'yes'"),
        ({"certificate": {"s": {"kind": "Magic"}}}, "'Magic' is not a kind of certificate"),
        ({"notes": "in-sample"}, "report, notes"),
    ],
)
def test_what_is_not_a_report_is_refused_by_name(made, change, said):
    told = json.loads(made["finite"][0].to_json())
    with pytest.raises(InputError, match=said):
        Report.from_dict({**told, **change})


@pytest.mark.parametrize("text", ["[]", "null", "{", '{"schema": 1, "schema": 1}', "NaN"])
def test_what_is_not_the_json_of_a_report_is_refused(text):
    with pytest.raises(InputError):
        Report.from_json(text)


def test_every_certificate_explains_itself_and_is_registered():
    assert set(AnyCertificate.kinds) >= {"Certificate", "GaussianCertificate", "LocalPrivacyCertificate"}
    common = {"plugin": 0.5, "accuracy_bound": 0.7, "guessing": 0.5, "exposed": 0.1, "n": 90, "n_units": 30}
    common |= {"delta": 0.05, "candidates": 1, "per": "unit", "n_classes": 2, "absent": 0, "unseen_mass": 0.1}
    noisy = {"null_plugin": 0.7, "draws": 9, "sigma": 1.0}
    for c, word, useless in (
        (Certificate(bound=0.6, **common, cells=4, smallest_cell=7), "the rarest of 4 releases", None),
        (Certificate(bound=1.0, **common, cells=4, smallest_cell=7), "10.0% named", "too few units"),
        (GaussianCertificate(bound=0.6, **common, **noisy, vacuous=False), "10.0% named", None),
        (GaussianCertificate(bound=0.6, **common, **noisy, vacuous=True), "plain", "vacuous"),
        (LocalPrivacyCertificate(bound=0.6, **common, epsilon=0.4), "epsilon 0.4", None),
        (LocalPrivacyCertificate(bound=0.995, **common, epsilon=9), "epsilon 9", "Lower epsilon"),
    ):
        assert word in c.explain("95 %")
        assert "(95 %), for the average person" in c.explain("95 %")
        assert c.useless() is None if useless is None else useless in c.useless()
        assert AnyCertificate.from_dict(json.loads(json.dumps(c.to_dict()))) == c


def test_a_headline_names_one_of_two_measures():
    m = Measure(0.5, 0.4, 0.6, 0.5)
    told = Result("s", "balanced_accuracy", "logistic", Measure(0.9, 0.8, 1.0, 0.5), m, m, 10, 10)
    assert told.measure == m
    assert told.value == 0.5


def test_a_device_reads_the_report_of_a_bundle(made, tmp_path):
    """Devices have numpy and onnxruntime. The control: what needs pandas fails there, and says so."""
    report, f = made["finite"]
    tacit.save(f, tmp_path / "x.tacit", report)
    code = f"""
import sys
for name in ("torch", "sklearn", "pandas", "scipy", "onnx", "lightgbm", "pyarrow", "rich", "jinja2", "safetensors"):
    sys.modules[name] = None
import tacit
report = tacit.load({str(tmp_path / "x.tacit")!r}).report
report.require(leakage={{"s": 1.0}})
print(report.sentence("s"))
try:
    report.table
except ImportError as error:
    print(error.name)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [report.sentence("s"), "pandas"]
