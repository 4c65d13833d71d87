"""`tacit data show`: describe a data set by name, or a user's own folder or file."""

from __future__ import annotations

import warnings
from inspect import cleandoc
from pathlib import Path

import numpy as np
from rich.markup import escape

import tacit
from tacit.datasets import declarations, load_dataset
from tacit.datasets.where import WHERE
from tacit.errors import InputError
from tacit.report.screen import Console


def run(
    console: Console,
    name: str,
    target: list[str] | None,
    sensitive: list[str] | None,
    unit: str | None,
    user: str | None,
    trial: str | None,
    time: str | None,
    channel: list[str] | None,
    length: int,
    stride: int,
    size: int | None,
) -> None:
    given: dict[str, object] = {
        "--target": target,
        "--sensitive": sensitive,
        "--unit": unit,
        "--user": user,
        "--trial": trial,
    }
    given |= {"--time": time, "--channel": channel, "--size": size}
    if name in declarations() or not Path(name).exists():
        extra = [option for option, value in given.items() if value]
        if name in declarations() and extra:
            raise InputError(
                f"{name} is a data set of Tacit, whose columns are fixed; {extra[0]} is for your own files"
            )
        data = load_dataset(name)  # where it is not here, the error says where to get it and how to pack it
        console.print(_prose(declarations()[name].load.__doc__ or ""), highlight=False, markup=False)
        console.print(f"Licence: {declarations()[name].licence}", highlight=False, markup=False)
        if name in WHERE:
            console.print(f"From: {WHERE[name]}", highlight=False, markup=False)
            console.print(f"Pack what you got: tacit data prepare {name} FOLDER", highlight=False, markup=False)
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", tacit.TacitWarning)
            if Path(name).is_dir():
                data = tacit.read_images(name, target=target or [], sensitive=sensitive or [], unit=unit, size=size)
            elif user is not None:
                data = tacit.read_windows(
                    name,
                    user=user,
                    trial=trial,
                    time=time,
                    channels=channel or None,
                    length=length,
                    stride=stride,
                    target=target or [],
                    sensitive=sensitive or None,
                )
            else:
                data = tacit.read_table(name, target or [], sensitive or [], unit)
        for warning in caught:
            console.print(f"[yellow]note:[/yellow] {escape(str(warning.message))}", highlight=False)
    _describe(console, data)


def _prose(doc: str) -> str:
    """A docstring whose paragraphs wrap where the terminal does; its lists of parameters stay as they are."""
    parts = cleandoc(doc).split("\n\n")
    return "\n\n".join(part if "\n---" in part else part.replace("\n", " ") for part in parts)


def _describe(console: Console, data: tacit.Dataset) -> None:
    console.print(repr(data), highlight=False, markup=False)
    for side, frame in (("target", data.y), ("sensitive", data.sensitive)):
        for column in frame:
            counts = frame[column].value_counts().head(8)
            shares = ", ".join(f"{k} {v / len(data):.1%}" for k, v in counts.items())
            more = f", and {frame[column].nunique() - 8} more" if frame[column].nunique() > 8 else ""
            console.print(f"  {side} {column}: {shares}{more}", highlight=False, markup=False)
    for attribute, units in (data.units or {}).items():
        of = "" if attribute == "*" else f" of {attribute}"
        console.print(f"  units{of}: {len(np.unique(units)):,}", highlight=False, markup=False)
