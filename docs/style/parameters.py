"""Griffe extension: Tacit's docstrings write ``name : what it is`` on one line; show that as the description."""

from __future__ import annotations

import re
from typing import Any

import griffe

KINDS = griffe.DocstringSectionKind


class OneLineParameters(griffe.Extension):
    """Moves what numpydoc takes for a parameter's type to its description, where it has none of its own."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        obj.docstring.value = prose_first(obj.docstring.value)
        sections = obj.docstring.parsed
        for k, section in enumerate(sections):
            if section.kind is KINDS.returns:  # sentences, not a list of names
                told = re.search(r"^Returns\n-+\n(.*?)(?=\n\n|\Z)", obj.docstring.value, re.M | re.S)
                sections[k] = griffe.DocstringSectionText(f"**Returns:** {told[1]}" if told else "")
            elif section.kind in (KINDS.parameters, KINDS.attributes):
                for item in section.value:
                    if item.annotation is not None:
                        item.description = " ".join(filter(None, [str(item.annotation), item.description]))
                        item.annotation = None


def prose_first(text: str) -> str:
    """The docstring, sentences that follow a list of parameters set before it: numpydoc takes them for parameters."""
    first, *sections = re.split(r"^(?=[A-Z]\w+\n-{3,}$)", text, flags=re.M)
    prose = []
    for k, section in enumerate(sections):
        if section.startswith(("Parameters", "Attributes")):
            listed, *rest = section.rstrip().split("\n\n")
            prose += [part for part in rest if not re.match(r"[*\w, ]+ : ", part)]
            sections[k] = "\n\n".join([listed, *(part for part in rest if part not in prose)]) + "\n\n"
    return "".join(["\n\n".join([first.rstrip(), *prose]), "\n\n", *sections])
