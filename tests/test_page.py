"""The page in a real Chromium: it releases as Python does, and raw records never leave it."""

from __future__ import annotations

import base64
import json
import math
import re

import httpx
import numpy as np
import pandas as pd
import pytest

import tacit
from browser import until
from service import running
from tacit.errors import InputError
from tacit.release.bundle import read_bundle
from tacit.serve import browser as runtime
from tacit.serve.app import describe
from tacit.serve.keys import add_key
from test_aae import TINY, walkers
from test_mask import patches, small
from test_serve import people

pytestmark = [
    pytest.mark.usefixtures("few_steps"),  # any code will do
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),
]
MARKER = "73.123456789"  # an age that must never be seen in a request
READY = "!document.getElementById('send').disabled"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Path and fresh records of a bundle by name, made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("bundles"), {}

    def make(name):
        if name in ("table", "noise", "codes"):
            data, fresh = people(), people(60, seed=1).X
            fresh.loc[0, "job"] = "astronaut"  # unseen
            fresh.loc[1, "job"] = None
            f = {
                "table": tacit.EIGAN(n_components=3, epochs=4, random_state=0),
                "noise": tacit.EIGAN(n_components=3, epochs=2, noise=0.5, random_state=0),
                "codes": tacit.CodebookFilter(n_codes=4, n_folds=2, decode=True, random_state=0),
            }[name]
        elif name == "window":
            data, fresh, f = walkers(), walkers(20, seed=1).X, tacit.AnonymizingAutoencoder(noise=None, **TINY)
            data = tacit.Dataset(data.X, data.y, data.sensitive)
        else:
            data, fresh, f = patches(200), patches(20, seed=1).X, small(epochs=1)
        train, rest = data.split((0.5, 0.5), random_state=0)
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
        analyzer = tacit.serve.fit_analyzer(f, rest, epochs=3)
        return tacit.save(f, folder / f"{name}.tacit", analyzer=analyzer), fresh

    return lambda name: made.get(name) or made.setdefault(name, make(name))


@pytest.fixture(scope="module")
def service(bundles, tmp_path_factory):
    """The table bundle behind a key: the address and the key."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    key = add_key(keys, "page")
    with running(bundles("table")[0], "--api-keys", str(keys), "--public") as (url, _):
        yield url, key


def opened(page, url):
    page.open("about:blank")
    page.requests.clear()
    page.console.clear()
    page.open(f"{url}/")
    page.evaluate(until(READY))


def field(name):
    return f"[...document.querySelectorAll('.fields label')].find(l => l.title === {name!r}).lastChild"


def enter(page, name, value):
    page.evaluate(f"{{ const f = {field(name)}; f.value = {value!r}; f.dispatchEvent(new Event('input')); }}")


def shown_release(page):
    """What the page would send, when it has caught up with the record."""
    page.evaluate(until(READY))
    return json.loads(page.evaluate("document.getElementById('body').textContent"))["release"][0]


def press_send(page):
    page.evaluate("document.getElementById('answers').replaceChildren(); document.getElementById('send').click()")
    page.evaluate(until("document.querySelector('#answers .big') || document.getElementById('problem').textContent"))


# -- parity -----------------------------------------------------------------------------------------


def released_in_browser(page, path, records):
    """Releases of records by the page's own client half."""
    bundle = read_bundle(path)
    model = base64.b64encode(bundle.members["model.onnx"]).decode()
    return np.array(
        page.evaluate(
            f"""(async () => {{
            const {{ loadFilter }} = await import("/page/filter.js");
            const bytes = Uint8Array.from(atob("{model}"), c => c.charCodeAt(0));
            const filter = await loadFilter({json.dumps(describe(bundle))}, bytes), out = [];
            for (const record of {json.dumps(records)}) out.push(Array.from(await filter.release(record)));
            return out;
        }})()"""
        )
    )


def as_records(X):
    if isinstance(X, pd.DataFrame):
        return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in X.astype(object).to_dict("records")]
    return X.reshape(len(X), -1).tolist()


@pytest.mark.parametrize("name", ["table", "window", "codes"])
def test_the_browser_releases_as_python_does(name, page, service, bundles):
    path, X = bundles(name)
    opened(page, service[0])
    ours = tacit.load(path).numbers(X).reshape(len(X), -1)
    theirs = released_in_browser(page, path, as_records(X))
    assert theirs.shape == ours.shape
    assert np.ptp(ours, axis=0).max() > 0  # there is something to agree on
    assert (np.abs(theirs - ours) / np.abs(ours).max(axis=0).clip(1e-12)).max() <= 1e-5


