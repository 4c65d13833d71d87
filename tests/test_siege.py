"""The service among idle, slow and greedy clients: the honest are answered, and memory stays.

Their times are measured by benchmarks/siege.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter

import httpx
import pytest
import uvicorn

from benchmarks.siege import make_bundle, siege
from commands import tacit_command
from service import running
from tacit.release.bundle import read_bundle
from tacit.serve.app import Limits, make_app
from tacit.serve.doors import Doors, Patience
from tacit.serve.guard import Counts
from tacit.serve.keys import KeyFile, add_key
from tacit.serve.turns import Slots, Turns
from test_serve import self_signed

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")
MODEL = b"GET /v1/bundle/model.onnx HTTP/1.1\r\nHost: localhost\r\n\r\n"
GOOD = {"json": {"release": [[0.0] * 8]}}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A bundle whose filter has about a megabyte, more than a socket holds."""
    return make_bundle(tmp_path_factory.mktemp("wide"), width=450)


@contextlib.contextmanager
def opened(bundle, patience, limits=None, keys=None, cert=None):
    """A service in this process: its address and what it counted."""
    counts = Counts()
    app = make_app(read_bundle(bundle), keys, limits, public=True, hosts={"localhost", "127.0.0.1"}, counts=counts)
    more = {} if cert is None else {"ssl_certfile": cert[0], "ssl_keyfile": cert[1]}
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None, log_level="error", **more)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        doors = Doors(config, patience, counts.doors)
        thread = threading.Thread(target=doors.run, kwargs={"sockets": [listening]})
        address = listening.getsockname()
        thread.start()
        try:
            yield address, counts, doors
        finally:
            doors.should_exit = doors.force_exit = True
            thread.join()


def connect(address, source="127.0.0.1", small=False):
    link = socket.socket()
    if small:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.bind((source, 0))
    link.settimeout(120)
    link.connect(address)
    return link


def is_closed(link):
    """Whether the other side has gone, within two minutes."""
    try:
        while link.recv(2**16):
            pass
    except ConnectionError:
        pass
    return True


def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_crowd_from_one_address_puts_itself_out(wide):
    with opened(wide, Patience(per_address=8, head_seconds=600)) as (address, counts, _):
        url = f"http://127.0.0.1:{address[1]}"
        with httpx.Client(base_url=url) as honest:
            assert honest.post("/v1/analyze", **GOOD).status_code == 200
            crowd = [connect(address) for _ in range(40)]
            until(lambda: counts.doors["put out"] >= 33)
            # of the same address: a connection that had an answer stays, and a new one gets in
            before = counts.doors["put out"]
            assert honest.post("/v1/analyze", **GOOD).status_code == 200
            assert counts.doors["put out"] == before
        assert httpx.post(f"{url}/v1/analyze", **GOOD).status_code == 200
        assert sum(is_closed(link) for link in crowd[:30]) == 30
        for link in crowd:
            link.close()


def test_all_together_have_a_limit_and_the_largest_crowd_pays(wide):
    with opened(wide, Patience(connections=10, per_address=600, head_seconds=600)) as (address, counts, doors):
        kept = connect(address, "127.0.0.3")
        until(lambda: doors.count("127.0.0.3") == 1)
        crowd = [connect(address, "127.0.0.2") for _ in range(30)]
        until(lambda: counts.doors["put out"] >= 21)
        assert doors.count("127.0.0.3") == 1
        assert httpx.get(f"http://127.0.0.1:{address[1]}/healthz").status_code == 200
        for link in (kept, *crowd):
            link.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nX-Slow: ", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"]
)
def test_who_sends_nothing_more_is_put_out_by_the_clock(wide, sent):
    with opened(wide, Patience(head_seconds=0.3)) as (address, counts, _):
        link = connect(address)
        link.sendall(sent)
        assert is_closed(link)
        assert counts.doors["slow"] == 1


