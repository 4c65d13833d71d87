"""Processes that release parts, and a thread that reads ahead of them."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

from tacit.cores import safe_path
from tacit.errors import TacitError
from tacit.release.runtime import Release

T = TypeVar("T")


class Workers:
    """Runs functions of a release: here, or in several processes that each have their own."""

    def __init__(self, release: Release, jobs: int) -> None:
        self.release, self.most = release, 0 if jobs == 1 else jobs
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            threads = max(1, (os.cpu_count() or 1) // jobs)
            self._pool = ProcessPoolExecutor(
                jobs,
                # a forked copy of onnxruntime's and Arrow's threads may hang
                multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(release._bundle, release.noise_key, threads),
            )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[..., int], *arguments: Any) -> Future[int]:
        """Start `work(release, *arguments)`."""
        if self._pool is not None:
            try:
                with safe_path():  # processes are started when they are needed
                    return self._pool.submit(_work, work, arguments)
            except BrokenExecutor:
                raise TacitError(DIED) from None
        done: Future[int] = Future()
        done.set_result(work(self.release, *arguments))
        return done

    def result(self, started: Future[int]) -> int:
        try:
            return started.result()
        except BrokenExecutor:
            raise TacitError(DIED) from None


DIED = (
    "a working process died (killed, or out of memory). What is finished is kept: run again to resume, with fewer jobs "
    'if memory was short. In a script, several jobs need an `if __name__ == "__main__":` around the call'
)
_release: Release


def _start(bundle: Any, key: bytes | None, threads: int) -> None:
    global _release
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # which the runtime goes by
    _release = Release(bundle, key)
    # where the first process is killed, nobody would ever tell this one to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(work: Callable[..., int], arguments: tuple[Any, ...]) -> int:
    return work(_release, *arguments)


def ahead(parts: Iterable[T]) -> Iterator[T]:
    """The same parts, each read by a thread while the one before is worked on."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(1)
    stopped = threading.Event()

    def put(item: tuple[bool, Any]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for part in parts:
                if not put((True, part)):
                    return
            put((False, None))
        except BaseException as error:  # given on to whoever waits
            put((False, error))

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            more, item = ready.get()
            if more:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.set()
