"""The doors of the service: how many connections, from where, and how long each may do nothing.

A connection costs little until it is let in with a key; so the doors are not shut when they are crowded. Where one
address, or all together, have too many, the one that has waited longest without being of use is put out for the new
one, of those that never had an answer first. Whoever sends or reads too slowly is put out by the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

KEPT = 30.0  # seconds that a connection which had an answer is kept for the next request
SEND_BUFFER = 2**17  # bytes that the system holds for a reader who does not read


@dataclass(frozen=True)
class Patience:
    """How many connections there may be, and how slow.

    Attributes
    ----------
    connections : at a time
    per_address : of them, from one address (of IPv6, one network of 64 bits); a proxy has no such limit
    head_seconds : that the head of a request, or the start of TLS, may take
    write_seconds : that a reader may take for what was sent to it
    proxy : network of a proxy, the only one who may connect
    """

    connections: int = 4096
    per_address: int = 512
    head_seconds: float = 10.0
    write_seconds: float = 10.0
    proxy: Any = None


class Visit(H11Protocol):
    """One connection, and what it has been good for so far."""

    origin = ""
    admitted = proven = False  # a request of it is worked on; it has had an answer
    doors: Doors

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since, self.head_since, self.paused_since = time.monotonic(), 0.0, 0.0
        inner = self.app

        async def with_visit(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, "tacit.visit": self}, receive, send)

        self.app = with_visit
        self.doors.visits.setdefault(self.origin, set()).add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.doors.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.head_since and not self.at_work:
            self.head_since = time.monotonic()
        super().data_received(data)
        if self.at_work:
            self.head_since = 0.0

    def on_response_complete(self) -> None:
        self.since, self.head_since = time.monotonic(), 0.0
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.paused_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.paused_since = 0.0
        super().resume_writing()

    @property
    def at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def too_slow(self, now: float, patience: Patience) -> bool:
        """Whether it has sent or read nothing for too long."""
        if self.paused_since and now - self.paused_since > patience.write_seconds:
            return True
        if self.at_work:
            return False  # the app has its own clock
        if self.head_since and now - self.head_since > patience.head_seconds:
            return True
        unread = self.transport.is_closing() or self.transport.get_write_buffer_size()
        most = patience.write_seconds if unread else KEPT if self.proven else patience.head_seconds
        return now - self.since > most


class Doors(uvicorn.Server):
    """A server that accepts connections itself."""

    def __init__(self, config: uvicorn.Config, patience: Patience, counts: Counter[str]) -> None:
        super().__init__(config)
        self.patience, self.counts = patience, counts
        self.visits: dict[str, set[Visit]] = {}
        # by address, who has sent nothing yet, the first to come first: a socket and a time are all they cost
        self.outside: dict[str, dict[socket.socket, float]] = {}
        self.opening: Counter[str] = Counter()
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        for listening in sockets or []:
            listening.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        for origin in list(self.outside):
            while origin in self.outside:
                self._send_away(origin, "shutdown")
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % 5 == 0:
            now = time.monotonic()
            for visit in [v for some in self.visits.values() for v in some if v.too_slow(now, self.patience)]:
                self._put_out(visit, "slow")
            came = [(o, t) for o, queue in self.outside.items() for t in queue.values()]
            for origin in [o for o, t in came if now - t > self.patience.head_seconds]:
                self._send_away(origin, "slow")
        return await super().on_tick(counter)

    def forget(self, visit: Visit) -> None:
        """A connection that is gone."""
        there = self.visits.get(visit.origin, set())
        there.discard(visit)
        if not there:
            self.visits.pop(visit.origin, None)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # those who are here come first: a crowd may be waiting outside
            try:
                came, peer = await loop.sock_accept(listening)
            except OSError:  # no more files may be open, or the visitor has gone
                self._make_room(self._largest())
                await asyncio.sleep(0.05)
                continue
            origin = origin_of(peer[0], self.patience.proxy)
            if origin is None or not self._room(origin):
                self.counts["refused"] += 1
                came.close()
                continue
            self.outside.setdefault(origin, {})[came] = time.monotonic()
            loop.add_reader(came, self._knock, came, origin)

    def _knock(self, came: socket.socket, origin: str) -> None:
        """Somebody who waited outside sends something, or has gone."""
        self._take(came, origin)
        came.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self.opening[origin] += 1
        task = asyncio.get_running_loop().create_task(self._open(came, origin))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def _take(self, came: socket.socket, origin: str) -> None:
        asyncio.get_running_loop().remove_reader(came)
        del self.outside[origin][came]
        if not self.outside[origin]:
            del self.outside[origin]

    async def _open(self, came: socket.socket, origin: str) -> None:
        """Greet a visitor; with TLS that takes a while."""
        loop = asyncio.get_running_loop()

        def visit() -> Visit:
            made = Visit(config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop)
            made.origin, made.doors = origin, self
            return made

        tls = self.config.ssl
        try:
            await loop.connect_accepted_socket(
                visit, came, ssl=tls, ssl_handshake_timeout=self.patience.head_seconds if tls else None
            )
        except (OSError, ssl.SSLError, TimeoutError):
            came.close()
        finally:
            self.opening[origin] -= 1
            if not self.opening[origin]:
                del self.opening[origin]

    def count(self, origin: str) -> int:
        """Connections from an address."""
        return len(self.visits.get(origin, ())) + len(self.outside.get(origin, ())) + self.opening[origin]

    def _largest(self) -> str:
        return max({*self.visits, *self.outside}, key=self.count, default="")

    def _room(self, origin: str) -> bool:
        """Whether there is room for one more; somebody useless leaves for it."""
        if origin != PROXY and self.count(origin) >= self.patience.per_address:
            return self._make_room(origin)
        total = len(self.server_state.connections) + self.opening.total() + sum(map(len, self.outside.values()))
        return total < self.patience.connections or self._make_room(self._largest())

    def _make_room(self, origin: str) -> bool:
        if origin in self.outside:
            self._send_away(origin, "put out")
            return True
        idle = [v for v in self.visits.get(origin, ()) if not v.admitted]
        if not idle:
            return False
        self._put_out(min(idle, key=lambda v: (v.proven, v.since)), "put out")
        return True

    def _send_away(self, origin: str, why: str) -> None:
        """The one who has waited longest outside."""
        self.counts[why] += 1
        first = next(iter(self.outside[origin]))
        self._take(first, origin)
        first.close()

    def _put_out(self, visit: Visit, why: str) -> None:
        self.counts[why] += 1
        self.forget(visit)
        visit.transport.abort()


PROXY = "proxy"


def origin_of(address: str, proxy: Any = None) -> str | None:
    """What counts as one address: a network of 64 bits of IPv6. Where there is a proxy, none but it may come.

    Examples
    --------
    >>> origin_of("192.0.2.7"), origin_of("2001:db8::1"), origin_of("192.0.2.7", ipaddress.ip_network("10.0.0.0/8"))
    ('192.0.2.7', '2001:db8::/64', None)
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if proxy is not None:
        return PROXY if found in proxy else None
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


def allow_many_files(most: int) -> None:
    """Each connection is an open file: take as many of them as the system lets this process have."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on every system

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = most + 256
        if soft != resource.RLIM_INFINITY and soft < wanted:
            limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
