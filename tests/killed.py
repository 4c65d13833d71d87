"""A training that is killed with SIGKILL after its second epoch, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def train_and_kill(module: str, call: str, label: str | None = None) -> None:
    """Run `call`, an expression on the test module `t`, and kill it once two epochs (of `label`) are written."""
    code = f"""
    import os, signal, sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    import {module} as t
    import torch
    torch.set_num_threads(1)
    write = t.Training._write
    def killed(self, path):
        write(self, path)
        if self._done == 2 and self._label == ({label!r} or self._label):
            os.kill(os.getpid(), signal.SIGKILL)
    t.Training._write = killed
    {call}
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True)
    assert ran.returncode == -9, ran.stderr.decode()
