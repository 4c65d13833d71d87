"""What others wrote, made plain text where it leaves for a screen or a page: names, cards, categories, messages.

HTML is made by templates that escape everything. Standard library alone.
"""

from __future__ import annotations

import re

# controls but for tab and newline, and what turns the direction of writing or hides in a line
ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def on_screen(text: str) -> str:
    r"""Text without a character that could move the cursor, clear the screen or turn the line around.

    Examples
    --------
    >>> on_screen("\x1b[2Jsigned")
    '\\x1b[2Jsigned'
    """
    return ODD.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
