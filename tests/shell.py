"""The shell of the documents: a page's commands, run one after the other in a reader's folder."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from commands import tacit_command
from service import running

ROOT = Path(__file__).parent.parent
PORT = "http://127.0.0.1:8000"  # where pages say that a service is; tests take a free one


class Shell:
    """Runs blocks in the folder that is current. Use it as a context: what it started is ended with it."""

    def __init__(self, shims: Path) -> None:
        self.shims, self.address, self.stack = shims, PORT, contextlib.ExitStack()
        for name, words in {"tacit": "-P -m tacit", "python": ""}.items():  # of this environment, wherever it lies
            script = shims / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            script.chmod(0o755)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stack.close()

    def run(self, code: str, prompts: bool = False) -> None:
        """Every line must end with 0, or with what its comment says it ends with (`# ends with 3`)."""
        for line in lines(code, prompts):
            command, _, comment = line.partition(" #")
            told = re.search(r"ends with (\d)", comment)
            ended, said = self._line(command.replace(PORT, self.address).strip())
            wanted = int(told[1]) if told else 0
            assert ended == wanted, f"`{line}` ended with {ended}, not with {wanted}:\n{said[-3000:]}"

    def _line(self, command: str) -> tuple[int, str]:
        if command.startswith("make "):  # it would run this test; but there must be such a target
            target = command.split()[1]
            return int(not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)), "no such target"
        if command.startswith("tacit serve run "):
            words = shlex.split(command)[3:]
            self.address, _ = self.stack.enter_context(running(Path(words[0]), *words[1:]))
            return 0, ""
        if command.startswith("tacit ") and not re.search(r"[|&<;]", command):
            return self._here(command)
        environment = {**os.environ, "PATH": f"{self.shims}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment, timeout=600)
        return ran.returncode, ran.stdout + ran.stderr

    def _here(self, command: str) -> tuple[int, str]:
        """In this process, where learning is short; a process of its own takes seconds to start."""
        command, _, file = command.partition(" > ")
        words = [found for word in shlex.split(command)[1:] for found in (sorted(glob.glob(word)) or [word])]
        ran = tacit_command(*words)
        if file:
            Path(file.strip()).write_text(ran.stdout)
        return ran.returncode, ran.stdout + ran.stderr


def lines(code: str, prompts: bool = False) -> list[str]:
    """The commands of a block; where it has prompts, those that stand behind one."""
    whole = [line.strip() for line in code.replace("\\\n", " ").splitlines()]
    if prompts:
        return [line.removeprefix("$ ") for line in whole if line.startswith("$ ")]
    return [line for line in whole if line and not line.startswith("#")]