def test_who_starts_no_tls_is_put_out_by_the_clock(wide, tmp_path):
    with opened(wide, Patience(head_seconds=0.3), cert=self_signed(tmp_path)) as (address, _, doors):
        link = connect(address)
        link.sendall(b"\x16")
        until(lambda: doors.opening.total() == 1)  # it counts as long as it is there
        assert is_closed(link)
        until(lambda: doors.opening.total() == 0)


def test_who_does_not_read_holds_one_piece_and_is_put_out(wide):
    with opened(wide, Patience(write_seconds=0.5)) as (address, counts, doors):
        links = [connect(address, f"127.0.0.{i}", small=True) for i in range(2, 6)]
        for link in links:
            link.sendall(MODEL)
        until(lambda: sum(v.paused_since > 0 for some in doors.visits.values() for v in some) == 4)
        held = [v.transport.get_write_buffer_size() for some in doors.visits.values() for v in some]
        assert max(held) < 4 * 2**16  # of a megabyte
        until(lambda: counts.doors["slow"] == 4)
        for link in links:
            link.close()
        whole = httpx.get(f"http://127.0.0.1:{address[1]}/v1/bundle/model.onnx").content  # the control: who reads
        assert whole == read_bundle(wide).members["model.onnx"]


def test_downloads_have_slots_and_a_time(wide):
    with opened(wide, Patience(write_seconds=600), Limits(downloads=3, download_seconds=0.5, pause=0)) as (
        address,
        _,
        d,
    ):
        links = [connect(address, small=True) for _ in range(2)]
        for link in links:
            link.sendall(MODEL)
        until(lambda: sum(v.admitted for some in d.visits.values() for v in some) == 2)
        url = f"http://127.0.0.1:{address[1]}/v1/bundle/model.onnx"
        assert httpx.get(url).status_code == 429  # two of one at a time
        until(lambda: httpx.get(url).status_code == 200)  # when their time is over
        for link in links:
            link.close()


def test_one_key_cannot_have_it_all(wide, tmp_path):
    path = tmp_path / "keys.json"
    greedy, honest = add_key(path, "greedy"), add_key(path, "honest")
    limits = Limits(in_flight=8, per_key=3, all_bytes=2**20, pause=0)
    with opened(wide, Patience(), limits, KeyFile(path)) as (address, counts, _):
        url = f"http://127.0.0.1:{address[1]}"
        head = f"POST /v1/analyze HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {greedy}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        links = [connect(address) for _ in range(3)]
        for link in links:
            link.sendall(head.encode() + b"x")
        until(lambda: counts.gauges["requests_under_way"]() == 3)

        def ask(key):
            return httpx.post(f"{url}/v1/analyze", headers={"authorization": f"Bearer {key}"}, **GOOD)

        refused = ask(greedy)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert ask(honest).status_code == 200
        for link in links:
            link.close()
        until(lambda: ask(greedy).status_code == 200)


def test_bytes_of_all_bodies_are_bounded():
    slots = Slots(10, 10, 100)
    with slots.held() as first:
        first(60)
        with slots.held() as second, pytest.raises(Exception, match="busy"):
            second(60)
        first(40)
    with slots.held() as again:
        again(100)
    assert slots.bytes_free == 100


def test_who_asks_for_much_waits_for_themselves():
    """Ten long jobs of one, then one short of another: it comes when one of the ten is done, not after them."""

    async def go():
        turns, order, spent = Turns(1), [], threading.Event()

        def work(name):
            def do():
                if name == "greedy":
                    end = time.thread_time() + 0.01
                    while time.thread_time() < end:
                        spent.set()
                order.append(name)

            return do  # fmt: skip

        tasks = [asyncio.create_task(turns.run("greedy", work("greedy"))) for _ in range(10)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(turns.run("honest", work("honest"))) for _ in range(3)]
        dropped = asyncio.create_task(turns.run("gone", work("gone")))
        await asyncio.sleep(0)
        dropped.cancel()
        await asyncio.gather(*tasks)
        await turns.run("later", work("later"))
        return order

    order = asyncio.run(go())
    assert Counter(order) == {"greedy": 10, "honest": 3, "later": 1}
    assert order.index("honest") <= 2
    assert [i for i, who in enumerate(order) if who == "honest"][-1] <= 5


