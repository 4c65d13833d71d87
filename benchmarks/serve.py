"""How fast the service answers honest clients, alone and while another client sends hostile bodies.

    python benchmarks/serve.py [--clients 20] [--seconds 10]

The service runs as users run it (`tacit serve run`, one process, no proxy); the clients are another process. Every
honest client sends its own releases and compares the answers with what the analyzer gives for exactly these. The
hostile client has a key too. Its bodies are JSON of the largest size that the service reads, over `--hostile`
connections; they follow the finding F6 of a security review, where such a client took most of the service's time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import numpy as np

ROWS, SETS = 4, 50  # releases in a request; different requests of a client


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=20)
    options.add_argument("--hostile", type=int, default=8)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = options.parse_args()
    result: dict[str, Any] = {"clients": given.clients, "hostile connections": given.hostile, "rows a request": ROWS,
                              "cores": os.cpu_count(), "machine": platform.machine()}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        bundle, keys = make_bundle(Path(folder)), Path(folder) / "keys.json"
        from tacit.serve.keys import add_key

        honest, hostile = add_key(keys, "honest"), add_key(keys, "hostile")
        command = "from tacit.cli import main; main()", "serve", "run", str(bundle), "--port", "0"
        with subprocess.Popen([sys.executable, "-c", *command, "--api-keys", str(keys)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as service:  # fmt: skip
            try:
                assert service.stdout is not None
                url = service.stdout.readline().split()[-1].rstrip("/")
                for kind in ("alone", "objects", "numbers"):
                    load = (url, honest, str(bundle), given.clients, given.seconds)
                    attack = (url, hostile, kind, given.hostile, given.seconds + 1)
                    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
                        attacker = pool.submit(run_hostile, *attack) if kind != "alone" else None
                        result[kind] = pool.submit(run_honest, *load).result()
                        result[kind]["hostile requests"] = attacker.result() if attacker else 0
                    result[kind]["service MB"] = memory(service.pid)
            finally:
                service.kill()
    print(json.dumps(result, indent=1))
    given.out.write_text(json.dumps(result, indent=1) + "\n")


def make_bundle(folder: Path) -> Path:
    import tacit

    train, rest = tacit.load_dataset("digits").split((0.5, 0.5), random_state=0)
    f = tacit.EIGAN(n_components=8, epochs=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parity is a function of the digit
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return tacit.save(f, folder / "digits.tacit", analyzer=tacit.serve.fit_analyzer(f, rest, epochs=20))


def run_honest(url: str, key: str, bundle: str, clients: int, seconds: float) -> dict[str, float]:
    from tacit.release.answer import Answerer
    from tacit.release.bundle import read_bundle

    answerer = Answerer(read_bundle(bundle))
    # releases that no other client sends, so that another's answer would be noticed
    own = np.random.default_rng(0).standard_normal((clients, SETS, ROWS, *answerer.shape))
    expected = [[answerer.answer(Z)["answers"] for Z in sets] for sets in own]
    times: list[float] = []
    wrong = 0

    async def one(at: int, until: float) -> None:
        nonlocal wrong
        async with connection(url, key) as http:
            turn = 0
            while time.perf_counter() < until:
                began, turn = time.perf_counter(), (turn + 1) % SETS
                found = await http.post("/v1/analyze", json={"release": own[at, turn].tolist()})
                times.append(time.perf_counter() - began)
                wrong += found.status_code != 200 or found.json()["answers"] != expected[at][turn]

    async def everyone() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one(i, until) for i in range(clients)))

    asyncio.run(everyone())
    p50, p99 = np.percentile(times, (50, 99)) * 1000
    return {"requests a second": len(times) / seconds, "wrong or lost": wrong, "p50 ms": p50, "p99 ms": p99}


def run_hostile(url: str, key: str, kind: str, connections: int, seconds: float) -> int:
    """Send the largest bodies that are parsed, and return how many were answered."""

    async def one(until: float) -> int:
        async with connection(url, key) as http:
            about = (await http.get("/v1/bundle")).json()
            size = about["max_rows"] * about["output"]["shape"][0] * 32
            if kind == "objects":
                body = b'{"release":[' + b"{}," * ((size - 20) // 3) + b"{}]}"
            else:
                row = [-1.2345678901234567e-300] * about["output"]["shape"][0]
                body = json.dumps({"release": [row] * about["max_rows"]}).encode()
            n = 0
            while time.perf_counter() < until:
                await http.post("/v1/analyze", content=body, headers={"content-type": "application/json"})
                n += 1
            return n

    async def everyone() -> int:
        until = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(one(until) for _ in range(connections))))

    return asyncio.run(everyone())


def connection(url: str, key: str) -> httpx.AsyncClient:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # quick to make, and not used
    return httpx.AsyncClient(base_url=url, timeout=60, verify=trust, headers={"authorization": f"Bearer {key}"})


def memory(pid: int) -> float:
    """Return the most memory that a process has had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
