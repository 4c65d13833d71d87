"""The service under siege, on loopback: what honest clients notice of idle, slow and greedy ones.

    python benchmarks/siege.py [--seconds 10] [--rounds 4] [--shared] [--plain-asyncio] [--out FILE]

20 honest clients, each with its own key, ask as fast as they are answered: first alone, then while 1,000 connections
idle, 200 readers take a byte a second of the filter or of the page's runtime, 200 writers send a byte a second (half
of them a head without end, half a body under a key), and one greedy key asks over 64 connections for as much as a
request may hold, without ever waiting. Whoever of them is put out comes back a second later.

Loopback has many addresses: honest clients come from 127.0.0.1, attackers from 127.0.0.2 to 127.0.0.5; with --shared
all of them from 127.0.0.1, as behind one NAT. The service runs as users run it (`tacit serve --public`), honest clients
and attackers are a process each. A request that is refused or cut off is asked again, and its time goes on; lost is one
that was not answered within 60 s, or wrongly.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HONEST, IDLE, READERS, WRITERS, GREEDY = 20, 1000, 200, 200, 64
ATTACKERS = ["idle", "readers", "writers", "greedy"]
SPAWN = multiprocessing.get_context("spawn")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10, help="of a round")
    options.add_argument("--rounds", type=int, default=4, help="alone and under siege")
    options.add_argument("--shared", action="store_true", help="attackers come from the honest address")
    options.add_argument("--plain-asyncio", action="store_true", help="without uvloop, where it is installed")
    options.add_argument("--scale", type=float, default=1.0, help="of the number of attackers")
    options.add_argument("--only", nargs="+", default=ATTACKERS, choices=ATTACKERS, help="some of the attackers")
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle = make_bundle(Path(folder))
        result = siege(
            bundle,
            Path(folder),
            asked.seconds,
            asked.rounds,
            asked.scale,
            asked.only,
            asked.shared,
            asked.plain_asyncio,
        )
    result |= {"cores": os.cpu_count(), "machine": platform.machine()}
    for name, value in result.items():
        print(f"{name:>24}: {value:,.4g}" if isinstance(value, float) else f"{name:>24}: {value}")
    if asked.out is not None:
        asked.out.write_text(json.dumps(result, indent=1) + "\n")


def make_bundle(folder: Path, width: int = 2000) -> Path:
    """A filter of some 17 MB, so that who does not read it would fill memory."""
    from torch import nn

    import tacit

    def wide(n_in: int, n_out: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_out)
        )

    train, rest = tacit.load_dataset("digits").split((0.5, 0.5), random_state=0)
    f = tacit.EIGAN(n_components=8, encoder=wide, epochs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # any code will do
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
        return tacit.save(f, folder / "digits.tacit", analyzer=tacit.serve.fit_analyzer(f, rest, epochs=5))


def siege(
    bundle: Path,
    folder: Path,
    seconds: float,
    rounds: int,
    scale: float,
    only: list[str] = ATTACKERS,
    shared: bool = False,
    plain: bool = False,
) -> dict[str, Any]:
    """Times of the honest alone and under siege, and the service's memory."""
    from tacit.serve.keys import add_key

    keys = folder / "siege-keys.json"
    own = [add_key(keys, f"honest {i}") for i in range(HONEST)]
    slow, greedy = add_key(keys, "slow"), add_key(keys, "greedy")
    hide = "import sys; sys.modules['uvloop'] = None; " if plain else ""
    command = [sys.executable, "-c", f"{hide}from tacit.cli import main; main()", "serve", str(bundle), "--port", "0",
               "--keys", str(keys), "--public"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().split()[-1].rstrip("/").rsplit(":", 1)[1])
            before = memory(service.pid)["VmRSS"]
            calm, stormy = [], []
            for _ in range(rounds):  # in turns, so that what else this machine does falls on both alike
                calm.append(in_process(honest, port, own, str(bundle), seconds))
                stormy.append(attacked(port, slow, greedy, bundle, scale, only, shared, seconds, own))
            most = memory(service.pid)["VmHWM"]
        finally:
            service.kill()
    alone, under = told(calm), told(stormy)
    return {
        **{f"{name}, alone": v for name, v in alone.items()},
        **{f"{name}, under siege": v for name, v in under.items()},
        "p99 under siege / alone": under["p99 ms"] / alone["p99 ms"],
        "service MB before": before,
        "service MB most": most,
        "attackers' address": "shared" if shared else "their own",
        "loop": "asyncio" if plain else "auto",
    }


def attacked(
    port: int,
    slow: str,
    greedy: str,
    bundle: Path,
    scale: float,
    only: list[str],
    shared: bool,
    seconds: float,
    own: Any,
) -> Any:
    """What the honest find while the attackers are there."""
    stop, ready = SPAWN.Event(), SPAWN.Event()
    attack = SPAWN.Process(target=attackers, args=(port, slow, greedy, str(bundle), scale, only, shared, ready, stop))
    attack.start()
    try:
        assert ready.wait(120)
        return in_process(honest, port, own, str(bundle), seconds)
    finally:
        stop.set()
        attack.join()


