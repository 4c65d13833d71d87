"""Two tables of counts: p-values are valid under one distribution, and a changed population is noted by the audit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import tacit
from tacit.auditing.drift import compare_counts

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # the mechanism is tested, not the figures


def test_many_records_give_the_g_test():
    table = np.array([[500, 300, 200], [230, 190, 140]])
    expected = chi2_contingency(table, lambda_="log-likelihood").pvalue
    assert compare_counts(*table) == pytest.approx(expected)


@pytest.mark.parametrize("new", [[], [0, 0, 0]])
def test_an_empty_sample_shows_nothing(new):
    assert compare_counts([5, 3, 2][: len(new)], new) == 1.0


@pytest.mark.parametrize("n", [12, 60, 400])
def test_p_values_are_valid_and_a_change_is_found(n):
    """Of 200 samples of one distribution 10 are expected below .05; 25 or more have a probability below 1e-4."""
    rng = np.random.default_rng(n)
    same = rng.dirichlet(np.full(6, 1.0))
    alike = [compare_counts(rng.multinomial(3 * n, same), rng.multinomial(n, same), 399, i) for i in range(200)]
    assert np.count_nonzero(np.array(alike) < 0.05) < 25
    assert compare_counts([3 * n, 0, n], [0, n, n]) < 0.001


def test_an_audit_of_a_bundle_notes_that_its_population_has_changed(tmp_path):
    """The control: rows of the same population are not noted."""
    train, attack, test, later = tacit.load_dataset("gaussians", n=2400).split((0.2, 0.3, 0.2, 0.3), random_state=0)
    f = tacit.CodebookFilter(n_codes=4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    bundle = tacit.load(tacit.save(f, tmp_path / "filter.tacit", tacit.audit(f, attack, test)))
    assert "drift" not in str(tacit.audit(bundle, *later.split((0.5, 0.5), random_state=0)).notes)
    moved = [replace(part, X=part.X + 1) for part in later.split((0.5, 0.5), random_state=0)]
    assert any(note.startswith("drift:") and "release" in note for note in tacit.audit(bundle, *moved).notes)
