"""The service, its keys, its client, and the proxy configuration of docs/serve.md."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from service import running
from tacit.errors import InputError
from tacit.release.answer import Answerer
from tacit.release.bundle import read_bundle
from tacit.serve import keys as module
from tacit.serve.app import Limits, make_app
from tacit.serve.client import Client, ServiceError
from tacit.serve.keys import KeyFile, add_key, expiry, read_keys, revoke_key

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

SMALL = Limits(max_rows=20)
JSON = {"content-type": "application/json"}
SPAWN = multiprocessing.get_context("spawn")
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


def test_an_analyzer_predicts_better_than_chance(saved, parts):
    path, f, analyzer = saved
    assert analyzer.accuracy["rich"] > analyzer.guessing["rich"] + 0.1
    fresh = parts[2]
    answer = Answerer(read_bundle(path)).answer(tacit.load(path).transform(fresh.X))
    right = np.mean(np.array(answer["answers"]["rich"]["label"]) == fresh.y["rich"])
    assert abs(right - analyzer.accuracy["rich"]) < 0.2
    with pytest.raises(InputError):  # rows of the fit
        tacit.serve.fit_analyzer(f, parts[0])


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
        assert (found.status_code, found.json()["detail"][:9]) == (422, "release 1")


def test_dpfe_brings_its_own_cloud_half(parts, tmp_path):
    train, _, fresh = parts
    f = tacit.DPFE(n_components=2, epochs=2, backbone_epochs=2, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    path = tacit.save(f, tmp_path / "dpfe.tacit", analyzer=True)
    Z = tacit.load(path).transform(fresh.X)
    answer = post(make_app(read_bundle(path), None), json={"release": Z.tolist()}).json()["answers"]["rich"]
    assert answer["probabilities"] == pytest.approx(f.answer_proba(Z)["rich"], abs=1e-5)
    assert answer["label"] == f.answer(Z)["rich"].tolist()


def test_a_bundle_without_an_analyzer_is_not_served(saved, tmp_path):
    with pytest.raises(InputError):
        tacit.save(saved[1], tmp_path / "x.tacit", analyzer=True)
    tacit.save(saved[1], tmp_path / "x.tacit")
    with pytest.raises(InputError):
        make_app(read_bundle(tmp_path / "x.tacit"), None)


# -- answers ----------------------------------------------------------------------------------------


def test_answers_are_those_of_the_analyzer_in_order(saved, bundle, parts):
    _, f, analyzer = saved
    Z = f.transform(parts[2].X)[:50]
    expected = analyzer.probabilities(Z)
    answer = post(make_app(bundle, None), json={"release": Z.tolist()}).json()["answers"]["rich"]
    assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert answer["label"] == [("no", "yes")[i] for i in expected.argmax(axis=1)]


def test_the_public_description(saved, bundle, parts):
    paths = ("/health", "/v1/bundle", "/v1/bundle/model.onnx", "/openapi.json")
    health, about, model, schema = ask(make_app(bundle, None), *(("GET", p, {}) for p in paths))
    assert health.json() == {"status": "ok"}
    assert about.json()["output"] == bundle.manifest["output"]
    assert hashlib.sha256(model.content).hexdigest() == about.json()["model"]["sha256"]
    assert set(schema.json()["paths"]) == {"/v1/analyze", "/health", "/v1/bundle", "/v1/bundle/model.onnx"}
    release = schema.json()["paths"]["/v1/analyze"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert release["properties"]["release"]["maxItems"] == about.json()["max_rows"] == 1024
    # the samples fit the schema and are no rows of the fit
    made = about.json()["samples"]
    columns = {name: [s[name] for s in made] for name in made[0]}
    assert len(tacit.load(saved[0]).transform(columns)) == len(made) > 1
    assert not saved[1].seen(pd.DataFrame(columns)[list(parts[0].X.columns)]).any()


BAD = {
    "cut off": b'{"release": [[0, 0]',
    "not JSON": b"release=1",
    "NaN": b'{"release": [[NaN, 0]]}',
    "infinite": b'{"release": [[1e999, 0]]}',
    "too large": b'{"release": [[1e31, 0]]}',
    "too deep": b"[" * 300,
    "no object": b"[[0, 0]]",
    "nothing": b"",
    "another field": b'{"release": [[0, 0]], "more": 1}',
    "empty": b'{"release": []}',
    "too many": json.dumps({"release": [[0, 0]] * 21}).encode(),
    "text": b'{"release": [["1", "2"]]}',
    "truth": b'{"release": [[true, false]]}',
    "gap": b'{"release": [[null, 0]]}',
    "ragged": b'{"release": [[0, 0], [0]]}',
    "too flat": b'{"release": [0, 0]}',
    "nested": b'{"release": [[[0], [0]]]}',
    "a huge whole number": b'{"release": [[1' + b"0" * 400 + b", 0]]}",
    "raw columns": b'{"age": [33], "job": ["cook"], "hours": [40.0]}',
    "raw records": b'{"release": [{"age": 33, "job": "cook", "hours": 40.0}]}',
    "raw numbers": b'{"release": [[33, 1, 40.0]]}',
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_requests_are_422(name, bundle):
    found = post(make_app(bundle, None, SMALL), content=BAD[name], headers=JSON)
    assert found.status_code == 422, found.text
    assert set(found.json()) == {"detail"}


def test_other_kinds_and_other_filters_are_rejected(bundle):
    app = make_app(bundle, None)
    good = json.dumps({"release": [[0, 0]]}).encode()
    assert post(app, content=good, headers=JSON).status_code == 200
    assert post(app, content=good, headers={"content-type": "text/plain"}).status_code == 415
    assert post(app, content=good, headers=JSON | {"tacit-model": "0" * 64}).status_code == 409
    paths = (("GET", "/v1/analyze"), ("GET", "/page/../../keys.py"), ("GET", "/page/%2e%2e/keys.py"), ("DELETE", "/"))
    assert [r.status_code for r in ask(app, *((*p, {}) for p in paths))] == [405, 404, 404, 405]


def test_a_body_is_bounded_by_rows_and_width_before_it_is_parsed(bundle):
    """Security review, F6: a megabyte of JSON objects was parsed before its rows were counted."""
    app, sent = make_app(bundle, None, SMALL), 0
    assert SMALL.of_body(2) == (20, 1024 + 20 * 2 * 32)
    assert Limits().of_body(100_000) == (1, 1024 + 100_000 * 32)
    widest = [[-1.2345678901234567e-300] * 2] * 20
    assert post(app, content=json.dumps({"release": widest}).encode(), headers=JSON).status_code == 200

    async def endless():
        nonlocal sent
        while True:
            sent += 600
            yield b"{}," * 200

    assert post(app, content=endless(), headers=JSON).status_code == 413
    assert sent < 4000


# -- keys -------------------------------------------------------------------------------------------


def test_keys_are_hashed_and_revoked_at_once(bundle, keys):
    key, other, counting = add_key(keys, "clinic"), add_key(keys, "lab"), add_key(keys, "p", scope="metrics")
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert key not in keys.read_text()
    for name, scope in (("lab", "analyze"), ("x", "write"), ("a/b", "analyze")):
        with pytest.raises(InputError):
            add_key(keys, name, scope=scope)
    app = make_app(bundle, KeyFile(keys))

    def status(authorization=None, path="/v1/analyze"):
        headers = JSON | ({"authorization": authorization} if authorization else {})
        method = "POST" if path == "/v1/analyze" else "GET"
        return ask(app, (method, path, {"headers": headers, "content": b'{"release": [[0, 0]]}'}))[0].status_code

    assert status(f"Bearer {key}") == status(f"bearer {other}") == 200
    wrong = [None, "Bearer", "Bearer ", f"Bearer {key}x", f"Bearer {key[:-1]}", f"Basic {key}", key]
    wrong.append(f"Bearer {hashlib.sha256(key.encode()).hexdigest()}")
    assert {status(w) for w in wrong} == {401}
    for path in ("/v1/bundle", "/v1/bundle/model.onnx", "/openapi.json"):
        assert [status(a, path) for a in (None, f"Bearer {key}", f"Bearer {counting}")] == [401, 200, 403]
    assert [status(a, "/metrics") for a in (None, f"Bearer {key}", f"Bearer {counting}")] == [401, 403, 200]
    assert status(f"Bearer {counting}") == 403
    revoke_key(keys, "clinic")
    assert [status(f"Bearer {k}") for k in (key, other)] == [401, 200]
    for damaged in ("{}", "[" * 100_000, '{"keys": [1]}', '{"keys": [{"name": "x"}]}', None):  # closed, not open
        keys.unlink() if damaged is None else keys.write_text(damaged)
        assert (status(f"Bearer {other}"), status(None, "/health")) == (503, 503)


def test_wrong_keys_are_rejected_before_the_body_is_read(bundle, keys):
    add_key(keys, "clinic")
    read = []

    async def body():
        read.append(1)
        yield b"x"

    assert post(make_app(bundle, KeyFile(keys)), content=body(), headers=JSON).status_code == 401
    assert read == []


def test_keys_expire(keys, monkeypatch):
    short = add_key(keys, "short", expires="30m")
    service = KeyFile(keys)
    assert service.find(short)["name"] == "short"
    later = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=31)).strftime(module.FORM)
    monkeypatch.setattr(module, "now", lambda: later)
    assert service.find(short) is None
    assert add_key(keys, "short")  # the name is free again
    for wrong in ("soon", "-3d", "2026-13-01", "1y"):
        with pytest.raises(InputError):
            expiry(wrong)


def changes(path, client, n, queue):
    """Add 2 n keys and revoke every other."""
    for i in range(n):
        add_key(path, f"{client} {i} stays")
        add_key(path, f"{client} {i} goes")
        revoke_key(path, f"{client} {i} goes")
    queue.put(client)


def test_changes_by_several_processes_are_all_kept(keys):
    queue = SPAWN.Queue()
    processes = [SPAWN.Process(target=changes, args=(keys, client, 8, queue)) for client in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {e["name"] for e in read_keys(keys)} == {f"{client} {i} stays" for client in "abc" for i in range(8)}


def test_the_key_commands(tmp_path):
    keys, out = tmp_path / "keys.json", tmp_path / "clinic.key"
    assert tacit_command("serve", "keys", "add", keys, "clinic", "--out", out, "--expires", "90d").returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert KeyFile(keys).find(out.read_text().strip())["name"] == "clinic"
    assert tacit_command("serve", "keys", "add", keys, "lab", "--out", out).returncode == 2  # nothing is overwritten
    printed = tacit_command("serve", "keys", "add", keys, "lab").stdout.strip()
    assert KeyFile(keys).find(printed)["name"] == "lab"
    assert tacit_command("serve", "keys", "list", keys).stdout.count("analyze") == 2
    assert tacit_command("serve", "keys", "revoke", keys, "lab").returncode == 0
    assert [e["name"] for e in read_keys(keys)] == ["clinic"]
    assert tacit_command("serve", "keys", "revoke", tmp_path / "none.json", "x").returncode == 2
    assert not list(tmp_path.glob(".none*"))


# -- nothing of a request is kept -------------------------------------------------------------------


def test_neither_answers_nor_logs_nor_metrics_repeat_a_value(bundle, keys, caplog):
    key, counting = add_key(keys, "clinic"), add_key(keys, "prometheus", scope="metrics")
    app, open_app = make_app(bundle, KeyFile(keys), SMALL), make_app(bundle, None, SMALL)
    caplog.set_level(logging.DEBUG)
    words = json.dumps({"release": [[MARKER, "MARKEDTEXT"]]}).encode()
    requests = [
        ("POST", "/v1/analyze", {"json": {"release": [[MARKER, 0.0]]}}),
        ("POST", "/v1/analyze", {"json": {"release": [[MARKER, 1e40]]}}),
        ("POST", "/v1/analyze", {"json": {"MARKEDTEXT": [MARKER]}}),
        ("POST", "/v1/analyze", {"json": {"release": {"MARKEDTEXT": MARKER}}}),
        ("POST", "/v1/analyze", {"content": words, "headers": JSON}),
        ("POST", "/v1/analyze", {"content": words[:-3], "headers": JSON}),
        ("POST", "/v1/analyze", {"content": b"\xff" + words, "headers": JSON}),
        ("POST", "/v1/analyze", {"content": words * 200, "headers": JSON}),
        ("POST", f"/v1/analyze?age={MARKER}", {"content": b"MARKEDTEXT"}),
        ("GET", f"/MARKEDTEXT?age={MARKER}", {}),
        ("MARKEDTEXT", "/v1/analyze", {}),
        ("POST", "/v1/analyze", {"headers": {"authorization": f"Bearer {key}MARKEDTEXT", "tacit-model": "MARKEDTEXT"}}),
    ]
    own = ("GET", "/metrics", {"headers": {"authorization": f"Bearer {counting}"}})
    found = ask(open_app, *requests, ("GET", "/metrics", {})) + ask(app, *requests, own)
    assert {200, 401, 404, 405, 413, 415, 422} <= {r.status_code for r in found}
    logged = [r for r in caplog.records if r.name.startswith(("tacit", "uvicorn", "fastapi", "asyncio"))]
    seen = "\n".join([*(r.text + str(r.headers) for r in found), *(r.getMessage() + str(r.exc_text) for r in logged)])
    # the controls: it does log and count
    assert "POST /v1/analyze 200 rows=1" in seen
    assert 'tacit_requests_total{method="POST",route="/v1/analyze",status="200"} 1.0' in seen
    assert "tacit_releases_total 1.0" in seen
    assert [m for m in (str(MARKER), "MARKEDTEXT", key) if m in seen] == []


def test_a_failure_inside_shows_nothing(bundle, caplog, monkeypatch):
    monkeypatch.setattr(Answerer, "answer", lambda self, Z: int(f"{Z[0, 0]}x"))
    caplog.set_level(logging.DEBUG)
    found = post(make_app(bundle, None), json={"release": [[MARKER, 0.0]]})
    assert (found.status_code, found.json()) == (500, {"detail": "the service failed"})
    logged = "\n".join(r.getMessage() + str(r.exc_info or "") for r in caplog.records if r.name.startswith("tacit"))
    assert "ValueError" in logged
    assert str(MARKER) not in logged


# -- a real service ---------------------------------------------------------------------------------


def test_a_killed_service_starts_again_clean(saved, keys, tmp_path, parts):
    path, f, analyzer = saved
    key, log = add_key(keys, "clinic"), tmp_path / "log"
    X = parts[2].X.head(40)
    expected = analyzer.probabilities(f.transform(X))
    with running(path, "--api-keys", str(keys), log=log) as (url, process):
        port = url.rsplit(":", 1)[1]
        with Client(url, tacit.load(path), key=key) as client:
            assert client.answer(X)["rich"]["probabilities"] == pytest.approx(expected, abs=1e-5)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            # at the same port; the client that lost its connection finds the new one
            with running(path, "--api-keys", str(keys), "--port", port, log=log) as (again, _):
                assert again == url
                assert client.answer(X)["rich"]["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert "POST /v1/analyze 200 rows=40 key=clinic" in log.read_text()
    assert key not in log.read_text()
    assert "Traceback" not in log.read_text()


def exchange(address, data):
    """What a server answers to bytes that are not proper HTTP."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := connection.recv(4096):
                answer += chunk
        except ConnectionResetError:
            pass
    return answer


