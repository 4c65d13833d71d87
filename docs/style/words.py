"""Hook of mkdocs: in a line of text no line ends within an option such as ``--drop``; after the / of a path one may."""

from __future__ import annotations

import re
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(r"(?<=<code>)[^<]*(?=</code>)", lambda code: _marked(code[0]), html)


def _marked(code: str) -> str:
    """Options are of a class that style/tacit.css keeps whole."""
    return re.sub(r"(?<![\w-])--?[a-z][\w-]*", r'<span class="option">\g<0></span>', re.sub(r"/(?=\w)", "/<wbr>", code))
