"""The report: words, tables and pages that say what the JSON says."""

from __future__ import annotations

import html
import json
import re
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

import browser
import tacit
from tacit.report import write_page
from tacit.report.results import shown

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do


@pytest.fixture(scope="module")
def walkers():
    """Two targets, two secrets, units, and names that would break careless HTML."""
    rng = np.random.default_rng(0)
    n, people = 1200, 60
    person = np.repeat(np.arange(people), n // people)
    sex = np.array(["f", "m<b>"])[rng.integers(2, size=people)][person]
    team = np.array(["red", "blue", "green"])[rng.integers(3, size=people)][person]
    walks = rng.integers(2, size=n)
    X = np.column_stack([walks + 0.3 * rng.standard_normal(n), (sex == "f") + 0.9 * rng.standard_normal(n)])
    data = tacit.Dataset(
        pd.DataFrame({"a": X[:, 0], "b & c": X[:, 1]}),
        pd.DataFrame({"walks": walks}),
        pd.DataFrame({"sex": sex, "</script>team": team}),
        units=person,
        name="walkers <1>",
    )
    train, attack, test = data.split(random_state=0)
    code = tacit.CodebookFilter(random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    reports = [
        tacit.audit(
            r,
            attack,
            test,
            attackers="logistic",
            measurements=["auto", "other_columns", "reconstruction"],
            options=tacit.AuditOptions(name=name, groups=("b & c",)),
        )
        for name, r in (("raw", None), ("a code", code))
    ]
    return reports


def at(tree, path):
    return reduce(lambda node, key: node[key], path, tree)


@pytest.fixture(scope="module")
def seen(walkers, tmp_path_factory):
    """The page of two audits as a real browser shows it."""
    folder = tmp_path_factory.mktemp("page")
    page = write_page(walkers, folder / "two.html", "Two releases")
    dom, console = browser.dump(page, folder / "profile")
    return dom, console, page


def test_the_page_is_drawn_without_errors_in_a_browser(walkers, seen):
    dom, console, page = seen
    assert console == []
    assert 'data-drawn="yes"' in dom
    # per secret: one point per release, the floor, the limit, bars for every attacker, the pooled curve
    assert len(re.findall(r'<circle [^>]*class="release', dom)) == 2 * 2
    assert len(re.findall(r'<path [^>]*class="axis floor', dom)) == 2
    assert len(re.findall(r'<polyline [^>]*class="axis limit', dom)) == 2
    bars = sum(len(r.leakage[s].attackers) for r in walkers for s in r.leakage)
    assert len(re.findall(r'<rect [^>]*class="bar', dom)) >= bars
    assert len(re.findall(r'<circle [^>]*class="pool', dom)) >= 4
    assert '<select id="choice"' in dom
    assert page.stat().st_size < 2_000_000
    assert not re.search(r"(src|href)=.?.?https?:|url\(http|@import|fetch\(|XMLHttp", page.read_text())


def test_every_number_on_the_page_is_the_one_of_the_json(walkers, seen):
    dom, _, _ = seen
    told = [json.loads(r.to_json()) for r in walkers]
    drawn = re.findall(r'data-at="([^"]*)">([^<]*)<', dom)
    assert len(drawn) > 100
    for path, text in drawn:
        i, *rest = json.loads(html.unescape(path))
        value = at(told[i], rest)
        assert text == ("–" if value is None else shown(value)), rest
    counts = re.findall(r'data-count="([^"]*)">([^<]*)<', dom)
    assert len(counts) > 10
    for path, text in counts:
        i, *rest = json.loads(html.unescape(path))
        assert int(text) == at(told[i], rest)


def test_one_audit_says_its_headline(walkers, tmp_path):
    report = walkers[1]
    dom, console = browser.dump(report.to_html(tmp_path / "one.html"), tmp_path / "profile", "--window-size=390,800")
    assert console == []
    words = html.unescape(re.sub(r"<[^>]*>", "", dom))
    for secret in report.leakage:
        assert report.sentence(secret) in words


def test_markdown_text_and_json_agree(walkers, tmp_path):
    report = walkers[0]
    text = report.to_markdown(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text() == text
    for secret, r in report.leakage.items():
        assert report.sentence(secret) in text
        assert shown(r.value) in str(report)
    assert max(map(len, str(report).splitlines())) <= 100
    json.loads(report.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    settings = json.loads(report.to_json())["settings"]
    assert settings["versions"]["tacit"] == tacit.__version__
    assert settings["seconds"] > 0


def test_confusion_counts_every_row_once(walkers):
    for report in walkers:
        for r in report.leakage.values():
            assert sum(map(sum, r.confusion)) == r.n
            recalls = [row[i] / sum(row) for i, row in enumerate(r.confusion) if sum(row)]
            assert np.mean(recalls) == pytest.approx(r.value)


def test_label_only_beats_a_release_that_gives_away_more_for_nothing(digits):
    train, attack, test = digits
    raw = tacit.audit(None, attack, test, attackers="logistic")
    assert "releasing the predicted label alone is as useful and leaks less" in str(raw).replace("\n", " ")
    label = tacit.baselines.LabelOnly(random_state=0).fit(train.X, train.y)
    fine = tacit.audit(label, attack, test, attackers="logistic")
    assert fine.beaten_by_label("digit") is None
    pca = tacit.audit(PCA(1).fit(train.X), attack, test, attackers="logistic")
    assert pca.utility["parity"].value < 0.8  # far less useful than the label, and it leaks more: no use either
    assert pca.beaten_by_label("digit") is not None
