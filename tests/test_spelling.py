"""How files are written: what is found of it, the same for fits and releases; and what is left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.records.csv_files import CsvFile, find_encoding, find_separator
from tacit.records.spelling import iso_dates, with_points, without_gap_words
from tacit.records.table_files import open_table


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"])
def test_separators_and_encodings_are_found(separator, encoding, tmp_path):
    table = pd.DataFrame({"Größe": [1.5, 2.25, -3.0], "Ort": ["Köln", "Nîmes; Sud", 'a "b", c']})
    table.to_csv(tmp_path / "t.csv", sep=separator, index=False, encoding=encoding)
    found = open_table(tmp_path / "t.csv").table
    assert list(found.columns) == ["Größe", "Ort"]
    assert found["Größe"].tolist() == [1.5, 2.25, -3.0]
    assert found["Ort"].tolist() == table["Ort"].tolist()


def test_decimal_commas_are_found_only_where_they_are(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1.234,5;x,y;1\n-2,25;3,5;2\n", encoding="utf-8")
    found = open_table(tmp_path / "t.csv")
    assert found.table["a"].tolist() == [1234.5, -2.25]
    assert found.table["b"].tolist() == ["x,y", "3,5"]  # words, of which one looks like a number
    assert "decimal commas" in found.written
    (tmp_path / "u.csv").write_text("a;b\n1.5;2,5\n2.5;3,5\n", encoding="utf-8")
    assert open_table(tmp_path / "u.csv").table["b"].tolist() == ["2,5", "3,5"]  # points beside: commas are not decimal
    assert CsvFile(tmp_path / "u.csv").decimal == "."


def test_gaps_of_numbers_are_words_elsewhere(tmp_path):
    (tmp_path / "t.csv").write_text("n,w\n1,?\n-,x\nk.A.,-\n?,missing\n", encoding="utf-8")
    table = open_table(tmp_path / "t.csv").table
    assert table["n"].isna().tolist() == [False, True, True, True]
    assert table["w"].tolist() == ["?", "x", "-", "missing"]


@pytest.mark.parametrize(
    "cells, wanted",
    [
        (["2024-05-31", "1999-12-01"], ["2024-05-31", "1999-12-01"]),
        (["31.5.2024", "1.12.1999", "k.A."], ["2024-05-31", "1999-12-01", None]),
        (["31/05/2024", "01/12/1999"], ["2024-05-31", "1999-12-01"]),
        (["05/31/2024", "12/01/1999"], ["2024-05-31", "1999-12-01"]),
        (["31.05.2024 10:30", "01.12.1999 00:00"], ["2024-05-31 10:30", "1999-12-01 00:00"]),
        (["01/02/2024", "03/04/2024"], None),  # nobody knows which is the day
        (["31/05/2024", "05/31/2024"], None),  # both at once
        (["31.5.2024", "soon"], None),
        (["12", "13"], None),
        ([None, None], None),
    ],
)
def test_dates_in_the_usual_spellings(cells, wanted):
    found = iso_dates(pa.array(cells, pa.string()))
    assert (None if found is None else found.to_pylist()) == wanted


@pytest.mark.parametrize("encoding, text", [
    ("cp1252", "Señor;Ñandú\n"), ("cp1252", "a€b;“quote”\n"), ("cp1252", "François;Orléans\n" * 50),
    ("cp1251", "Иван;Москва\nОльга;Санкт-Петербург\n" * 5), ("shift_jis", "田中,東京\n鈴木,大阪\n" * 5),
])  # fmt: skip
def test_encodings_that_are_not_utf8(encoding, text):
    assert text.encode(encoding).decode(find_encoding([text.encode(encoding)])) == text


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=20))
def test_a_comma_says_the_same_number_as_a_point(numbers):
    points = [f"{n:.4f}" for n in numbers]
    commas = pa.array([p.replace(".", ",") for p in points])
    assert with_points(commas).to_pylist() == points


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=30), max_size=5))
def test_plain_text_is_utf8_whatever_it_says(lines):
    assert find_encoding(["\n".join(lines).encode()] if lines else []) == "utf-8"
    assert find_separator("\n".join(lines)) in ",;\t|"


def test_gap_words_are_compared_in_any_case():
    assert without_gap_words(pa.array(["K.A.", "1", "#DIV/0!", None, "kA"])).to_pylist() == [
        None,
        "1",
        None,
        None,
        "kA",
    ]


def test_a_date_that_does_not_exist_leaves_the_column_as_words(tmp_path):
    (tmp_path / "t.csv").write_text("d,n\n2024-02-30,1\n2024-01-01,2\n", encoding="utf-8")
    assert open_table(tmp_path / "t.csv", dates=True).table["d"].tolist() == ["2024-02-30", "2024-01-01"]
    (tmp_path / "u.csv").write_text("d,n\n2024-02-29,1\n-,2\n", encoding="utf-8")
    assert open_table(tmp_path / "u.csv").table["d"].tolist() == ["2024-02-29", "-"]  # unless they are asked for
    found = open_table(tmp_path / "u.csv", dates=True).table["d"]
    assert found.dtype.kind == "M"
    assert np.isnat(found.to_numpy()).tolist() == [False, True]
