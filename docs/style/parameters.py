"""Griffe extension: Tacit's docstrings write ``name : what it is`` on one line; show that as the description."""

from __future__ import annotations

from typing import Any

import griffe


class OneLineParameters(griffe.Extension):
    """Moves what numpydoc takes for a parameter's type to its description, where it has none of its own."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        for section in obj.docstring.parsed:
            if section.kind not in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes):
                continue
            for item in section.value:
                if item.annotation is not None:
                    item.description = " ".join(filter(None, [str(item.annotation), item.description]))
                    item.annotation = None
