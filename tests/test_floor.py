"""Floor, limit, subgroups and resemblance: what stands beside the headline."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.measurements.baseline import labels_alone
from tacit.errors import InputError


def two_parts(X, y, s, seed=0, units=None):
    return tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}), units).split((0.5, 0.5), random_state=seed)


def test_the_limit_of_a_known_law():
    """y and s are read from two columns without error and depend on each other: the limit is known.

    P(s=y) = .8. Records with y != s are told truly; of the others a share is told falsely, which costs as much
    accuracy as it saves leakage: the limit is accuracy = leakage + .2, starting at (1, .8).
    """
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=6000)
    s = np.where(rng.random(6000) < 0.8, y, 1 - y)
    X = np.column_stack([y, s]).astype(float)
    report = tacit.audit(None, *two_parts(X, y, s), attackers="logistic")
    curve = report.limit["s"]
    assert curve[0].accuracy == pytest.approx(1.0, abs=0.01)
    assert curve[0].leakage == pytest.approx(0.8, abs=0.03)
    assert all(b.accuracy <= a.accuracy and b.leakage <= a.leakage for a, b in pairwise(curve))
    assert all(point.accuracy <= point.leakage + 0.2 + 0.03 for point in curve)


def test_no_release_of_the_label_lies_above_the_limit(digits):
    _, attack, test = digits
    report = tacit.audit(None, attack, test, attackers="logistic")
    floor = report.label_only_utility["parity"].value, report.label_only["digit"].value
    best = report.limit["digit"][0]
    assert best.accuracy >= floor[0] - 0.02
    assert tacit.audit(None, attack, test, attackers="logistic", measurements="no-limit").limit == {}


def test_a_class_that_only_the_test_rows_have_costs_the_limit_alone():
    rng = np.random.default_rng(0)
    s, y = rng.integers(3, size=600), rng.integers(2, size=600)
    X = np.column_stack([y, s]) + 0.5 * rng.standard_normal((600, 2))
    attack, test = two_parts(X, y, s)
    report = tacit.audit(None, attack.take(attack.sensitive["s"].to_numpy() < 2), test, attackers="logistic")
    assert report.limit == {}
    assert any("a class of 's' that `attack` does not have" in note for note in report.notes)
    assert "s" in report.label_only


def test_subgroups_show_who_is_exposed():
    """The secret is told only about group "b": there it leaks fully, elsewhere not at all."""
    rng = np.random.default_rng(0)
    n = 4000
    s, y, group = rng.integers(2, size=(3, n))
    X = pd.DataFrame({"z": np.where(group == 1, s, 0.5) + 0.01 * rng.standard_normal(n), "group": group})
    report = tacit.audit(
        None,
        *two_parts(X, y, s),
        attackers="trees",
        measurements="no-baseline",
        options=tacit.AuditOptions(groups=("group",)),
    )
    first, *_ = report.groups["s"].items()
    assert first[0] == "group = 1"
    assert first[1].low > 0.98
    assert report.groups["s"]["group = 0"].low < 0.5 < report.groups["s"]["group = 0"].high
    assert "y = 0" in report.groups["s"]
    with pytest.raises(InputError, match="'town', which is not a column of X"):
        tacit.audit(
            None,
            *two_parts(X, y, s),
            attackers="logistic",
            measurements="no-baseline",
            options=tacit.AuditOptions(groups=("town",)),
        )


class Drop:
    """Releases some columns (or channels) as they are."""

    def __init__(self, keep):
        self.keep = keep

    def transform(self, X):
        return X[self.keep] if isinstance(X, pd.DataFrame) else X[:, self.keep]


def test_reconstruction_by_column_of_a_table_with_text():
    rng = np.random.default_rng(0)
    n = 2000
    y, s = rng.integers(2, size=(2, n))
    X = pd.DataFrame({"kept": rng.standard_normal(n), "job": np.array(["nurse", "cook"])[y], "gone": rng.random(n)})
    release = Drop(["kept", "job"])
    report = tacit.audit(
        release, *two_parts(X, y, s), attackers="logistic", measurements=["auto", "reconstruction", "no-baseline"]
    )
    found = [f for f in report.findings if f.name == "reconstruction"]
    columns = {f.subject: f for f in found[1:]}
    assert list(columns)[-1] == "gone"
    assert columns["gone"].high < 0.1
    assert columns["kept"].value > 0.99
    assert columns["job"].value > 0.99
    assert 0.5 < found[0].value < 0.9


def images(n=400, seed=0):
    rng = np.random.default_rng(seed)
    person = rng.integers(4, size=n)
    face = np.random.default_rng(9).random((4, 1, 12, 12))
    X = face[person] + 0.1 * rng.standard_normal((n, 1, 12, 12))
    return X, rng.integers(2, size=n), person


class Blur:
    def transform(self, X):
        from scipy.ndimage import gaussian_filter

        return gaussian_filter(X, (0, 0, 3, 3))

    def mask(self, X):
        """Shape tells the person: column 0 is opened as far as the first pixel is bright."""
        m = np.zeros(np.shape(X))
        m[..., :4, :4] = X[..., :4, :4] > 0.5
        return m


@pytest.mark.slow  # guards the attacks on images, end to end
def test_images_are_reconstructed_and_compared_and_masks_attacked():
    X, y, person = images()
    attack, test = two_parts(X, y, person)
    report = tacit.audit(
        Blur(),
        attack,
        test,
        attackers="logistic",
        measurements=["auto", "reconstruction", "no-baseline"],
        options=tacit.AuditOptions(embed=lambda x: x.reshape(len(x), -1) - x.mean(), examples=2),
    )
    found = {f.kind: f for f in report.findings}
    assert found["SSIM"].value > found["SSIM"].chance
    assert found["similarity"].value > found["similarity"].chance
    assert len(report.examples) == 2
    assert any("shows 2 records" in note for note in report.notes)
    masks = next(a for a in report.attacks if a.kind == "mask only")
    assert masks.results["s"].low > 0.8
    plain = tacit.audit(Blur(), attack, test, attackers="logistic", measurements="no-baseline")
    assert plain.examples == ()  # no raw record in a report unless asked for
    with pytest.raises(InputError, match="need one shape"):
        tacit.audit(
            Drop([0]),
            *two_parts(X.reshape(len(X), -1), y, person),
            attackers="logistic",
            options=tacit.AuditOptions(embed=lambda x: x),
        )


@pytest.mark.filterwarnings("ignore:records may repeat people")
def test_windows_get_a_dtw_rank():
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(6), 40)
    pattern = rng.standard_normal((6, 1, 24)).cumsum(-1)
    X = pattern[user] + 0.2 * rng.standard_normal((240, 1, 24))
    attack, test = two_parts(X, rng.integers(2, size=240), user)
    same = tacit.audit(Drop([0]), attack, test, attackers="logistic", measurements="no-baseline")
    assert same.headline("similarity").value < 0.5

    class Noise:
        def transform(self, X):
            return np.random.default_rng(1).standard_normal(X.shape)

    noise = tacit.audit(Noise(), attack, test, attackers="logistic", measurements="no-baseline")
    assert noise.headline("similarity").value > 1.0


def test_labels_alone_tell_what_they_share_with_the_secret():
    """P(s=y) = .8: the label keeps itself whole and leaks .8; drawn apart from everything it leaks nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=4000)
    s = np.where(rng.random(4000) < 0.8, y, 1 - y)
    own, test = two_parts(y[:, None].astype(float), y, s)
    kept, leaked = labels_alone(own.X, own, test.X, test)
    assert kept["y"].value == 1
    assert leaked["s"].value == pytest.approx(0.8, abs=0.03)
    chance = [rng.integers(2, size=(len(d), 1)).astype(float) for d in (own, test)]
    kept, leaked = labels_alone(chance[0], own, chance[1], test)
    assert leaked["s"].low < 0.5 < leaked["s"].high
    assert kept["y"].value < 0.6
