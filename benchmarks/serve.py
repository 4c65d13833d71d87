"""The service under load, on loopback: many clients at once, each of which checks that its answers are its own.

    python benchmarks/serve.py [--clients 200] [--seconds 30]

The service runs as users run it (`tacit serve`, one process); the clients are another process. Every client sends
releases of its own and compares the answers with what the analyzer gives for exactly these; 503 is asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import ssl
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from siege import in_process

ROWS, SETS = 4, 50  # releases in a request; different requests of a client


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle, keys = make_bundle(Path(folder)), Path(folder) / "keys.json"
        from tacit.serve.keys import add_key

        key = add_key(keys, "load")
        command = [sys.executable, "-c", "from tacit.cli import main; main()", "serve", str(bundle), "--port", "0"]
        with subprocess.Popen(
            [*command, "--keys", str(keys), "--per-key", "256"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as service:
            try:
                assert service.stdout is not None
                url = service.stdout.readline().split()[-1].rstrip("/")
                before = memory(service.pid)
                found = in_process(load, url, key, str(bundle), asked.clients, asked.seconds)
                after = memory(service.pid)
            finally:
                service.kill()
    result = {
        **found,
        "clients": asked.clients,
        "rows a request": ROWS,
        "service MB before": before["VmRSS"],
        "service MB most": after["VmHWM"],
        "cores": os.cpu_count(),
        "machine": platform.machine(),
    }
    for name, value in result.items():
        print(f"{name:>20}: {value:,.4g}" if isinstance(value, float) else f"{name:>20}: {value}")
    asked.out.write_text(json.dumps(result, indent=1) + "\n")


def make_bundle(folder: Path) -> Path:
    import tacit

    train, rest = tacit.load_dataset("digits").split((0.5, 0.5), random_state=0)
    f = tacit.EIGAN(n_components=8, epochs=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parity is a function of the digit
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return tacit.save(f, folder / "digits.tacit", analyzer=tacit.serve.fit_analyzer(f, rest, epochs=20))


def load(url: str, key: str, bundle: str, clients: int, seconds: float) -> dict[str, Any]:
    """The clients."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    return asyncio.run(all_clients(url, key, bundle, clients, seconds))


async def all_clients(url: str, key: str, bundle: str, clients: int, seconds: float) -> dict[str, Any]:
    from tacit.release.answer import Answerer
    from tacit.release.bundle import read_bundle

    answerer = Answerer(read_bundle(bundle))
    tally: dict[str, Any] = {"asked": 0, "answered": 0, "mixed up": 0, "lost": 0, "asked again (503)": 0, "times": []}
    # releases that no other client sends, so that another's answer would be seen
    rng = np.random.default_rng(0)
    own = rng.standard_normal((clients, SETS, ROWS, *answerer.shape))
    expected = [[answerer.answer(Z)["answers"] for Z in sets] for sets in own]
    trust = ssl.create_default_context()  # once: it is slow to make, and not used
    async with contextlib.AsyncExitStack() as stack:
        each = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=60, verify=trust, headers={"authorization": f"Bearer {key}"})
            )
            for _ in range(clients)
        ]
        began = time.perf_counter()
        await asyncio.gather(*(one_client(*c, tally, began + seconds) for c in zip(each, own, expected, strict=True)))
        took = time.perf_counter() - began
    times = np.array(tally.pop("times"))
    return {
        **tally,
        "seconds": took,
        "requests a second": len(times) / took,
        "p50 ms": float(np.percentile(times, 50) * 1000),
        "p99 ms": float(np.percentile(times, 99) * 1000),
        "longest ms": float(times.max() * 1000),
    }


async def one_client(
    http: httpx.AsyncClient, own: np.ndarray, expected: list[Any], tally: dict[str, Any], until: float
) -> None:
    turn = 0
    while time.perf_counter() < until:
        at = turn % SETS
        turn += 1
        tally["asked"] += 1
        began = time.perf_counter()
        try:
            while True:
                found = await http.post("/v1/analyze", json={"release": own[at].tolist()})
                if found.status_code != 503:
                    break
                tally["asked again (503)"] += 1
                await asyncio.sleep(0.05)
        except httpx.HTTPError:
            tally["lost"] += 1
            continue
        tally["times"].append(time.perf_counter() - began)
        if found.status_code != 200:
            tally["lost"] += 1
            continue
        tally["answered"] += 1
        tally["mixed up"] += found.json()["answers"] != expected[at]


def memory(pid: int) -> dict[str, float]:
    """Of a process, in MB: now (VmRSS) and at most (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}


if __name__ == "__main__":
    main()
