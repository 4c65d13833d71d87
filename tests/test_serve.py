"""The service: who may ask, what it takes, what it refuses, and that it forgets."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import ipaddress
import itertools
import json
import logging
import os
import signal
import stat
import struct
import threading
import time
from pathlib import Path
from unittest import mock

import httpx
import numpy as np
import pandas as pd
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tacit
from commands import tacit_command
from service import running
from tacit.errors import InputError
from tacit.release.answer import Answerer
from tacit.release.bundle import read_bundle
from tacit.serve.app import Limits, make_app
from tacit.serve.client import Client, ServiceError
from tacit.serve.keys import KeyFile, add_key, read_keys, revoke_key

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

SMALL = Limits(max_bytes=4096, max_rows=20, in_flight=4, body_seconds=60.0)
MARKER = 424242.0625  # a value that must never be seen again


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    sex, rich = rng.integers(2, size=(2, n))
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": np.where(rich + 0.4 * rng.standard_normal(n) > 0.5, "lawyer", np.where(sex == 1, "nurse", "cook")),
            "hours": np.where(rng.random(n) < 0.2, np.nan, 30 + 10 * rich + rng.standard_normal(n)),
        }
    )
    return tacit.Dataset(X, {"rich": np.where(rich, "yes", "no")}, {"sex": sex})


@pytest.fixture(scope="module")
def parts():
    return people().split((0.5, 0.3, 0.2), random_state=0)


@pytest.fixture(scope="module")
def saved(parts, tmp_path_factory):
    """A bundle of two numbers a release, with its analyzer."""
    train, rest, _ = parts
    f = tacit.EIGAN(n_components=2, epochs=15, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    analyzer = tacit.serve.fit_analyzer(f, rest)
    return tacit.save(f, tmp_path_factory.mktemp("serve") / "people.tacit", analyzer=analyzer), f, analyzer


@pytest.fixture(scope="module")
def bundle(saved):
    return read_bundle(saved[0])


@pytest.fixture
def keys(tmp_path):
    return tmp_path / "keys.json"


def ask(app, *requests):
    """Responses of an app, without a network."""

    async def go():
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return [await client.request(method, path, **more) for method, path, more in requests]

    return asyncio.run(go())


def post(app, headers=None, **body):
    return ask(app, ("POST", "/v1/analyze", {"headers": headers, **body}))[0]


# -- the analyzer -----------------------------------------------------------------------------------


def test_an_analyzer_is_better_than_guessing_and_says_so(saved, parts):
    path, _, analyzer = saved
    assert analyzer.accuracy["rich"] > analyzer.guessing["rich"] + 0.1
    assert "guessing" in str(analyzer)
    fresh = parts[2]
    answer = Answerer(read_bundle(path)).answer(tacit.load(path).transform(fresh.X))
    right = np.mean(np.array(answer["answers"]["rich"]["label"]) == fresh.y["rich"])
    assert abs(right - analyzer.accuracy["rich"]) < 0.2


def test_an_analyzer_refuses_rows_of_the_fit(saved, parts):
    with pytest.raises(InputError, match="was fitted on 300 of these 300 rows"):
        tacit.serve.fit_analyzer(saved[1], parts[0])


@pytest.mark.parametrize("settings", [{"output": "code"}, {"decode": True}])
def test_codes_are_checked_by_their_number(settings, parts, tmp_path):
    train, rest, fresh = parts
    f = tacit.CodebookFilter(n_codes=4, n_folds=2, random_state=0, **settings)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    path = tacit.save(f, tmp_path / "codes.tacit", analyzer=tacit.serve.fit_analyzer(f, rest, epochs=10))
    codes = tacit.load(path).numbers(fresh.X)
    app = make_app(read_bundle(path), None)
    assert post(app, json={"release": codes.tolist()}).json()["rows"] == len(fresh)
    for bad in (-1, f.n_codes_, 0.5):
        found = post(app, json={"release": [[0], [bad]]})
        assert found.status_code == 422
        assert found.json()["detail"].startswith(
            f"release 1: releases of this bundle are whole numbers from 0 to {f.n_codes_ - 1}"
        )


def test_dpfe_brings_its_own_cloud_half(parts, tmp_path):
    train, _, fresh = parts
    f = tacit.DPFE(n_components=2, epochs=2, backbone_epochs=2, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    path = tacit.save(f, tmp_path / "dpfe.tacit", analyzer=True)
    Z = tacit.load(path).transform(fresh.X)
    found = post(
        make_app(read_bundle(path), None),
        content=Z.astype("<f8").tobytes(),
        headers={"content-type": "application/octet-stream"},
    )
    answer = found.json()["answers"]["rich"]
    assert answer["probabilities"] == pytest.approx(f.answer_proba(Z)["rich"], abs=1e-5)
    assert answer["label"] == f.answer(Z)["rich"].tolist()


def test_who_has_no_cloud_half_says_so(saved, tmp_path):
    with pytest.raises(InputError, match="EIGAN has no cloud half of its own"):
        tacit.save(saved[1], tmp_path / "x.tacit", analyzer=True)
    tacit.save(saved[1], tmp_path / "x.tacit")
    with pytest.raises(InputError, match="has no analyzer, so a service could not answer"):
        make_app(read_bundle(tmp_path / "x.tacit"), None)


# -- answers ----------------------------------------------------------------------------------------


def test_answers_are_the_analyzers_own_in_order(saved, bundle, parts):
    _, f, analyzer = saved
    Z = f.transform(parts[2].X)[:50]
    expected = analyzer.probabilities(Z)
    app = make_app(bundle, None)
    as_json = post(app, json={"release": Z.tolist()}).json()
    as_bytes = post(app, content=Z.astype("<f8").tobytes(), headers={"content-type": "application/octet-stream"}).json()
    assert as_json == as_bytes
    assert as_json["answers"]["rich"]["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert as_json["answers"]["rich"]["label"] == [("no", "yes")[i] for i in expected.argmax(axis=1)]


def test_the_public_description(bundle):
    health, about, model, schema = ask(
        make_app(bundle, None),
        *(("GET", p, {}) for p in ("/health", "/v1/bundle", "/v1/bundle/model.onnx", "/openapi.json")),
    )
    assert health.json()["status"] == "ok"
    assert about.json()["output"] == bundle.manifest["output"]
    assert hashlib.sha256(model.content).hexdigest() == health.json()["model"] == about.json()["model"]["sha256"]
    assert "/v1/analyze" in schema.json()["paths"]
    assert model.headers["content-security-policy"].startswith("default-src 'none'")


def test_samples_fit_the_schema_and_are_no_training_rows(saved, bundle, parts):
    samples = ask(make_app(bundle, None), ("GET", "/v1/bundle", {}))[0].json()["samples"]
    release = tacit.load(saved[0])
    columns = {name: [s[name] for s in samples] for name in samples[0]}
    assert len(release.transform(columns)) == len(samples) > 1
    assert not saved[1].seen(pd.DataFrame(columns)[list(parts[0].X.columns)]).any()


# -- who may ask ------------------------------------------------------------------------------------


def test_keys_are_hashed_at_rest_and_revoked_at_once(bundle, keys):
    key, other = add_key(keys, "clinic"), add_key(keys, "lab")
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert key not in keys.read_text()
    assert [e["name"] for e in read_keys(keys)] == ["clinic", "lab"]
    with pytest.raises(InputError, match="has a key called 'lab'"):
        add_key(keys, "lab")
    app = make_app(bundle, KeyFile(keys))
    body = {"json": {"release": [[0.0, 0.0]]}}

    def status(authorization=None):
        return post(app, {"authorization": authorization} if authorization else None, **body).status_code

    assert status(f"Bearer {key}") == status(f"bearer {other}") == 200
    wrong = [None, "Bearer", "Bearer ", f"Bearer {key}x", f"Bearer {key[:-1]}", f"Basic {key}", key]
    wrong.append(f"Bearer {hashlib.sha256(key.encode()).hexdigest()}")
    assert {status(w) for w in wrong} == {401}
    revoke_key(keys, "clinic")
    assert status(f"Bearer {key}") == 401
    assert status(f"Bearer {other}") == 200
    keys.write_text("{}")
    assert status(f"Bearer {other}") == 503  # closed, not open
    keys.unlink()
    assert status(f"Bearer {other}") == 503


def test_wrong_keys_are_refused_before_the_body_is_read(bundle, keys):
    add_key(keys, "clinic")
    found = post(make_app(bundle, KeyFile(keys), SMALL), content=b"x" * 10**6)
    assert found.status_code == 401


def test_an_open_service_is_refused(saved, keys, tmp_path):
    path = saved[0]
    add_key(keys, "clinic")
    for arguments, message in [
        ([], "a service needs keys"),
        (["--host", "0.0.0.0"], "a service needs keys"),
        (["--host", "0.0.0.0", "--no-auth"], "--no-auth is for loopback"),
        (["--keys", keys, "--no-auth"], "contradict"),
        (["--keys", tmp_path / "none.json"], "there is no keys file"),
        (["--keys", keys, "--tls-cert", keys], "needs both"),
    ]:
        with mock.patch("uvicorn.Server.run", side_effect=AssertionError("it serves")):
            ran = tacit_command("serve", path, *arguments)
        assert ran.returncode == 2, ran.stderr
        assert message in " ".join(ran.stderr.split())


def test_the_commands_of_keys(keys):
    key = tacit_command("keys", "add", keys, "clinic").stdout.strip()
    assert KeyFile(keys).name_of(key) == "clinic"
    assert tacit_command("keys", "list", keys).stdout.split()[-1] == "clinic"
    assert tacit_command("keys", "revoke", keys, "clinic").returncode == 0
    assert KeyFile(keys).name_of(key) is None
    assert "no key called 'clinic'" in " ".join(tacit_command("keys", "revoke", keys, "clinic").stderr.split())


# -- what is refused --------------------------------------------------------------------------------

BAD = {
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "NaN": b'{"release": [[NaN, 0]]}',
    "infinity": b'{"release": [[1e999, 0]]}',
    "a key twice": b'{"release": [[0, 0]], "release": [[0, 0]]}',
    "too deep": b"[" * 2000 + b"]" * 2000,
    "no object": b"[[0, 0]]",
    "nothing": b"",
    "no release": b"{}",
    "another field": b'{"release": [[0, 0]], "more": 1}',
    "empty": b'{"release": []}',
    "text": b'{"release": [["1", "2"]]}',
    "truth": b'{"release": [[true, false]]}',
    "gap": b'{"release": [[null, 0]]}',
    "ragged": b'{"release": [[0, 0], [0]]}',
    "too flat": b'{"release": [0, 0]}',
    "nested": b'{"release": [[[0], [0]]]}',
    "a huge whole number": b'{"release": [[1' + b"0" * 400 + b", 0]]}",
    "digits without end": b'{"release": [[' + b"9" * 3000 + b"e9, 0]]}",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_requests_are_422(name, bundle):
    found = post(make_app(bundle, None, SMALL), content=BAD[name], headers={"content-type": "application/json"})
    assert found.status_code == 422, found.text
    assert set(found.json()) == {"detail"}


@pytest.mark.parametrize("body", [
    {"age": [33], "job": ["cook"], "hours": [40.0]},
    [{"age": 33, "job": "cook", "hours": 40.0}],
    {"release": [{"age": 33, "job": "cook", "hours": 40.0}]},
    {"release": [[33, 1, 40.0]]},
])  # fmt: skip
def test_raw_records_are_refused_as_such(body, bundle):
    found = post(make_app(bundle, None), json=body)
    assert found.status_code == 422
    assert "takes releases only" in found.json()["detail"]


def test_bytes_of_another_length_are_refused(bundle):
    app, kind = make_app(bundle, None), {"content-type": "application/octet-stream"}
    for body in (b"", b"x" * 15, struct.pack("<2d", np.nan, 0), struct.pack("<2d", 0, -np.inf)):
        assert post(app, content=body, headers=kind).status_code == 422
    assert post(app, content=struct.pack("<2d", 1, 2), headers=kind).status_code == 200


def test_other_kinds_and_other_filters_are_refused(bundle):
    app = make_app(bundle, None)
    assert (
        post(app, content=b"release=1", headers={"content-type": "application/x-www-form-urlencoded"}).status_code
        == 415
    )
    assert post(app, json={"release": [[0, 0]]}, headers={"tacit-model": "0" * 64}).status_code == 409
    assert [
        r.status_code
        for r in ask(app, ("GET", "/v1/analyze", {}), ("GET", "/v1/../etc/passwd", {}), ("DELETE", "/", {}))
    ] == [405, 404, 405]


def test_what_is_too_large_is_not_read(bundle):
    app = make_app(bundle, None, SMALL)
    assert post(app, json={"release": [[0, 0]] * 21}).status_code == 413
    assert post(app, content=b" " * 4097, headers={"content-type": "application/json"}).status_code == 413
    taken = 0

    async def endless():
        nonlocal taken
        while True:
            taken += 1000
            yield b" " * 1000

    found = post(app, content=endless(), headers={"content-type": "application/json"})
    assert found.status_code == 413
    assert taken < 10 * SMALL.max_bytes
    assert post(app, json={"release": [[0, 0]] * 20}).status_code == 200


def test_a_body_that_does_not_arrive_times_out(bundle):
    app = make_app(bundle, None, Limits(body_seconds=0.05))

    async def stalled():
        yield b'{"release": '
        await asyncio.sleep(60)

    assert post(app, content=stalled(), headers={"content-type": "application/json"}).status_code == 408


def test_a_full_service_asks_to_come_back_and_recovers(bundle):
    app, good = make_app(bundle, None, SMALL), {"json": {"release": [[0.0, 0.0]]}}

    async def go():
        release, here = asyncio.Event(), asyncio.Semaphore(0)

        async def slow():
            here.release()
            await release.wait()
            yield b'{"release": [[0, 0]]}'

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            waiting = [
                asyncio.create_task(
                    client.post("/v1/analyze", content=slow(), headers={"content-type": "application/json"})
                )
                for _ in range(SMALL.in_flight)
            ]
            for _ in waiting:
                await here.acquire()
            refused = await client.post("/v1/analyze", **good)
            health = await client.get("/health")
            release.set()
            answered = await asyncio.gather(*waiting)
            return refused, health, answered, await client.post("/v1/analyze", **good)

    refused, health, answered, after = asyncio.run(go())
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert {r.status_code for r in (health, after, *answered)} == {200}


# -- it forgets -------------------------------------------------------------------------------------


def test_neither_answers_to_bad_requests_nor_logs_repeat_a_value(bundle, keys, caplog):
    key = add_key(keys, "clinic")
    app, open_app = make_app(bundle, KeyFile(keys), SMALL), make_app(bundle, None, SMALL)
    caplog.set_level(logging.DEBUG)
    marks = [str(MARKER), "MARKEDTEXT", key]
    words = json.dumps({"release": [[MARKER, "MARKEDTEXT"]]}).encode()
    kind = {"content-type": "application/json"}
    requests = [
        ("POST", "/v1/analyze", {"json": {"release": [[MARKER, 0.0]]}}),
        ("POST", "/v1/analyze", {"json": {"release": [[MARKER, 1e40]]}}),
        ("POST", "/v1/analyze", {"json": {"age": [MARKER], "job": ["MARKEDTEXT"]}}),
        ("POST", "/v1/analyze", {"content": words, "headers": kind}),
        ("POST", "/v1/analyze", {"content": words[:-3], "headers": kind}),
        ("POST", "/v1/analyze", {"content": b"\xff" + words, "headers": kind}),
        ("POST", "/v1/analyze", {"content": words * 200, "headers": kind}),
        ("POST", "/v1/analyze?age=424242.0625", {"content": b"MARKEDTEXT"}),
        ("GET", "/MARKEDTEXT?age=424242.0625", {}),
        ("MARKEDTEXT", "/v1/analyze", {}),
        ("POST", "/v1/analyze", {"headers": {"authorization": f"Bearer {key}MARKEDTEXT", "tacit-model": "MARKEDTEXT"}}),
    ]
    found = ask(open_app, *requests) + ask(app, *requests)
    assert {200, 401, 404, 413, 422} <= {r.status_code for r in found}
    seen = "\n".join(
        [
            *(r.text + str(r.headers) for r in found),
            *(
                r.getMessage() + str(r.exc_text or "")
                for r in caplog.records
                if r.name.startswith(("tacit", "uvicorn", "fastapi", "asyncio"))
            ),
        ]
    )
    assert "POST /v1/analyze 200 rows=1" in seen  # the control: it does log
    assert [m for m in marks if m in seen] == []


def test_a_failure_inside_tells_nothing(bundle, caplog, monkeypatch):
    monkeypatch.setattr(Answerer, "answer", lambda self, Z: 1 / 0 if Z[0, 0] == 0 else int(f"{MARKER}x"))
    caplog.set_level(logging.DEBUG)
    app = make_app(bundle, None)
    for first in (0.0, MARKER):
        found = post(app, json={"release": [[first, 0.0]]})
        assert found.status_code == 500
        assert found.json() == {"detail": "the service failed"}
    logged = "\n".join(r.getMessage() + str(r.exc_info or "") for r in caplog.records if r.name.startswith("tacit"))
    assert "ZeroDivisionError" in logged
    assert str(MARKER) not in logged


# -- a real service ---------------------------------------------------------------------------------


def test_a_killed_service_starts_again_clean(saved, keys, tmp_path, parts):
    path, f, analyzer = saved
    key, log = add_key(keys, "clinic"), tmp_path / "log"
    X = parts[2].X.head(40)
    expected = analyzer.probabilities(f.transform(X))
    with running(path, "--keys", str(keys), log=log) as (url, process):
        port = url.rsplit(":", 1)[1]
        with Client(url, tacit.load(path), key=key) as client:
            assert client.answer(X)["rich"]["probabilities"] == pytest.approx(expected, abs=1e-5)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            # at the same port; the client that lost its connection finds the new one
            with running(path, "--keys", str(keys), "--port", port, log=log) as (again, _):
                assert again == url
                assert client.answer(X)["rich"]["probabilities"] == pytest.approx(expected, abs=1e-5)
                stranger = Client(url, tacit.load(path), key="tacit_wrong")
                with stranger, pytest.raises(ServiceError, match=r"refuses \(401\)"):
                    stranger.answer(X)
    told = log.read_text()
    assert "POST /v1/analyze 200 rows=40 key=clinic" in told
    assert key not in told
    assert "Traceback" not in told


def test_tls(saved, keys, tmp_path, parts):
    key = add_key(keys, "clinic")
    cert, secret = self_signed(tmp_path)
    X = parts[2].X.head(5)
    with running(saved[0], "--keys", str(keys), "--tls-cert", str(cert), "--tls-key", str(secret)) as (url, _):
        assert url.startswith("https://")
        with Client(url, tacit.load(saved[0]), key=key, ca=cert) as client:
            assert len(client.answer(X)["rich"]["label"]) == 5
        with Client(url, tacit.load(saved[0]), key=key) as client, pytest.raises(ServiceError, match="not trusted"):
            client.answer(X)


def self_signed(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(secret, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


# -- the client -------------------------------------------------------------------------------------


def served(app, spoil=None):
    """A transport that asks an app without a network; `spoil(n)` may answer the n-th request instead."""
    count = itertools.count()
    sent = []

    def handle(request):
        sent.append(request)
        found = spoil(next(count)) if spoil else None
        if isinstance(found, Exception):
            raise found
        return found or _answered(app, request)

    return httpx.MockTransport(handle), sent


def _answered(app, request):
    async def go():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            return await client.request(
                request.method, request.url.path, content=request.content, headers=request.headers
            )

    found = asyncio.run(go())
    return httpx.Response(found.status_code, content=found.content, headers=found.headers)


def test_the_client_sends_releases_alone_and_keeps_order(saved, bundle, parts, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda s: None)
    path, f, analyzer = saved
    X = parts[2].X
    lost = {
        1: httpx.ReadError("lost"),
        3: httpx.Response(503, headers={"retry-after": "2"}),
        5: httpx.ConnectError("no"),
    }
    transport, sent = served(make_app(bundle, None, SMALL), lost.get)
    with Client("http://service", tacit.load(path), transport=transport) as client:
        found = client.answer(X)["rich"]
    assert found["probabilities"] == pytest.approx(analyzer.probabilities(f.transform(X)), abs=1e-5)
    bodies = [r.content for r in sent if r.method == "POST"]
    assert len(bodies) == -(-len(X) // 20) + len(lost)
    released = f.transform(X)
    for body in bodies:
        values = np.frombuffer(body, "<f8").reshape(-1, 2)
        assert np.abs(released[:, None] - values[None]).max(axis=2).min(axis=0).max() < 1e-5


def test_the_client_gives_up_with_a_reason(saved, bundle, parts, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda s: None)
    X, release = parts[2].X.head(3), tacit.load(saved[0])
    transport, sent = served(None, lambda n: httpx.ConnectError("refused"))
    with (
        Client("http://service", release, transport=transport) as client,
        pytest.raises(ServiceError, match=r"7 tries.*refused"),
    ):
        client.answer(X)
    assert len(sent) == 7
    transport, sent = served(None, lambda n: httpx.Response(409, json={"detail": "another filter"}))
    with (
        Client("http://service", release, transport=transport) as client,
        pytest.raises(ServiceError, match=r"409.*another"),
    ):
        client.answer(X)
    assert len(sent) == 1
    with pytest.raises(InputError, match="could be read on the way"):
        Client("http://example.org", release, key="tacit_x")
    with pytest.raises(InputError, match="a service has a URL"):
        Client("service:8000", release)


def reply(label="yes", rows=3, share=0.5, **more):
    answer = {"label": [label] * 3, "probabilities": [[share, 1 - share]] * 3}
    return {"rows": rows, "answers": {"rich": answer}, **more}


NOT_OURS = {
    "no JSON": b"<html>hello</html>",
    "cut off": b'{"rows": 3, "ans',
    "NaN": json.dumps(reply(share=float("nan"))).encode(),
    "a list": b"[]",
    "null": b"null",
    "nothing": b"",
    "too deep": b"[" * 50_000,
    "rows": reply(rows=2),
    "no answers": {"rows": 3},
    "answers of text": {"rows": 3, "answers": "yes"},
    "another target": {"rows": 3, "answers": {"poor": reply()["answers"]["rich"]}},
    "a target of text": {"rows": 3, "answers": {"rich": "yes"}},
    "fewer": {"rows": 3, "answers": {"rich": {"label": ["yes"], "probabilities": [[0.5, 0.5]]}}},
    "a formula": reply("=HYPERLINK(1)"),
    "a label of its own": reply("maybe"),
    "a number for a label": reply(1),
    "a list for a label": reply([1]),
    "shares above one": reply(share=1.5),
    "text for shares": reply() | {"answers": {"rich": {"label": ["yes"] * 3, "probabilities": [["a", "b"]] * 3}}},
    "no shares": reply() | {"answers": {"rich": {"label": ["yes"] * 3, "probabilities": [[]] * 3}}},
}  # fmt: skip


@pytest.mark.parametrize("name", [*NOT_OURS, "about", "a bomb"])
def test_an_answer_that_is_not_ours_is_said_to_be_so(name, saved, parts, monkeypatch):
    told = {"max_rows": 10, "max_bytes": 1000} if name != "about" else {"max_rows": "many", "max_bytes": None}
    bad = NOT_OURS.get(name, reply())

    def spoil(n):
        if n == 0:
            return httpx.Response(200, json=told)
        if name == "a bomb":
            monkeypatch.setattr("tacit.serve.client.MOST", 1000)
            return httpx.Response(200, content=b" " * 1001)
        return httpx.Response(200, content=bad if isinstance(bad, bytes) else json.dumps(bad).encode())

    transport, _ = served(None, spoil)
    with (
        Client("http://service", tacit.load(saved[0]), transport=transport) as client,
        pytest.raises(ServiceError, match=r"http://service (answer|does not|answered)"),
    ):
        client.answer(parts[2].X.head(3))


def test_a_good_answer_passes_and_escapes_do_not_reach_the_terminal(saved, parts):
    transport, _ = served(None, lambda n: httpx.Response(200, json=reply() if n else {"max_rows": 9, "max_bytes": 999}))
    with Client("http://service", tacit.load(saved[0]), transport=transport) as client:
        assert client.answer(parts[2].X.head(3))["rich"]["label"] == ["yes"] * 3  # the control
    for body in (b'{"detail": "\\u001b[2Jsigned"}', b"\x1b[2Jsigned"):
        transport, _ = served(None, lambda n, body=body: httpx.Response(403, content=body))
        with Client("http://service", tacit.load(saved[0]), transport=transport) as client:
            with pytest.raises(ServiceError, match=r"\(403\): \?\[2Jsigned") as said:
                client.answer(parts[2].X.head(3))
            assert "\x1b" not in str(said.value)


def test_a_key_file_that_is_none_is_said_to_be_so(saved, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    (tmp_path / "two").write_text("tacit_a\ntacit_b\n")
    for name in ("none", "binary", "two"):
        with pytest.raises(InputError, match="API key"):
            Client("http://127.0.0.1", tacit.load(saved[0]), key_file=tmp_path / name)


def test_the_client_command(saved, keys, tmp_path, parts):
    path, f, analyzer = saved
    X = parts[2].X
    X.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "key").write_text(add_key(keys, "clinic") + "\n")
    with running(path, "--keys", str(keys)) as (url, _):
        out = tmp_path / "answers.csv"
        ran = tacit_command("client", path, tmp_path / "people.csv", url, "--key-file", tmp_path / "key", "--out", out)
        assert ran.returncode == 0, ran.stderr
        assert f"{len(X)} answers" in ran.stdout
        refused = tacit_command("client", path, tmp_path / "people.csv", url, "--out", tmp_path / "none.csv")
        assert refused.returncode == 2
        assert "(401)" in refused.stderr
        assert not (tmp_path / "none.csv").exists()
    found = pd.read_csv(out)
    expected = analyzer.probabilities(f.transform(X))
    assert found["rich"].tolist() == [("no", "yes")[i] for i in expected.argmax(axis=1)]
    assert found["rich, probability"].to_numpy() == pytest.approx(expected.max(axis=1), abs=1e-5)


# -- fuzz -------------------------------------------------------------------------------------------

numbers = st.floats(allow_nan=False) | st.integers() | st.sampled_from([1e308, -0.0, 10**400])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
good = st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=25)
bodies = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=6000),
    st.builds(lambda v: json.dumps(v).encode(), values),
    st.builds(lambda v: json.dumps({"release": v}).encode(), values | good),
    st.builds(lambda v: np.array(v, dtype="<f8").tobytes(), st.lists(st.floats(), max_size=60)),
)
edits = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=4)), max_size=3)
headers = st.fixed_dictionaries(
    {
        "content-type": st.sampled_from(
            ["application/json"] * 4 + ["application/octet-stream"] * 2 + ["", "text/plain", "application/json; a=b"]
        )
    },
    optional={
        "authorization": st.sampled_from(["Bearer RIGHT"] * 6 + ["Bearer x", "Bearer", "RIGHT", "Basic RIGHT"]),
        "tacit-model": st.sampled_from(["", "0" * 64]),
        "content-encoding": st.sampled_from(["gzip", "identity"]),
        "content-length": st.sampled_from(["5000", "99999999999999999999999", "1e3"]),
        "expect": st.just("100-continue"),
    },
)  # fmt: skip
paths = st.sampled_from(
    ["/v1/analyze"] * 12 + ["/v1/bundle", "/", "/health", "/v1//analyze", "/page/../keys.json", "/%00", "/v1/analyze/"]
)
quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.fixture(scope="module")
def fuzzed(bundle, tmp_path_factory):
    """A guarded service in this process, and its key."""
    path = tmp_path_factory.mktemp("fuzz") / "keys.json"
    key = add_key(path, "fuzz")
    return make_app(bundle, KeyFile(path), SMALL), key


def mutated(body, changes):
    data = bytearray(body)
    for at, patch in changes:
        at %= len(data) + 1
        data[at : at + len(patch)] = patch
    return bytes(data)


def survives(fuzzed, method, path, body, changes, more):
    app, key = fuzzed
    more = {k: v.replace("RIGHT", key) for k, v in more.items()}
    (found,) = ask(app, (method, path, {"content": mutated(body, changes), "headers": more}))
    assert found.status_code in (200, 401, 404, 405, 409, 413, 415, 422), (found.status_code, found.text)
    if path == "/v1/analyze" and found.status_code == 200:
        assert more["authorization"].lower().startswith("bearer")
        shares = np.array(found.json()["answers"]["rich"]["probabilities"])
        assert np.isfinite(shares).all()
        assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)


arguments = {
    "method": st.sampled_from(["POST"] * 9 + ["GET", "PUT", "TRACE"]),
    "path": paths,
    "body": bodies,
    "changes": edits,
    "more": headers,
}


@settings(max_examples=100, **quiet)
@given(**arguments)
def test_mutated_requests_get_clean_answers(fuzzed, method, path, body, changes, more):
    survives(fuzzed, method, path, body, changes, more)


@pytest.mark.slow
@settings(max_examples=10_000, **quiet)
@given(**arguments)
def test_ten_thousand_mutated_requests_get_clean_answers(fuzzed, method, path, body, changes, more):
    survives(fuzzed, method, path, body, changes, more)


def test_the_service_is_as_its_openapi_says(bundle):
    """Requests made up from the schema, right and wrong ones: answers have the status and the form it tells of."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(bundle, None))
    rejected = schema.config.checks.negative_data_rejection
    rejected.expected_statuses = [*rejected.expected_statuses, "413"]  # more releases than are taken at a time
    told = {op.ok().path for op in schema.get_all_operations()}
    assert told == {"/v1/analyze", "/health", "/v1/bundle", "/v1/bundle/model.onnx"}
    operation, found = schema["/v1/analyze"]["POST"], set()
    modes = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE

    @settings(max_examples=30, **quiet)
    @given(case=st.one_of(operation.as_strategy(mode) for mode in modes))
    def conforms(case):
        assume(case.media_type != "application/octet-stream")  # a schema cannot say which lengths are right
        found.add(case.call_and_validate().status_code)

    conforms()
    assert {200, 422} <= found


def raw_exchange(address, data):
    """What a server says to bytes that are no proper HTTP."""
    import socket

    with socket.create_connection(address, timeout=600) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(4096):
                said += chunk
    return said


def test_broken_http_and_crowds_do_no_harm(saved, tmp_path):
    """Half requests, wrong lengths, endless headers; many at once. Then the service answers as before."""
    log = tmp_path / "log"
    with running(saved[0], "--no-auth", log=log) as (url, _):
        address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        head = b"POST /v1/analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        broken = [
            b"MARKEDTEXT\r\n\r\n",
            head + b"Content-Length: 100\r\n\r\n{",
            head + b"Content-Length: -1\r\n\r\n{}",
            head + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nMARKEDTEXT",
            head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
        ]
        answers = {raw_exchange(address, data).split(b"\r\n")[0] for data in broken}
        assert all(a == b"" or a.split()[1].startswith(b"4") for a in answers), answers
        found = []
        threads = [
            threading.Thread(
                target=lambda: found.append(
                    httpx.post(f"{url}/v1/analyze", json={"release": [[0, 0]]}, timeout=600).status_code
                )
            )
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [200] * 20
    assert "MARKEDTEXT" not in log.read_text()
