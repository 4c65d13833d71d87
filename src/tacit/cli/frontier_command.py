"""`tacit frontier`: trace the trade-off curves of several filters for a table, and choose by what is acceptable."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from rich.markup import escape

import tacit
from tacit.cli.fit import chosen_filter
from tacit.cli.handover import tell_keys
from tacit.cli.ledger_command import Book
from tacit.cli.tables import progress, rows_as_people, said_numbers
from tacit.errors import InputError
from tacit.release.keys import key_folder
from tacit.report.screen import Console


def run(
    console: Console,
    table: Path,
    target: list[str],
    sensitive: list[str],
    unit: str | None,
    drop: list[str] | None,
    bins: int | None,
    numeric: list[str] | None,
    filter_name: list[str] | None,
    values: str,
    seeds: int,
    attackers: str,
    minutes: float | None,
    checkpoint: Path | None,
    out: Path | None,
    choose: list[str] | None,
    certified: bool,
    save: Path | None,
    keys: Path | None,
    book: Book | None,
    jobs: int | None,
    device: str,
    seed: int,
) -> None:
    wishes = [wish(text) for text in choose or []]
    _check(wishes, certified, save, keys, book)
    said = said_numbers(numeric)
    data = rows_as_people(console, tacit.read_table(table, target, sensitive, unit, drop or [], bins, numeric=said))
    _check_names(wishes, target, sensitive)
    filters = {name: chosen_filter(name, None, seed) for name in dict.fromkeys(filter_name or ["codebook"])}
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=seed)
    with progress(console) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tacit.TacitWarning)
        task = bar.add_task("", total=None)
        front = tacit.frontier(
            filters,
            train,
            attack,
            test,
            _values(values),
            seeds,
            attackers,
            checkpoint=checkpoint,
            device=device,
            n_jobs=jobs,
            minutes=minutes,
            callback=lambda what, done, total: bar.update(
                task, description=f"{what} {done}/{total}", completed=done, total=total
            ),
        )
    for warning in sorted({str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)}):
        console.print(f"[yellow]note:[/yellow] {escape(warning)}", highlight=False)
    console.print(front, highlight=False)
    _say_left_out(console, front, minutes, checkpoint)
    if out is not None:
        console.print(f"Page: {front.to_html(out)}", highlight=False, markup=False, soft_wrap=True)
    if wishes:
        _choose(console, front, wishes, certified, save, keys, book)


def _check_names(wishes: list[tuple[str, str, float]], target: list[str], sensitive: list[str]) -> None:
    """Refuse a wish for a column that is not on its side."""
    for name, sign, _ in wishes:
        known = sensitive if sign == "<=" else target
        if name not in known:
            raise InputError(f"--choose {name}{sign}...: {name!r} is not among {', '.join(known)}")


def _say_left_out(console: Console, front: Any, minutes: float | None, checkpoint: Path | None) -> None:
    if front.left_out:
        go_on = "the same command without --minutes goes on" if checkpoint else "with --checkpoint a later run goes on"
        console.print(
            f"{minutes:g} minutes were given: {front.left_out} of {front.candidates} points are left out; {go_on}",
            highlight=False,
        )


def _check(
    wishes: list[tuple[str, str, float]], certified: bool, save: Path | None, keys: Path | None, book: Book | None
) -> None:
    """Refuse options that do not go together, before the work."""
    if (save is not None or certified) and not wishes:
        raise InputError("--save and --certified go with --choose, such as --choose 'sex<=.55'")
    if save is not None and save.suffix != ".tacit":
        raise InputError(f"a bundle is called NAME.tacit; found {save.name!r}")
    if book is not None and save is None:
        raise InputError("--ledger goes with --save: without it nothing leaves")
    if save is not None:
        key_folder(save, keys)


def _choose(
    console: Console,
    front: Any,
    wishes: list[tuple[str, str, float]],
    certified: bool,
    save: Path | None,
    keys: Path | None,
    book: Book | None,
) -> None:
    most, least = ({name: v for name, sign, v in wishes if sign == s} for s in ("<=", ">="))
    point = front.find(most, least, certified)
    report = front.report(point)
    console.print(f"\nChosen: [bold]{escape(str(point.point))}[/bold]", highlight=False)
    for name in report.leakage:
        console.print(report.sentence(name), highlight=False, markup=False)
    if save is None:
        return
    best = front.build(point)
    folder = key_folder(save, keys)
    bundle = tacit.save(best, save, keys=folder)
    if book is not None:
        try:
            release = tacit.load(save, noise_key=best.noise_key)
            from tacit.ledger.recording import record_bundle  # only where it is asked for

            book.tell(record_bundle(book.ledger, release, "frontier", save.name, book.to))
        except tacit.TacitError:
            save.unlink()  # what may not leave is not left there to be taken
            raise
    console.print(f"Bundle: {bundle}", highlight=False, markup=False, soft_wrap=True)
    tell_keys(console, bundle, folder)


def wish(text: str) -> tuple[str, str, float]:
    """ "sex<=.55" -> ("sex", "<=", .55)

    Examples
    --------
    >>> wish("income >= .84")
    ('income', '>=', 0.84)
    """
    found = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*(\d*\.?\d+)\s*", text)
    if found is None:
        raise InputError(f"--choose takes NAME<=BOUND (a leakage) or NAME>=BOUND (a utility); found {text!r}")
    return found[1], found[2], float(found[3])


def _values(text: str) -> int | list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
        return int(text) if len(numbers) == 1 and text.strip().isdigit() else numbers
    except ValueError:
        raise InputError(f"--values takes how many (8) or the values (0,.5,2); found {text!r}") from None
