"""The command line in the tests' own process: a process of its own costs two CPU-seconds of imports."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from unittest import mock

from tacit.cli import main


def tacit_command(*arguments, **environment) -> subprocess.CompletedProcess:
    """What the command prints and how it ends."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    words = [str(a) for a in arguments]
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80", **environment}),
        mock.patch.object(sys, "argv", ["tacit", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()  # notes, as users see them
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