def test_broken_http_and_other_hosts_are_rejected(saved, tmp_path):
    log = tmp_path / "log"
    with running(saved[0], "--no-auth", log=log) as (url, _):
        address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        head = b"POST /v1/analyze HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        broken = [
            b"MARKEDTEXT\r\n\r\n",
            head + b"Content-Length: 100\r\n\r\n{",
            head + b"Content-Length: -1\r\n\r\n{}",
            head + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nMARKEDTEXT",
            head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
        ]
        answers = {exchange(address, data).split(b"\r\n")[0] for data in broken}
        assert all(a == b"" or a.split()[1].startswith(b"4") for a in answers), answers
        assert httpx.post(f"{url}/v1/analyze", json={"release": [[0, 0]]}).status_code == 200
    assert "MARKEDTEXT" not in log.read_text()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--api-keys", "KEYS", "--no-auth"],
        ["--no-auth", "--host", "0.0.0.0"],
        ["--no-auth", "--behind-proxy", "--name", "x.example"],
        ["--api-keys", "KEYS", "--host", "0.0.0.0"],
        ["--api-keys", "KEYS", "--host", "0.0.0.0", "--behind-proxy"],
        ["--api-keys", "NONE"],
    ],
)
def test_a_service_does_not_start_open(options, saved, keys, tmp_path):
    add_key(keys, "clinic")
    files = {"KEYS": keys, "NONE": tmp_path / "none.json"}
    assert tacit_command("serve", "run", saved[0], *(files.get(o, o) for o in options)).returncode == 2


