"""What a report opens with: lights by the upper end of what is known, words one hover away, two printed pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

import tacit
from tacit.report.page import page_text
from tacit.report.results import Measure
from tacit.report.verdict import MIDDLING, SMALL, not_covered, opening, verdict

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")


@pytest.fixture(scope="module")
def parts():
    return tacit.load_dataset("quadrants", n=3000, random_state=0).split((0.3, 0.3, 0.4), random_state=0)


@pytest.fixture(scope="module")
def certified(parts):
    train, attack, test = parts
    f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    return tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline")


@pytest.fixture(scope="module")
def raw(parts):
    return tacit.audit(None, *parts[1:], attackers="logistic", measurements="no-baseline")


def moved(report, value, low, high):
    """The same report with another figure."""
    r = report.leakage["shape"]
    return replace(report, leakage={"shape": replace(r, balanced_accuracy=Measure(value, low, high, 0.5))})


def test_a_light_goes_by_the_upper_end_of_what_is_known(certified, raw):
    assert certified.verdict("shape").light == "green"
    assert "certified" in certified.verdict("shape").rests_on
    assert raw.verdict("shape").light == "red"
    little = moved(raw, 0.51, 0.49, 0.5 + 0.5 * SMALL - 0.001)
    assert verdict(little, "shape").light == "amber"  # measured and not proved is never green
    wide = moved(raw, 0.51, 0.49, 0.5 + 0.5 * MIDDLING + 0.001)
    assert verdict(wide, "shape").light == "red"  # what it may be, not what it was this time
    assert verdict(replace(certified, fresh=False), "shape").light == "red"


def test_the_opening_names_what_is_kept_and_what_is_given_away(certified, raw):
    assert re.search(r"gives away almost nothing of shape; it keeps colour \(\d", opening(certified))
    assert "still gives away shape" in opening(raw)
    assert any("declared" in line for line in not_covered(raw))


def test_the_page_opens_with_it_and_explains_its_words(certified):
    page = page_text([certified], "Audit")
    lead = page.index('class="lead"')
    assert lead < page.index('class="figure"')
    assert page.index("gives away almost nothing of shape") > lead
    told = dict(re.findall(r'<abbr tabindex="0" title="([^"]+)">([^<]+)</abbr>', page))
    assert any(text.startswith("No attacker, however clever") for text in told)


def test_a_notebook_and_a_page_write_names_as_text(certified):
    bad = replace(certified, name="<img src=x onerror=alert(1)>")
    assert "<pre>" in bad._repr_html_()
    assert "<img" not in bad._repr_html_()
    assert "<img" not in page_text([bad], "Audit")
    assert certified.figure("shape").axes
    with pytest.raises(tacit.TacitError):
        certified.figure("size")


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
def test_it_prints_to_two_pages(certified, tmp_path):
    page, pdf = certified.to_html(tmp_path / "report.html"), tmp_path / "report.pdf"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={pdf}"]
    subprocess.run(["chromium", *flags, page.as_uri()], check=True, capture_output=True, timeout=300)
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    assert 1 <= pages <= 2