@pytest.mark.slow  # guards masks in a real browser
def test_masks_in_the_browser_agree(page, service, bundles):
    path, X = bundles("mask")
    opened(page, service[0])
    ours = tacit.load(path).numbers(X).reshape(len(X), -1)
    theirs = released_in_browser(page, path, as_records(X))
    raw = X.reshape(len(X), -1)
    assert 0 < (ours == raw).mean() < 0.5  # most pixels are hidden
    assert ((ours == raw) == (theirs == raw)).mean() >= 0.999
    assert (ours == theirs).mean() >= 0.999


def test_noise_of_the_browser(page, service, bundles):
    """The same record draws once; other records draw by the formula. 6 deviations: false alarm under one in 10^8."""
    path, X = bundles("noise")
    opened(page, service[0])
    scale = read_bundle(path).manifest["noise"]["scale"]
    records = as_records(X)
    twice = released_in_browser(page, path, [*records, *records])
    assert (twice[: len(X)] == twice[len(X) :]).all()
    noise = twice[: len(X)] - tacit.load(path).noiseless(X)
    n = noise.size
    assert abs(noise.mean()) < 6 * scale / np.sqrt(n)
    assert abs(noise.var() / scale**2 - 1) < 6 * np.sqrt(2 / n)
    again = released_in_browser(page, path, records)
    assert (again != twice[: len(X)]).mean() > 0.99


# -- raw records stay -------------------------------------------------------------------------------


def test_raw_values_never_leave_the_page(page, service, bundles):
    url, key = service
    path, _ = bundles("table")
    opened(page, url)
    loaded = len(page.requests)
    before = shown_release(page)
    enter(page, "age", MARKER)
    enter(page, "job", "nurse")
    enter(page, "hours", "")
    release = shown_release(page)
    assert release != before
    expected = tacit.load(path).transform({"age": [float(MARKER)], "job": ["nurse"], "hours": [None]})[0]
    assert release == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert len(page.requests) == loaded  # nothing was sent while the person typed
    page.evaluate(f"document.getElementById('key').value = {key!r}")
    press_send(page)
    assert page.evaluate("document.querySelector('#answers .big').textContent") in ("yes", "no")
    assert page.evaluate(f"{field('age')}.value") == MARKER  # the control: the page has it
    sent = page.requests[loaded:]
    assert [(r["method"], r["url"]) for r in sent] == [("POST", f"{url}/v1/analyze")]
    assert json.loads(sent[0]["postData"]) == {"release": [release]}
    assert page.evaluate("document.getElementById('body').textContent") == sent[0]["postData"]
    for request in page.requests:
        assert request["url"].startswith((url, "data:")), request["url"]
        assert request["method"] == "GET" or request is sent[0]
        told = json.dumps(request)
        assert MARKER[:8] not in told
        assert "nurse" not in told
        assert (key in told) == (request is sent[0])  # and the key goes nowhere else
    assert page.console == []


def test_the_page_asks_for_a_key_where_the_owner_shows_nothing(page, bundles, tmp_path):
    key = add_key(tmp_path / "keys.json", "page")
    with running(bundles("table")[0], "--api-keys", str(tmp_path / "keys.json")) as (url, _):
        for path in ("/v1/bundle", "/v1/bundle/model.onnx", "/openapi.json"):
            assert httpx.get(f"{url}{path}").status_code == 401
            assert httpx.get(f"{url}{path}", headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}
        page.open("about:blank")
        page.open(f"{url}/")
        for value, then in (("tacit_wrong", "document.getElementById('first-key')?.value === ''"), (key, READY)):
            page.evaluate(until("document.getElementById('first-key')?.value === ''"))
            page.evaluate(f"document.getElementById('first-key').value = {value!r};"
                          " document.querySelector('#enter button').click()")  # fmt: skip
            page.evaluate(until(then))
        press_send(page)  # with the key that was given once
        assert page.evaluate("document.querySelector('#answers .big').textContent") in ("yes", "no")


def test_the_page_cannot_be_framed_and_may_do_nothing_it_does_not_need(page, service):
    url, _ = service
    policy = httpx.get(url).headers["content-security-policy"]
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed == {"default-src": "'none'", "script-src": "'self' 'wasm-unsafe-eval'", "style-src": "'self'",
                       "img-src": "data:", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
                       "frame-ancestors": "'none'"}  # fmt: skip
    assert httpx.get(url).headers["x-frame-options"] == "DENY"
    plain = httpx.get(f"{url}/v1/bundle").headers["content-security-policy"]
    assert plain.startswith("default-src 'none'; base-uri")
    assert "script-src" not in plain


def test_the_page_can_reach_no_other_server(page, service):
    url, _ = service
    opened(page, url)
    reach = "fetch({!r}).then(r => r.status, e => e.name)"
    assert page.evaluate(reach.format(f"{url}/health")) == 200  # the control
    other = url.replace("127.0.0.1", "localhost")
    assert httpx.get(f"{other}/health").status_code == 200  # it is there, but not for the page
    assert page.evaluate(reach.format(f"{other}/health")) == "TypeError"
    policy = httpx.get(url).headers["content-security-policy"]
    assert "unsafe-inline" not in policy
    assert "connect-src 'self'" in policy