@pytest.fixture
def nginx(tmp_path):
    """Start nginx with the configuration of docs/serve.md, as https://localhost:PORT in front of a service."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx and openssl are needed to test the proxy configuration: apt-get install nginx openssl")
    page = (Path(__file__).parent.parent / "docs" / "serve.md").read_text()
    text = re.search(r"```nginx[^\n]*\n(.*?)```", page, re.S)[1]
    cert, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", secret, "-out", cert]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    started = []

    def start(service_url):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        values = {"listen 443": f"listen 127.0.0.1:{port}", "filter.example.org": "localhost",
                  "127.0.0.1:8000": service_url.removeprefix("http://"),
                  "client_header_timeout 10s": "client_header_timeout 1s",
                  "rate=50r/s": "rate=1r/m", "zone=keys burst=100": "zone=keys burst=10",  # on a machine of any speed
                  "/etc/tacit/cert.pem": str(cert), "/etc/tacit/key.pem": str(secret)}  # fmt: skip
        changed = text
        for old, new in values.items():
            assert old in changed
            changed = changed.replace(old, new)
        (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/nginx.pid;\nerror_log {tmp_path}/error.log;\n{changed}")
        command = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return f"https://localhost:{port}", cert
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError((tmp_path / "error.log").read_text())

    yield start
    for process in started:
        process.terminate()
        process.wait()


def test_the_documented_proxy(saved, keys, parts, nginx):
    """TLS, names, sizes, times and rates: what the documentation leaves to the proxy, the configuration does."""
    key, greedy = add_key(keys, "clinic"), add_key(keys, "greedy")
    release, X = tacit.load(saved[0]), parts[2].X.head(5)
    with running(saved[0], "--api-keys", str(keys), "--behind-proxy", "--name", "localhost") as (inner, _):
        url, cert = nginx(inner)
        with Client(url, release, key=key, ca=cert) as client:
            assert len(client.answer(X)["rich"]["label"]) == 5
        with Client(url, release, key=key) as client, pytest.raises(ServiceError):  # a certificate of nobody known
            client.answer(X)
        trusted = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=url, verify=trusted, headers={"authorization": f"Bearer {key}"}) as http:
            found = http.get("/health")
            assert found.status_code == 200
            assert found.headers["strict-transport-security"].startswith("max-age=")
            assert found.headers["x-frame-options"] == "DENY"
            assert http.get("/metrics").status_code == 403
            assert http.post("/v1/analyze", content=b" " * (2**21 + 1), headers=JSON).status_code == 413
            with pytest.raises(httpx.ConnectError):  # another name gets no handshake
                http.get("/health", extensions={"sni_hostname": "evil.example"})
            assert http.get("/health", headers={"host": "evil.example"}).status_code == 421
            body = {"json": {"release": [[0.0, 0.0]]}}
            rates = [http.post("/v1/analyze", headers={"authorization": f"Bearer {greedy}"}, **body).status_code
                     for _ in range(20)]  # fmt: skip
            assert rates == [200] * 11 + [429] * 9
            assert http.post("/v1/analyze", **body).status_code == 200  # another key is not affected
        slow = ssl.create_default_context(cafile=str(cert)).wrap_socket(
            socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=60), server_hostname="localhost"
        )
        with slow:
            slow.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
            assert slow.recv(100) == b""  # closed by the clock


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
        assert set(json.loads(body)) == {"release"}
        values = np.array(json.loads(body)["release"])
        assert np.abs(released[:, None] - values[None]).max(axis=2).min(axis=0).max() < 1e-5


def test_the_client_gives_up_with_a_reason(saved, bundle, parts, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda s: None)
    X, release = parts[2].X.head(3), tacit.load(saved[0])
    transport, sent = served(None, lambda n: httpx.ConnectError("refused"))
    with (
        Client("http://service", release, transport=transport) as client,
        pytest.raises(ServiceError),
    ):
        client.answer(X)
    assert len(sent) == 7
    transport, sent = served(None, lambda n: httpx.Response(409, json={"detail": "another filter"}))
    with (
        Client("http://service", release, transport=transport) as client,
        pytest.raises(ServiceError),
    ):
        client.answer(X)
    assert len(sent) == 1
    with pytest.raises(InputError):
        Client("http://example.org", release, key="tacit_x")
    with pytest.raises(InputError):
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
    about = {"max_rows": 10 if name != "about" else "many"}
    bad = NOT_OURS.get(name, reply())

    def spoil(n):
        if n == 0:
            return httpx.Response(200, json=about)
        if name == "a bomb":
            monkeypatch.setattr("tacit.serve.client.MAX_ANSWER", 1000)
            return httpx.Response(200, content=b" " * 1001)
        return httpx.Response(200, content=bad if isinstance(bad, bytes) else json.dumps(bad).encode())

    transport, _ = served(None, spoil)
    with (
        Client("http://service", tacit.load(saved[0]), transport=transport) as client,
        pytest.raises(ServiceError),
    ):
        client.answer(parts[2].X.head(3))


def test_a_good_answer_passes_and_escapes_do_not_reach_the_terminal(saved, parts):
    transport, _ = served(None, lambda n: httpx.Response(200, json=reply() if n else {"max_rows": 9}))
    with Client("http://service", tacit.load(saved[0]), transport=transport) as client:
        assert client.answer(parts[2].X.head(3))["rich"]["label"] == ["yes"] * 3  # the control
    for body in (b'{"detail": "\\u001b[2Jsigned"}', b"\x1b[2Jsigned"):
        transport, _ = served(None, lambda n, body=body: httpx.Response(403, content=body))
        with Client("http://service", tacit.load(saved[0]), transport=transport) as client:
            with pytest.raises(ServiceError) as said:
                client.answer(parts[2].X.head(3))
            assert "\x1b" not in str(said.value)


def test_a_key_file_that_is_none_is_said_to_be_so(saved, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    (tmp_path / "two").write_text("tacit_a\ntacit_b\n")
    for name in ("none", "binary", "two"):
        with pytest.raises(InputError):
            Client("http://127.0.0.1", tacit.load(saved[0]), key_file=tmp_path / name)


def test_the_client_command(saved, keys, tmp_path, parts):
    path, f, analyzer = saved
    X = parts[2].X
    X.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "key").write_text(add_key(keys, "clinic") + "\n")
    with running(path, "--api-keys", str(keys)) as (url, _):
        out = tmp_path / "answers.csv"
        ran = tacit_command(
            "serve", "client", path, tmp_path / "people.csv", url, "--api-key", tmp_path / "key", "--out", out
        )
        assert ran.returncode == 0, ran.stderr
        assert f"{len(X)} answers" in ran.stdout
        refused = tacit_command("serve", "client", path, tmp_path / "people.csv", url, "--out", tmp_path / "none.csv")
        assert refused.returncode == 2
        assert "(401" in refused.stderr
        assert not (tmp_path / "none.csv").exists()
    found = pd.read_csv(out)
    expected = analyzer.probabilities(f.transform(X))
    assert found["rich"].tolist() == [("no", "yes")[i] for i in expected.argmax(axis=1)]
    assert found["rich, probability"].to_numpy() == pytest.approx(expected.max(axis=1), abs=1e-5)
