"""The officer's page, served by the command and driven in a real Chromium; and who cannot reach it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import httpx
import numpy as np
import pytest

from browser import driven
from commands import tacit_command
from tacit.errors import InputError
from tacit.ledger.account import record
from tacit.ledger.chain import Ledger
from tacit.ledger.decisions import decisions, releases_of
from tacit.release.signing import new_signing_key
from tacit.serve.officer import Desk
from test_evidence import POLICY, body_of, people

pytestmark = [
    pytest.mark.usefixtures("few_steps", "one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),
]
ATTACK = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'
NOBODY = np.empty((0, 2), dtype="<u8")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """What a fit wrote; the ledger of each test is its own."""
    home = tmp_path_factory.mktemp("officer")
    people(400).to_csv(home / "people.csv", index=False)
    done = tacit_command("fit", home / "people.csv", "--target", "rich", "--sensitive", "sex", "--drop", "name",
                         "--filter", "codebook", "--out", home / "out")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home / "out"


@pytest.fixture
def book(released, tmp_path):
    """A ledger of two releases, of which one is of the folder above, and an officer's key."""
    new_signing_key(tmp_path / "officer.key")
    ledger = Ledger.new(tmp_path / "ledger.jsonl", tmp_path / "ledger.key")
    record(ledger, {**body_of(released), "what": ATTACK}, NOBODY, True)
    record(ledger, {**body_of(released, "clinic"), "mechanism": "f" * 64}, NOBODY, True)
    return ledger


@contextlib.contextmanager
def opened(book, *options):
    """`tacit officer` in a process of its own: the address with its token."""
    command = [
        sys.executable,
        "-c",
        "from tacit.cli import main; main()",
        "officer",
        str(book.path),
        *map(str, options),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line
        yield line.split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_decision_in_the_browser_is_signed_into_the_ledger(book, released, tmp_path):
    key = tmp_path / "officer.key"
    with opened(book, "--key", key, "--reports", released.parent) as url, driven(tmp_path / "profile") as page:
        page.open(url)
        assert "token" not in page.evaluate("location.href")
        assert page.evaluate("document.querySelectorAll('section').length") == 2
        assert page.evaluate("document.title") == "Releases of ledger.jsonl"
        assert ATTACK in page.evaluate("document.getElementById('line-1').querySelector('h2').textContent")
        page.evaluate("document.querySelector('#line-1 textarea').value = " + repr(ATTACK))
        page.evaluate("document.querySelector('#line-1 button[value=reject]').click()")
        while not page.evaluate("location.hash === '#line-1' && document.readyState === 'complete'"):
            pass
        assert "rejected" in page.evaluate("document.querySelector('#line-1 h2').textContent")
        assert "not decided" in page.evaluate("document.querySelector('#line-2 h2').textContent")
        assert ATTACK in page.evaluate("document.querySelector('#line-1').textContent")
        assert page.evaluate("document.querySelectorAll('img, script').length") == 0
        links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.href)")
        assert [link.rsplit("/", 1)[1] for link in links] == ["1"]  # the other bundle's report is not here
        page.open(links[0])
        assert page.evaluate("document.documentElement.dataset.drawn") == "yes"
        assert page.evaluate("origin") == "null"  # it can read neither the officer's page nor its cookie
        assert page.console == []
        assert all(r["url"].startswith(url.split("?")[0]) for r in page.requests)
    lines = Ledger(book.path).verify()
    (decision,) = decisions(lines, [tmp_path / "officer.key.pub"])
    assert (decision.body["verdict"], decision.body["comment"]) == ("reject", ATTACK)
    assert [len(d) for _, d in releases_of(lines)] == [1, 0]


def test_strangers_are_kept_out(book, tmp_path):
    """Each request differs from one that is let in by one thing."""
    with opened(book, "--key", tmp_path / "officer.key") as url, httpx.Client(trust_env=False) as browser:
        base = url.split("/?")[0]
        assert browser.get(base).status_code == 403  # no token
        assert browser.get(f"{base}/?token=x").status_code == 403
        assert browser.get(url, headers={"host": "evil.example"}).status_code == 403  # a name that points here
        assert browser.get(url).status_code == 303
        assert httpx.get(url, trust_env=False).status_code == 403  # the token works once
        page = browser.get(base)
        assert page.status_code == 200  # by the cookie
        assert "script-src" not in page.headers["content-security-policy"]
        assert "default-src 'none'" in page.headers["content-security-policy"]
        proof = page.text.split('name="proof" value="')[1].split('"')[0]
        of = Ledger(book.path).verify()[1].hash
        form = {"proof": proof, "of": of, "verdict": "accept", "comment": ""}
        own = {"origin": base}
        assert browser.post(f"{base}/decide", data=form).status_code == 403  # from nowhere
        assert browser.post(f"{base}/decide", data=form, headers={"origin": "http://evil.example"}).status_code == 403
        assert browser.post(f"{base}/decide", data={**form, "proof": "x"}, headers=own).status_code == 403
        assert httpx.post(f"{base}/decide", data=form, headers=own, trust_env=False).status_code == 403  # no cookie
        assert browser.post(f"{base}/decide", data={**form, "of": "0" * 64}, headers=own).status_code == 400
        assert browser.post(f"{base}/decide", data={**form, "verdict": "maybe"}, headers=own).status_code == 400
        assert browser.post(f"{base}/decide", content=b"x" * 200_000, headers=own).status_code == 413
        assert not decisions(Ledger(book.path).verify())
        assert browser.post(f"{base}/decide", data=form, headers=own).status_code == 303  # the control
        assert len(decisions(Ledger(book.path).verify())) == 1


def test_an_edited_ledger_is_said_and_nothing_can_be_decided(book, tmp_path):
    with opened(book, "--key", tmp_path / "officer.key") as url, httpx.Client(trust_env=False) as browser:
        browser.get(url)
        assert "<form" in browser.get(url.split("/?")[0]).text  # the control
        book.path.write_text(book.path.read_text().replace('"clinic"', '"friend"'))
        page = browser.get(url.split("/?")[0]).text
    assert "cannot be trusted" in page
    assert "<form" not in page


def test_a_key_that_the_policy_does_not_name_is_refused(book, tmp_path):
    new_signing_key(tmp_path / "named.key")
    (tmp_path / "tacit.toml").write_text(POLICY + '[ledger]\nofficers = ["named.key.pub"]\n')
    with pytest.raises(InputError, match="not the key of an officer"):
        Desk(book.path, tmp_path / "officer.key")
    named = Desk(book.path, tmp_path / "named.key")
    line = named.releases()[0][1]
    named.decide(line.hash, "accept", "")
    assert len(named.releases()[1][-1][1]) == 1
    (tmp_path / "tacit.toml").write_text(POLICY + '[ledger]\nofficers = ["officer.key.pub"]\n')
    assert len(named.releases()[1][-1][1]) == 0  # whoever is no officer has decided nothing


def test_without_a_key_the_page_is_for_reading(book):
    desk = Desk(book.path)
    with pytest.raises(InputError, match="without a key"):
        desk.decide(desk.releases()[0][1].hash, "accept", "")
