"""Any file that holds a table, as a table: CSV, Parquet, Arrow, Excel, a folder of Parquet, SQLite, DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tacit.errors import InputError, NotInstalled, TacitError
from tacit.files import parquet_files

FORMATS = ".csv (any separator), .tsv, .parquet, .arrow, .feather, .xlsx, .sqlite or .duckdb (with --set sql=QUERY)"
TEXT, PARQUET, ARROW = (".csv", ".tsv", ".txt", ".psv"), (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
EXCEL, DATABASE = (".xlsx", ".xlsm"), (".sqlite", ".sqlite3", ".db", ".duckdb", ".ddb")


class TableFile(NamedTuple):
    """A table, and how its file is written, in words; "" where there is nothing to say."""

    table: pd.DataFrame
    written: str = ""


def kind_of(path: Path) -> str:
    """What a file is by its name: text, parquet, arrow, excel, database; or folder."""
    if path.is_dir():
        return "folder"
    known = {"text": TEXT, "parquet": PARQUET, "arrow": ARROW, "excel": EXCEL, "database": DATABASE}
    suffixes = [s.lower() for s in path.suffixes[-2:]]  # people.csv.gz
    for kind, ends in known.items():
        if any(s in ends for s in suffixes):
            return kind
    if ".xls" in suffixes:
        raise InputError(f"{path.name} is an Excel file of before 2007; save it as .xlsx or .csv")
    raise InputError(f"{path.name} is not a table that Tacit reads; expected a name ending in {FORMATS}")


def open_table(path: str | Path, sql: str | None = None, dates: bool = False) -> TableFile:
    """Read a file, a folder of Parquet files, or what a query selects from a database.

    Parameters
    ----------
    path : a file that ends in .csv, .tsv, .txt, .parquet, .arrow, .feather, .xlsx, .sqlite or .duckdb, or a folder
    sql : of a database, what to select; without it the one table that it holds
    dates : of a text file: columns of dates, in any usual spelling, are dates. Without it they are words, which every
        filter takes; coupling takes dates

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = place.write_text("age;height\\n31;1,72\\n45;1,80\\n")
    >>> found = open_table(place)
    >>> found.table["height"].tolist(), found.written
    ([1.72, 1.8], 'semicolons between cells, decimal commas')
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"no file {path}; check the path")
    kind = kind_of(path)
    if sql is not None and kind != "database":
        raise InputError(f"sql asks a database, such as people.sqlite or people.duckdb; {path.name} is none")
    read: dict[str, Callable[[Path], TableFile]] = {
        "text": lambda place: _text(place, dates), "database": lambda place: _database(place, sql),
        "parquet": _parquet, "arrow": _arrow, "excel": _excel, "folder": _folder,
    }  # fmt: skip
    try:
        found = read[kind](path)
    except TacitError:
        raise
    except Exception as error:  # of whichever library reads it
        raise InputError(f"{path.name} could not be read: {_first_line(error)}") from error
    if found.table.shape[1] == 0 or not len(found.table):
        raise InputError(f"{path.name} has no {'row' if found.table.shape[1] else 'column'}; there is nothing to fit")
    return found._replace(table=found.table.set_axis([str(c) for c in found.table.columns], axis=1))


def _text(path: Path, dates: bool) -> TableFile:
    from tacit.records.csv_files import CsvFile  # pyarrow is not loaded by `import tacit`

    file = CsvFile(path)
    return TableFile(pd.DataFrame(file.columns(dates)), file.written)


def _parquet(path: Path) -> TableFile:
    return TableFile(pd.read_parquet(path))


def _arrow(path: Path) -> TableFile:
    import pyarrow.feather as feather  # pyarrow is not loaded by `import tacit`

    try:
        return TableFile(feather.read_feather(path))
    except ValueError:
        import pyarrow as pa  # the same

        with pa.memory_map(str(path)) as source:
            return TableFile(pa.ipc.open_stream(source).read_all().to_pandas())


def _folder(path: Path) -> TableFile:
    files = parquet_files(path)
    if not files:
        raise InputError(f"{path} has no Parquet file; name a table file, or a folder of Parquet files (for recordings "
                         f"or photos say --sensors or --images)")  # fmt: skip
    return TableFile(pd.concat([pd.read_parquet(f) for f in files], ignore_index=True), f"{len(files)} Parquet files")


def _excel(path: Path) -> TableFile:
    try:
        import openpyxl  # an extra
    except ModuleNotFoundError:
        raise NotInstalled(f"an Excel file ({path.name})", "openpyxl") from None
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    names = book.sheetnames
    rows = book[names[0]].iter_rows(values_only=True)
    head = next(iter(rows), None)
    if head is None:
        raise InputError(f"{path.name}: the sheet {names[0]!r} is empty; its first row must name the columns")
    from tacit.records.cells import header_names  # only here

    columns = header_names(["" if c is None else str(c) for c in head])
    table = pd.DataFrame(list(rows), columns=columns).infer_objects().dropna(how="all")
    more = f"; {len(names) - 1} more left out" if len(names) > 1 else ""
    return TableFile(table.reset_index(drop=True), f"the sheet {names[0]!r}{more}")


def _database(path: Path, sql: str | None) -> TableFile:
    with path.open("rb") as file:
        start = file.read(16)
    if start == b"SQLite format 3\0":
        return _sqlite(path, sql)
    if start[8:12] == b"DUCK":
        return _duckdb(path, sql)
    raise InputError(f"{path.name} is neither an SQLite nor a DuckDB file")


def _sqlite(path: Path, sql: str | None) -> TableFile:
    import sqlite3  # only here

    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        names = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' order by 1"
        query = sql or _only([row[0] for row in connection.execute(names)], path)
        return TableFile(_selected(lambda: pd.read_sql_query(query, connection), path), "SQLite")
    finally:
        connection.close()


def _duckdb(path: Path, sql: str | None) -> TableFile:
    try:
        import duckdb  # an extra
    except ModuleNotFoundError:
        raise NotInstalled(f"a DuckDB file ({path.name})", "duckdb") from None
    connection = duckdb.connect(str(path), read_only=True)
    try:
        query = sql or _only([row[0] for row in connection.execute("show tables").fetchall()], path)
        return TableFile(_selected(lambda: connection.execute(query).df(), path), "DuckDB")
    finally:
        connection.close()


def _only(tables: list[str], path: Path) -> str:
    if len(tables) != 1:
        has = f"has the tables {', '.join(tables)}" if tables else "has no table"
        example = f"select * from {(tables or ['people'])[0]}"
        raise InputError(f'{path.name} {has}; say what to read, such as --set "sql={example}"')
    return 'select * from "{}"'.format(tables[0].replace('"', '""'))


def _selected(run: Callable[[], Any], path: Path) -> pd.DataFrame:
    try:
        found = run()
    except Exception as error:  # every database has its own
        raise InputError(f"{path.name} does not answer the query: {_first_line(error)}") from None
    return found.apply(lambda c: c if c.dtype != object else c.infer_objects())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
