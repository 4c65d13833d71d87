"""papers/dpfe: the parts of its data, CelebA's among them, and how seeds are told together."""

from __future__ import annotations

import importlib

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import tacit
from papers.common.papers import load_paper

PAPER = load_paper("dpfe")
ATTRIBUTES = ("Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair", "Male", "Smiling", "Young")
MALE = ATTRIBUTES.index("Male")


@pytest.fixture
def celebrities(monkeypatch, tmp_path):
    """CelebA's files as its publisher gives them: 3 parts, 4 people a part, 6 images each; men's are darker."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    folder, rng = tmp_path / "celeba", np.random.default_rng(0)
    (folder / "img_align_celeba").mkdir(parents=True)
    names, marks, parts, people = [], [], [], []
    for part in range(3):
        for person in range(4):
            for i in range(6):
                name = f"{len(names) + 1:06d}.jpg"
                mark = [1 if rng.random() < 0.5 else -1 for _ in ATTRIBUTES]
                mark[MALE] = 1 if person % 2 else -1
                pixels = rng.integers(0, 120, (218, 178, 3)) + (0 if mark[MALE] == 1 else 100) + 5 * person
                Image.fromarray(pixels.astype(np.uint8)).save(folder / "img_align_celeba" / name)
                names.append(name)
                marks.append(mark)
                parts.append(part)
                people.append(100 * part + person + 1)
                if i == 0 and person == 3 and part == 2:
                    break  # somebody with a single image: left out
    lines = [f"{n} " + " ".join(f"{m:2d}" for m in mark) for n, mark in zip(names, marks, strict=True)]
    head = [str(len(names)), " ".join(ATTRIBUTES) + " "]
    (folder / "list_attr_celeba.txt").write_text("\n".join([*head, *lines]) + "\n")
    (folder / "list_eval_partition.txt").write_text("".join(f"{n} {p}\n" for n, p in zip(names, parts, strict=True)))
    (folder / "identity_CelebA.txt").write_text("".join(f"{n} {p}\n" for n, p in zip(names, people, strict=True)))
    return tmp_path


def test_the_control_is_the_uncut_network_on_the_same_attributes(celebrities, monkeypatch):
    study, learned = importlib.import_module("papers.dpfe.study"), []

    def watched(network, X, classes, epochs, batch, seed):
        learned.append((len(X), [c.tolist() for c in classes], epochs, batch))

    def told(network, X):
        """Two outputs an attribute, of a network that sees who is dark."""
        assert [m for m in network.modules() if isinstance(m, torch.nn.Linear)][-1].out_features == 2
        dark = X.mean(axis=(1, 2, 3)) < 0.38
        return np.column_stack([~dark, dark]).astype(float)

    monkeypatch.setattr(study, "learn", watched)  # that of the control, not the original's
    monkeypatch.setattr(study, "forward", told)
    settings = {"size": 32, "limit": None, "many": 4, "pretraining": 0, "network_epochs": 1, "device": "cpu"}
    assert study.whole("celeba", ["Male"], 0, {**settings, "epochs": 7})["value"] == 1.0
    ((rows, (male,), epochs, batch),) = learned
    assert (rows, sorted(set(male)), epochs, batch) == (24, [0, 1], 7, study.ALIKE["batch_size"])


def test_celebas_parts_are_the_papers(celebrities):
    from papers.dpfe.data import CELEBA_ATTRIBUTES, parts_of

    train, attack, test = parts_of("celeba", 0, {"size": 32, "limit": None, "many": 4})
    assert list(train.y.columns) == list(CELEBA_ATTRIBUTES)
    assert set(train.sensitive["identity"]) & set(test.sensitive["identity"]) == set()
    assert set(attack.sensitive["identity"]) == {"201", "202", "203"} >= set(test.sensitive["identity"])
    with pytest.raises(tacit.TacitError, match="no person of celeba has 18 records"):
        parts_of("celeba", 0, {"size": 32, "limit": None})
    sets = PAPER.settings_of("fig7", quick=False, data="celeba")["sets"]
    assert [len(s) for s in sets] == [1, 2, 3, 4, 5]
    assert sets[-1] == list(CELEBA_ATTRIBUTES)


def test_the_gain_of_one_model_over_another_is_told_over_seeds():
    from papers.dpfe.telling import gain, together

    def curve(more, seed):
        rng = np.random.default_rng(seed)
        accuracy = np.array([0.9, 0.8, 0.6])
        privacy = np.array([0.1, 0.4, 0.7]) + more + 0.01 * rng.standard_normal(3)
        of = {"ratio": [0.0, 1.0, 4.0], "attacker": ["mlp"] * 3}
        for name, values in (("accuracy", accuracy), ("log_rank", privacy)):
            of |= {f"{name}{end}": (values + by).tolist() for end, by in (("", 0), ("_low", -0.05), ("_high", 0.05))}
        return of

    one, other = [curve(0.2, s) for s in range(3)], [curve(0.0, s + 3) for s in range(3)]
    found = gain(one, other, "log_rank")
    assert found["low"] < 0.2 < found["high"]
    assert found["low"] > 0.15
    assert gain(other, one, "log_rank")["high"] < 0  # the control: the other way round it is a loss
    assert found["superior"]
    mean = together(one)
    assert mean["log_rank"].iloc[0] == pytest.approx(np.mean([c["log_rank"][0] for c in one]), abs=1e-4)
    assert mean["log_rank_low"].iloc[0] < mean["log_rank"].iloc[0] - 0.05  # wider than a seed's own
    away = [{**c, "accuracy": [0.3, 0.2, 0.1]} for c in one]
    assert gain(away, other, "log_rank") is None


def test_a_part_keeps_people_with_two_records():
    from papers.dpfe.data import of_many

    data = tacit.Dataset(np.zeros((4, 2)), None, pd.DataFrame({"who": ["a", "a", "b", "c"]}))
    assert len(of_many(data, 2)) == 2
    with pytest.raises(tacit.TacitError, match="has 3 records"):
        of_many(data, 3)