@pytest.mark.slow  # guards a drawn digit and a window in a real browser
def test_a_drawing_and_a_window(page, bundles):
    for name, shape in (("mask", (1, 16, 16)), ("window", (2, 32))):
        with running(bundles(name)[0], "--no-auth") as (url, _):
            opened(page, url)
            loaded = len(page.requests)
            first = np.array(shown_release(page))
            assert first.shape == shape
            page.evaluate("globalThis.shownBefore = document.getElementById('body').textContent; 0")
            if name == "mask":
                draw(page)
                assert len(page.evaluate("[...document.querySelectorAll('#output canvas.picture')]")) == 1
            else:
                page.evaluate("document.querySelector('#input-buttons button').click()")
                assert page.evaluate("document.querySelectorAll('#output polyline').length") == 2
            page.evaluate(until("document.getElementById('body').textContent !== shownBefore"))
            release = shown_release(page)
            press_send(page)
            (sent,) = page.requests[loaded:]
            assert json.loads(sent["postData"]) == {"release": [release]}
            assert page.console == []


def draw(page):
    """A stroke across the canvas, by the mouse."""
    x, y, size = page.evaluate(
        "(() => { const b = document.querySelector('canvas.drawing').getBoundingClientRect();"
        " return [b.x, b.y, b.width]; })()"
    )
    for kind, share in (("mousePressed", 0.2), ("mouseMoved", 0.5), ("mouseMoved", 0.8), ("mouseReleased", 0.8)):
        place = {"x": x + share * size, "y": y + share * size}
        page.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **place)


# -- what it says -----------------------------------------------------------------------------------


def test_it_tells_what_a_release_costs_on_this_device(page, service):
    opened(page, service[0])
    loaded, release = len(page.requests), shown_release(page)
    page.evaluate("document.getElementById('time').click()")
    page.evaluate(until("!document.getElementById('time').disabled"))
    told = page.evaluate("document.getElementById('took').textContent")
    milliseconds, releases = re.match(r"([\d.e-]+) ms a record here \(median; (\d+) releases", told).groups()
    assert 0 < float(milliseconds) * int(releases) < 60_000  # all of them took about a second
    assert int(releases) >= 15
    assert len(page.requests) == loaded
    assert shown_release(page) == release


def test_problems_are_told(page, service):
    url, _ = service
    opened(page, url)
    page.evaluate("document.getElementById('key').value = 'tacit_wrong'")
    press_send(page)
    assert "does not know this key" in page.evaluate("document.getElementById('problem').textContent")
    assert "saved without an audit" in page.evaluate("document.getElementById('leaks').textContent")
    blocked = [{"urlPattern": "*://*:*/page/runtime/*", "block": True}]
    page.call("Network.setBlockedURLs", urlPatterns=blocked)
    page.open(f"{url}/?")
    page.evaluate(until("document.getElementById('status').className === 'bad' || " + READY))
    page.call("Network.setBlockedURLs", urlPatterns=[])
    assert "python -m tacit.serve.browser" in page.evaluate("document.getElementById('status').textContent")


def test_the_page_fits_a_phone(page, service):
    page.call("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=False)
    opened(page, service[0])
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    order = page.evaluate("[...document.querySelectorAll('section')].sort((a, b) => a.getBoundingClientRect().y"
                          " - b.getBoundingClientRect().y).map(s => s.id)")  # fmt: skip
    page.call("Emulation.clearDeviceMetricsOverride")
    assert order == ["record", "release", "leakage", "answer"]


def test_a_runtime_that_is_not_the_pinned_one_is_refused(tmp_path):
    (tmp_path / "other.tgz").write_bytes(b"not what was pinned")
    with pytest.raises(InputError, match="not the package that was pinned"):
        runtime.unpack(tmp_path / "other.tgz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_leakage_in_words():
    from tacit.serve.app import summary

    train, attack, test = people(900).split((0.4, 0.3, 0.3), random_state=0)
    f = tacit.CodebookFilter(n_codes=4, n_folds=2, random_state=0)
    report = tacit.audit(
        f.fit(train.X, train.y, sensitive_features=train.sensitive), attack, test, measurements="no-baseline"
    )
    told = summary(json.loads(report.to_json()))["leakage"]["sex"]
    bound = report.bound["sex"]
    assert told["certified"]
    assert told["high"] == bound
    assert (
        f"at most {math.ceil(1000 * report.certificate['sex'].bound) / 10:.1f} %" in told["words"]
    )  # never rounded down
    assert told["guessing"] == 0.5
    plain = summary({**report.to_dict(), "bound": {}})["leakage"]["sex"]
    assert not plain["certified"]
    assert "measured, not proved" in plain["words"]
    assert summary(None) is None
