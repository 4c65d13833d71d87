"""The network attacker in a stack goes the way it goes alone, and reads what the one it replaced read."""

import numpy as np
import pytest

from tacit.auditing.perceptrons import Perceptron, fit_together


def rows(n, seed=0, columns=3, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    score = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def test_a_stack_of_other_sizes_seeds_and_classes_is_what_each_is_alone():
    given = [rows(900), rows(300, 1), rows(2000, 2), rows(500, 3, classes=4), rows(40, 4), rows(700, 5, columns=5)]
    together = fit_together([Perceptron(i, 16, 3) for i in range(len(given))], *zip(*given, strict=True))
    for i, (model, (X, y)) in enumerate(zip(together, given, strict=True)):
        alone = Perceptron(i, 16, 3).fit(X, y)
        assert np.abs(alone.predict_proba(X) - model.predict_proba(X)).max() < 1e-4


def test_it_reads_a_product_of_columns():
    (X, y), (Xt, yt) = rows(3000), rows(3000, 1)
    assert (Perceptron(0).fit(X, y).predict_proba(Xt).argmax(1) == yt).mean() > 0.78  # a line: .5


def test_classes_keep_their_names_and_no_rows_give_no_answers():
    X, y = rows(200, classes=3)
    found = Perceptron(0, 8, 2).fit(X, np.array([7, 3, 9])[y])
    assert list(found.classes_) == [3, 7, 9]
    assert found.predict_proba(X[:0]).shape == (0, 3)
    np.testing.assert_allclose(found.predict_proba(X).sum(1), 1)


def test_a_torch_device_gives_the_same_answers():
    torch = pytest.importorskip("torch")
    device = "cuda" if torch.cuda.is_available() else "cpu:0"
    X, y = rows(900)
    alone = Perceptron(0, 16, 3).fit(X, y).predict_proba(X)
    [other] = fit_together([Perceptron(0, 16, 3)], [X], [y], device)
    assert np.abs(alone - other.predict_proba(X)).max() < 1e-4
