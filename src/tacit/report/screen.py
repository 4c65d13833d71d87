"""The terminal as everything of ours writes to it: styles are rich's, and all text is made plain on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from tacit.report.foreign import on_screen


class Console(rich.console.Console):
    """A console on which no text, ours or a stranger's, does more than stand there."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else Segment(on_screen(part.text), part.style)
