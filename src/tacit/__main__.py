"""`python -m tacit`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a file there that is called like a module would be run

from tacit.cli import main

main()
