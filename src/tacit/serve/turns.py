"""Shares of a service: how much one may have under way, and who is computed next.

One is a key's name, or an address where there are no keys. Nobody waits in a queue without an end: what is too much is
refused at once. Of those who were let in, whoever has had the least computing time comes next, so that one who asks
for much waits for themselves and not the others for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.exceptions import HTTPException

T = TypeVar("T")
BUSY = "the service is busy; try again"
SOON = {"retry-after": "1"}


class Slots:
    """So many at a time, so many of one, and so many bytes of all that are held."""

    def __init__(self, most: int, each: int, most_bytes: int = 0) -> None:
        self.free, self.each, self.bytes_free = most, each, most_bytes
        self.of: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, who: str) -> Iterator[None]:
        """One slot; 429 where this one has enough of them, 503 where nobody can have more."""
        if self.of[who] >= self.each:
            raise HTTPException(429, f"{self.each} requests of yours are under way; wait for an answer", SOON)
        if self.free <= 0:
            raise HTTPException(503, BUSY, SOON)
        self.free -= 1
        self.of[who] += 1
        try:
            yield
        finally:
            self.free += 1
            self.of[who] -= 1
            if not self.of[who]:
                del self.of[who]

    @contextlib.contextmanager
    def held(self) -> Iterator[Callable[[int], None]]:
        """Count bytes that arrive; they are free again when the block ends."""
        held = 0

        def more(n: int) -> None:
            nonlocal held
            if n > self.bytes_free:
                raise HTTPException(503, BUSY, SOON)
            self.bytes_free -= n
            held += n

        try:
            yield more
        finally:
            self.bytes_free += held


class Turns:
    """So many are computed at a time, of one at most half; next is whoever has had the least time.

    (Start-time fair queueing: time had is counted from when others wait, so that nobody saves any up.)
    """

    def __init__(self, threads: int) -> None:
        self._free, self._each, self._now = threads, max(1, threads // 2), 0.0
        self._running: Counter[str] = Counter()
        self._limiter = CapacityLimiter(threads)
        self._had: dict[str, float] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, who: str, work: Callable[[], T]) -> T:
        """The result of `work`, done in a thread when it is this one's turn."""
        await self._turn(who)
        took = 0.0

        def timed() -> T:
            nonlocal took
            began = time.thread_time()
            try:
                return work()
            finally:
                took = time.thread_time() - began

        try:
            return await anyio.to_thread.run_sync(timed, limiter=self._limiter)
        finally:
            self._had[who] += took
            self._leave(who)

    async def _turn(self, who: str) -> None:
        # who comes back after a while has saved nothing up
        self._had[who] = max(self._now, self._had.get(who, 0.0))
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(mine)
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._leave(who)  # it had come up just now
            raise

    def _leave(self, who: str) -> None:
        self._free += 1
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        self._next()

    def _next(self) -> None:
        while self._free:
            able = [w for w in self._waiting if self._running[w] < self._each]
            if not able:
                break
            who = min(able, key=self._had.__getitem__)
            first = self._waiting[who].popleft()
            if not self._waiting[who]:
                del self._waiting[who]
            if not first.done():
                self._now = max(self._now, self._had[who])
                self._free -= 1
                self._running[who] += 1
                first.set_result(None)
        if not self._waiting:
            self._had = {w: had for w, had in self._had.items() if had > self._now or w in self._running}