def told(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Rounds as one."""
    times = 1000 * np.concatenate([p.pop("times") for p in parts])
    sums = {name: sum(p[name] for p in parts) for name in parts[0]}
    return {**sums, "p50 ms": float(np.percentile(times, 50)), "p99 ms": float(np.percentile(times, 99)),
            "longest ms": float(times.max())}  # fmt: skip


def in_process(work: Any, *arguments: Any) -> Any:
    """What a function returns in a process of its own."""
    pipe, end = SPAWN.Pipe()
    process = SPAWN.Process(target=_send, args=(end, work, arguments))
    process.start()
    end.close()
    try:
        return pipe.recv()
    finally:
        process.join()


def _send(end: Any, work: Any, arguments: Any) -> None:
    end.send(work(*arguments))


def honest(port: int, keys: list[str], bundle: str, seconds: float) -> dict[str, Any]:
    """Clients that check their answers; the times of their requests."""
    from tacit.release.answer import Answerer
    from tacit.release.bundle import read_bundle

    answerer = Answerer(read_bundle(bundle))
    own = np.random.default_rng(0).standard_normal((len(keys), 4, *answerer.shape))
    expected = [answerer.answer(Z)["answers"] for Z in own]
    tally: dict[str, Any] = {"answered": 0, "lost": 0, "asked again": 0, "times": []}

    async def one(key: str, Z: np.ndarray, answer: Any, until: float) -> None:
        data = request(key, json.dumps({"release": Z.tolist()}).encode())
        link = None
        while time.perf_counter() < until:
            began, found = time.perf_counter(), None
            while found is None and time.perf_counter() < began + 60:
                try:
                    link = link or await asyncio.open_connection("127.0.0.1", port)
                    status, body = await exchange(link, data)
                    found = json.loads(body)["answers"] if status == 200 else None
                except (OSError, asyncio.IncompleteReadError, ValueError):
                    link = None
                if found is None:
                    tally["asked again"] += 1
                    await asyncio.sleep(0.05)
            tally["times"].append(time.perf_counter() - began)
            tally["answered" if found == answer else "lost"] += 1

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one(*c, until) for c in zip(keys, own, expected, strict=True)))

    asyncio.run(all_of_them())
    return tally


def request(key: str, body: bytes) -> bytes:
    """A whole request for answers."""
    head = f"POST /v1/analyze HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def exchange(link: Any, data: bytes) -> tuple[int, bytes]:
    """Status and body of an answer."""
    reader, writer = link
    writer.write(data)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


def attackers(
    port: int, slow: str, greedy: str, bundle: str, scale: float, only: list[str], shared: bool, ready: Any, stop: Any
) -> None:
    """All who do not wish well, until they are told to stop."""
    from tacit.release.bundle import read_bundle

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    shape = read_bundle(bundle).manifest["output"]["shape"]
    large = request(greedy, json.dumps({"release": np.zeros((1024, *shape)).tolist()}).encode())
    plain = "Host: localhost\r\n\r\n"
    files = [f"GET {p} HTTP/1.1\r\n{plain}".encode() for p in ("/v1/bundle/model.onnx",
             "/page/runtime/ort-wasm-simd-threaded.wasm")]  # fmt: skip
    head = request(slow, b"x" * 100_000)[:-100_000]
    trickled = [b"GET / HTTP/1.1\r\nX-Slow: ", head]
    arrived = 0

    async def connected(i: int) -> socket.socket:
        nonlocal arrived
        link = socket.socket()
        link.setblocking(False)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if not shared:
            link.bind((f"127.0.0.{2 + i % 4}", 0))
        await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", port))
        arrived += 1
        return link

    async def again(i: int, work: Any) -> None:
        loop = asyncio.get_running_loop()
        while True:
            link = None
            try:
                link = await connected(i)
                await work(loop, link, i)
            except OSError:
                pass
            finally:
                if link is not None:
                    link.close()
            await asyncio.sleep(1)

    async def idle(loop: Any, link: socket.socket, i: int) -> None:
        await loop.sock_recv(link, 1)  # until it is put out

    async def reads(loop: Any, link: socket.socket, i: int) -> None:
        await loop.sock_sendall(link, files[i % 2])
        while await loop.sock_recv(link, 1):
            await asyncio.sleep(1)

    async def writes(loop: Any, link: socket.socket, i: int) -> None:
        await loop.sock_sendall(link, trickled[i % 2])
        while True:
            await asyncio.sleep(1)
            await loop.sock_sendall(link, b"x")

    async def asks(i: int) -> None:
        while True:
            try:
                own = None if shared else ("127.0.0.2", 0)
                link = await asyncio.open_connection("127.0.0.1", port, local_addr=own, limit=2**22)
                while True:
                    await exchange(link, large)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.1)

    async def all_of_them() -> None:
        some = {"idle": (IDLE, idle), "readers": (READERS, reads), "writers": (WRITERS, writes)}
        chosen = [some[name] for name in only if name in some]
        tasks = [asyncio.create_task(again(i, work)) for n, work in chosen for i in range(int(scale * n))]
        greedy_ones = int(max(4, scale * GREEDY)) if "greedy" in only else 0
        tasks += [asyncio.create_task(asks(i)) for i in range(greedy_ones)]
        while arrived < sum(int(scale * n) for n, _ in chosen):
            await asyncio.sleep(0.1)
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())


def memory(pid: int) -> dict[str, float]:
    """Of a process, in MB: now (VmRSS) and at most (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}


if __name__ == "__main__":
    main()
