"""Hook of mkdocs: an option in a line of text, such as ``--drop``, is one word, which no line may end within."""

from __future__ import annotations

import re
from typing import Any


def on_page_content(html: str, **_: Any) -> str:
    """The page, with the options in its inline code marked; style/tacit.css keeps them whole."""
    mark = lambda code: re.sub(r"(?<![\w-])(--?[a-z][\w-]*)", r'<span class="option">\1</span>', code[0])  # noqa: E731
    return re.sub(r"<code>[^<]*</code>", mark, html)
