"""A bundle's last day of use: who runs it later is warned, or refused. No test waits: the day is given."""

import datetime
import json

import numpy as np
import pytest

import tacit
from commands import tacit_command
from tacit.errors import BundleError, InputError
from tacit.release import manifest
from tacit.release.bulk import apply

DAY = datetime.date(2030, 1, 31)


def now(monkeypatch, day):
    monkeypatch.setattr(manifest, "today", lambda: day)


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    now(monkeypatch, DAY)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    np.savez(tmp_path / "raw.npz", X=X)
    f = tacit.baselines.LinearARL().fit(X, X[:, 0] > 0, sensitive_features=X[:, 1] > 0)
    return tacit.save(f, tmp_path / "f.tacit", expires="10d")


def test_dates_days_and_what_is_none(monkeypatch):
    now(monkeypatch, DAY)
    assert manifest.expiry_date("90d") == "2030-05-01"
    assert manifest.expiry_date(datetime.datetime(2031, 2, 3, 4)) == manifest.expiry_date("2031-02-03") == "2031-02-03"
    assert manifest.expiry_date(DAY) == "2030-01-31"  # the last day of use may be today
    assert manifest.expiry_date("never") is manifest.expiry_date(None) is None
    for wrong in ("soon", "2031-02-30", "-3d", "99999999d"):
        with pytest.raises(InputError, match="must be a date such as"):
            manifest.expiry_date(wrong)
    with pytest.raises(InputError, match="over already"):
        manifest.expiry_date("2030-01-30")


def test_the_last_day_is_a_day_of_use_and_the_next_is_not(bundle, monkeypatch, recwarn):
    assert tacit.load(bundle).manifest["expires"] == "2030-02-10"
    now(monkeypatch, datetime.date(2030, 2, 10))
    tacit.load(bundle, refuse_expired=True)
    assert not recwarn.list
    now(monkeypatch, datetime.date(2030, 2, 11))
    with pytest.warns(tacit.TacitWarning, match="f.tacit expired on 2030-02-10") as told:
        tacit.load(bundle)
    assert len(told) == 1
    with pytest.raises(BundleError, match="expired on 2030-02-10"):
        tacit.load(bundle, refuse_expired=True)


def test_apply_and_the_commands_warn_and_refuse(bundle, tmp_path, monkeypatch):
    source, target = tmp_path / "raw.npz", tmp_path / "out.npz"
    assert "last day of use: 2030-02-10" in tacit_command("release", "show", bundle).stdout
    now(monkeypatch, datetime.date(2031, 1, 1))
    with pytest.raises(BundleError, match="expired"):
        apply(bundle, source, target, refuse_expired=True)
    refused = tacit_command("release", "apply", bundle, source, target, "--refuse-expired")
    assert refused.returncode == 2
    assert "expired on 2030-02-10" in " ".join(refused.stderr.split())
    assert not target.exists()
    assert tacit_command("release", "stream", bundle, "--refuse-expired").returncode == 2
    warned = tacit_command("release", "apply", bundle, source, target)
    assert warned.returncode == 0
    assert " ".join(warned.stderr.split()).count("expired on 2030-02-10") == 1
    assert target.exists()


def test_a_running_service_answers_no_more_when_it_is_told_to(tmp_path, monkeypatch):
    testclient = pytest.importorskip("fastapi.testclient")
    from tacit.release.bundle import read_bundle
    from tacit.serve.app import Limits, make_app

    now(monkeypatch, DAY)
    train, data = tacit.load_dataset("quadrants", n=600).split((0.5, 0.5))
    f = tacit.baselines.LinearARL().fit(train.X, train.y, sensitive_features=train.sensitive)
    path = tacit.save(f, tmp_path / "s.tacit", analyzer=tacit.serve.fit_analyzer(f, data), expires="1d")
    body = json.dumps({"release": tacit.load(path).numbers(data.X[:2]).tolist()})
    headers = {"content-type": "application/json"}

    def asked(refuse):
        app = make_app(read_bundle(path), None, Limits(refuse_expired=refuse))
        return testclient.TestClient(app).post("/v1/analyze", content=body, headers=headers)

    assert asked(True).status_code == 200
    now(monkeypatch, datetime.date(2030, 3, 1))
    assert asked(False).status_code == 200
    late = asked(True)
    assert late.status_code == 503
    assert "expired on 2030-02-01" in late.json()["detail"]
    assert tacit_command("serve", "run", path, "--no-auth", "--refuse-expired").returncode == 2
