"""papers/minimax-filter: one filter a row, data unchanged, and the owner of eNTERFACE can run Fig. 3 on it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from scipy.io import wavfile
from sklearn.decomposition import PCA
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.noise.local_privacy import local_dp

rows = importlib.import_module("papers.minimax-filter.rows")
later = importlib.import_module("papers.minimax-filter.later")
reproduce = importlib.import_module("papers.minimax-filter.reproduce")


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n), rng.integers(2, size=n)
    X = rng.normal(size=(n, 12)) + 3
    X[:, 0] += 2 * y
    X[:, 1] += 2 * s
    return tacit.Dataset(X, {"smile": y}, {"gender": s})


@pytest.mark.parametrize("name", [rows.PRINTED, rows.OURS])
def test_the_papers_reader_and_the_fresh_attacker_read_a_filter_of_the_same_settings(name, monkeypatch):
    made = []
    data = people()
    monkeypatch.setitem(reproduce.protocol.SPLITS, "genki", lambda seed: data.split((0.7, 0.3), random_state=seed))

    def remember(f, train):
        made.append(f)
        return fitted(f, train)

    fitted = reproduce.protocol.fitted
    monkeypatch.setattr(reproduce.protocol, "fitted", remember)
    reproduce.in_print("genki", [name], 2, 5, {"printed": 3, "ours": 3})
    reproduce.adaptive("genki", name, 2, 5, {"printed": 3, "ours": 3}, ["logistic"])
    one, other = (f.get_params(deep=False) for f in made)
    assert one == other
    assert one["solver"] == "kiwiel"
    assert one["standardise"] == (name == rows.OURS)


def test_rows_are_of_unchanged_data(monkeypatch):
    data = people()
    monkeypatch.setitem(reproduce.protocol.SPLITS, "genki", lambda seed: data.split((0.7, 0.3), random_state=seed))
    train, _ = rows.split("genki", 0)
    assert train.X.mean() == pytest.approx(3.17, abs=0.05)
    assert isinstance(rows.maker("PCA", "genki", 2, {})(0, train), PCA)
    ppls = rows.maker("PPLS, as printed", "genki", 2, {})(0, train)
    assert (ppls.centre, ppls.standardise) == (False, False)


def test_the_noise_of_an_epsilon_has_this_epsilon():
    for epsilon in (2.0, 10.0, 200.0):
        assert local_dp(later.noise_for(epsilon))["epsilon"] == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.filterwarnings("ignore::tacit.errors.CollapseWarning")  # some of the settings tried mask everything
def test_the_mask_is_chosen_without_test_rows(monkeypatch):
    seen = []
    evaluate = rows.protocol.evaluate

    def watched(f, learn, held):
        seen.append((len(learn), len(held)))
        return evaluate(f, learn, held)

    monkeypatch.setattr(rows.protocol, "evaluate", watched)
    data = people()
    rows.chosen_mask(data, 0)
    assert set(seen) == {(180, 60)}
    assert len(seen) == len(rows.MASKS)


@pytest.fixture
def enterface(monkeypatch, tmp_path):
    """A small folder as published: 'subject N'/emotion/sentence k, sounds as .wav."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    rate = 8000
    for person in range(1, 5):
        for emotion in ("anger", "disgust", "fear", "happiness", "sadness", "surprise"):
            for sentence in range(1, 4):
                folder = tmp_path / "data" / "enterface" / f"subject {person}" / emotion / f"sentence {sentence}"
                folder.mkdir(parents=True)
                tone = np.sin(2 * np.pi * (200 * person + 10 * sentence) * np.arange(rate // 8) / rate)
                sound = 6000 * tone + rng.normal(0, 900, rate // 8)
                wavfile.write(folder / "clip.wav", rate, sound.astype(np.int16))
    return tmp_path


@pytest.mark.slow  # guards an experiment of the paper on a set that only its owner has
def test_fig3_on_the_owners_enterface(enterface):
    line = ["reproduce", "minimax-filter/fig3", "--data", "enterface", "--quick", "--out", str(enterface / "out")]
    found = CliRunner().invoke(app, line)
    assert found.exit_code == 0, found.output
    assert (enterface / "out" / "minimax-filter" / "fig3-enterface" / "fig3.svg").exists()
    told = (enterface / "out" / "minimax-filter" / "fig3-enterface" / "quick.json").read_text()
    assert '"enterface"' in told
    assert "guessing .250" in told  # four speakers, as many sentences each: not EMO-DB's ten
