"""Hook of mkdocs: where a line may end in the code of a sentence. Not in an option; after a / and in long names."""

from __future__ import annotations

import re
from typing import Any

LONG = 22  # letters: about half the width of a phone


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(r"(?<=<code>)[^<]*(?=</code>)", lambda code: _marked(code[0]), html)


def _marked(code: str) -> str:
    """Options are of a class that style/tacit.css keeps whole; ``wbr`` is a place where a line may end."""
    code = re.sub(r"/(?=\w)", "/<wbr>", code)
    code = re.sub(rf"[\w.:]{{{LONG},}}", lambda name: re.sub(r"(?<=\w)(?:::|[_.])(?=\w)", r"\g<0><wbr>", name[0]), code)
    return re.sub(r"(?<![\w-])--?[a-z][\w-]*", r'<span class="option">\g<0></span>', code)