def test_other_names_and_two_lengths_are_refused(wide):
    with opened(wide, Patience(), Limits(pause=0)) as (address, *_):
        url = f"http://127.0.0.1:{address[1]}/healthz"
        assert httpx.get(url, headers={"host": f"localhost:{address[1]}"}).status_code == 200
        assert httpx.get(url, headers={"host": "evil.example"}).status_code == 421
        link = connect(address)
        twice = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        link.sendall(b"POST /v1/analyze HTTP/1.1\r\nHost: localhost\r\n" + twice)
        assert link.recv(100).startswith(b"HTTP/1.1 400")
        link.close()


def test_counts_and_readiness_carry_no_payload(wide, tmp_path):
    path = tmp_path / "keys.json"
    key, counting = add_key(path, "clinic"), add_key(path, "prometheus", scope=["metrics"])
    service = opened(wide, Patience(), Limits(pause=0), KeyFile(path))
    with service as (address, *_), httpx.Client(base_url=f"http://127.0.0.1:{address[1]}") as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/readyz").json() == {"status": "ready"}
        http.post("/v1/analyze", json={"release": [[424242.0625] * 8]}, headers={"authorization": f"Bearer {key}"})
        http.get("/MARKEDTEXT")
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", headers={"authorization": f"Bearer {key}"}).status_code == 403
        told = http.get("/metrics", headers={"authorization": f"Bearer {counting}"}).text
        path.write_text("{}")
        assert http.get("/readyz").status_code == 503
    assert 'tacit_requests_total{method="POST",route="/v1/analyze",status="200"} 1' in told
    assert "tacit_releases_total 1" in told
    assert "tacit_connections " in told or "tacit_requests_under_way 0" in told
    assert not [word for word in ("424242", "MARKEDTEXT", key, "clinic") if word in told]


def test_beyond_loopback_it_needs_tls_or_a_named_proxy(wide, tmp_path):
    keys = tmp_path / "keys.json"
    add_key(keys, "clinic")
    cert, secret = self_signed(tmp_path)
    for more, said in [
        (["--host", "0.0.0.0"], "without TLS keys and releases cross the network readable"),
        (["--host", "0.0.0.0", "--behind-proxy", "10.0.0.7"], "--behind-proxy needs --name"),
        (["--host", "0.0.0.0", "--behind-proxy", "proxy", "--name", "x.example"], "takes an address or a network"),
    ]:
        ran = tacit_command("serve", wide, "--keys", keys, *more)
        assert ran.returncode == 2
        assert said in " ".join(ran.stderr.split())
    tls = ("--keys", str(keys), "--tls-cert", str(cert), "--tls-key", str(secret))
    with running(wide, *tls) as (url, _):
        found = httpx.get(f"{url}/healthz", verify=False)
        assert found.headers["strict-transport-security"].startswith("max-age=")
    proxied = ("--keys", str(keys), "--behind-proxy", "127.0.0.7", "--name", "x.example")
    with running(wide, *proxied) as (url, _):
        address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        stranger = connect(address)
        assert is_closed(stranger)
        proxy = connect(address, "127.0.0.7")
        proxy.sendall(b"GET /healthz HTTP/1.1\r\nHost: x.example\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
        assert proxy.recv(100).startswith(b"HTTP/1.1 200")
        for link in (stranger, proxy):
            link.close()


@pytest.mark.parametrize("shared", [False, True])
def test_a_small_siege(wide, tmp_path, shared):
    """A tenth of the attackers of the benchmark: no honest request is lost, and memory stays."""
    found = siege(wide, tmp_path, seconds=2, rounds=1, scale=0.1, shared=shared)
    assert found["lost, alone"] == found["lost, under siege"] == 0
    assert found["answered, under siege"] > 0
    assert found["service MB most"] < 300
