"""Certificates and private fits between machines: counts of every node's own bundle, and what each node has spent."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.looks import new_project
from tacit.baselines import LinearARL
from tacit.errors import InputError
from tacit.federated import DistributedEIGAN, Node, ProtocolError, certify_nodes, fit_closed_form
from tacit.federated.node import Grants, spend_fit, spent_at_nodes
from tacit.federated.protocol import read_state
from tacit.noise.accounting import DP, read_spent

pytest.importorskip("flwr")
pytest.importorskip("dp_accounting")
from tacit.federated.flower.config import algorithm_of, read_node, read_server
from test_federated_flower_algorithms import (
    ARL,
    NAMES,
    Wire,
    log_of,
    nodes_of,
    plain_messages,  # noqa: F401
    run,
    table,
    write_files,
)

pytestmark = [
    pytest.mark.usefixtures("few_steps", "one_attacker"),
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),  # the games are short
]
COUNTING = {"algorithm": "Certificate"}
EIGAN = {"algorithm": "DistributedEIGAN", "n_components": 2, "epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """A code of other people than the nodes'."""
    data = table(400, 50)
    f = tacit.CodebookFilter(n_codes=3, random_state=0)
    f.fit(data.drop(columns=["act", "sex"]), data["act"], sensitive_features=data[["sex"]])
    return tacit.save(f, tmp_path_factory.mktemp("code") / "code.tacit")


def found_in(tree, key):
    """What a manifest has under this key, wherever."""
    inner = [found_in(v, key) for v in tree.values() if isinstance(v, dict)]
    return tree.get(key) or next((v for v in inner if v), None)


def counting_files(folder, code, n=300, secure=True, **more):
    write_files(folder, {**COUNTING, "secure": secure}, {"bundle": str(code), **more}, n=n)


@pytest.mark.parametrize("secure", [False, True])
def test_hospitals_certify_together_without_pooling_a_label(tmp_path, code, secure):
    counting_files(tmp_path, code, secure=secure)
    with new_project():
        run(tmp_path)
    told = json.loads((tmp_path / "out" / "common.certificate.json").read_text())
    nodes = nodes_of(tmp_path)
    with new_project():
        expected = certify_nodes(tacit.load(code), [Node(n.X, sensitive_features=n.sensitive_features) for n in nodes])
    assert told["bound"]["sex"] == pytest.approx(expected["sex"].bound, abs=1e-12)
    assert told["certificate"]["sex"]["n"] == sum(len(n) for n in nodes)
    sent = [read_state(p, "message")["message"] for p in sorted((tmp_path / "log").glob("*-up.safetensors"))]
    keys = {facts["facts"]["key"] for _, facts in sent if facts["kind"] == "opened"}
    assert keys == {""} if not secure else len(keys) == len(NAMES)


def test_a_node_counts_its_own_copy_of_the_release(tmp_path, code):
    """The release is named by the node's file; a server has no way to hand it another."""
    counting_files(tmp_path, code)
    other = tacit.CodebookFilter(n_codes=2, random_state=1)
    data = table(400, 60)
    other.fit(data.drop(columns=["act", "sex"]), data["act"], sensitive_features=data[["sex"]])
    tacit.save(other, tmp_path / "other.tacit")
    config = (tmp_path / "n3.toml").read_text()
    (tmp_path / "n3.toml").write_text(config.replace(json.dumps(str(code)), '"other.tacit"'))
    with new_project():
        run(tmp_path)
    assert any("another bundle than the others" in line["rejected"].get("n3", "") for line in log_of(tmp_path))
    (tmp_path / "n3.toml").write_text(config.replace(json.dumps(str(code)), '"nowhere.tacit"'))
    with pytest.raises(InputError, match="bundle that lies here"):
        read_node(tmp_path / "n3.toml")


def test_rows_of_the_training_take_no_part(tmp_path, code):
    counting_files(tmp_path, code, n=400, hold_out=0.5)
    config = read_node(tmp_path / "n1.toml")
    train, held = config.training_node(), config.certified_node()
    both = pd.merge(train.X, held.X, how="inner")
    assert len(train) + len(held) == 400
    assert len(held) >= 190
    assert len(both) == 0


def test_terms_of_a_certificate_are_checked():
    assert algorithm_of({**COUNTING, "n_cells": 3}).terms == {"n_cells": 3}
    with pytest.raises(InputError, match="confidence_level"):
        algorithm_of({**COUNTING, "confidence_level": 2})
    with pytest.raises(InputError, match="no setting 'lam'"):
        algorithm_of({**COUNTING, "lam": 2})


@pytest.mark.parametrize("secure", [False, True])
def test_a_private_fit_between_machines_tells_what_it_cost(tmp_path, secure):
    write_files(tmp_path, {**EIGAN, "secure": secure}, n=200)
    path = tmp_path / "server.toml"
    path.write_text(path.read_text() + "\n[training.dp]\nepsilon = 3.0\n")
    server = run(tmp_path)
    found = server.algorithm.conclude(server.coordinator)
    nodes = nodes_of(tmp_path)
    assert 0 < found.dp_.epsilon <= 3.0
    assert found.dp_.people == sum(len(n) for n in nodes)
    assert found.dp_.noise_multiplier > 0
    bundle = tacit.load(tmp_path / "out" / "common.tacit")
    assert found_in(bundle.manifest, "dp")["epsilon"] == found.dp_.epsilon


def test_dp_of_a_server_file_is_numbers_alone(tmp_path):
    write_files(tmp_path, EIGAN)
    path = tmp_path / "server.toml"
    plain = path.read_text()
    path.write_text(plain + "\n[training.dp]\nepsilon = 3.0\nranges = [0, 1]\n")
    with pytest.raises(InputError, match=r"\[training.dp\] has epsilon, delta and clip; found 'ranges'"):
        read_server(path)
    path.write_text(plain + "\n[training.dp]\nepsilon = 3.0\n")
    assert read_server(path).training["dp"] == {"epsilon": 3.0}


def test_a_closed_form_whose_nodes_add_noise_of_their_own():
    """With a budget beyond need it is the one without noise; with a small one every node's sums carry noise."""
    rng = np.random.default_rng(0)
    nodes = []
    for i in range(3):
        s, y = rng.integers(2, size=3000), rng.integers(2, size=3000)
        X = rng.normal(size=(3000, 3)) + np.column_stack([2 * y, 2 * s, 0 * s])
        nodes.append(Node(X, y.astype(str), s.astype(str), name=f"n{i}"))
    plain = fit_closed_form(LinearARL(lam=0.5), nodes)

    def way(f):
        code = f.mechanism_.code
        w = np.asarray(code(np.eye(3)) - code(np.zeros((1, 3)))).ravel()
        return w / np.linalg.norm(w)

    loose = fit_closed_form(LinearARL(lam=0.5, dp=DP(epsilon=1000.0, clip=4.0)), nodes)
    assert abs(way(loose) @ way(plain)) > 0.99
    for secure in (False, True):
        tight = fit_closed_form(LinearARL(lam=0.5, dp=DP(epsilon=1.0)), nodes, secure=secure)
        assert tight.dp_.epsilon <= 1.0 + 1e-9
        assert tight.dp_.people == 9000
        assert any("differentially private" in note for note in tight.notes_)
    again = fit_closed_form(LinearARL(lam=0.5, dp=DP(epsilon=1.0)), nodes)
    assert not np.allclose(way(again), way(tight))  # noise is fresh, whatever the seed
    with pytest.raises(InputError, match="leave ranges and categories out"):
        fit_closed_form(LinearARL(dp=DP(ranges=(0, 1))), nodes)


def test_what_a_node_did_not_tell_counts_as_the_budget():
    dp = DP(epsilon=3.0)
    told = {"epsilon": 1.0, "delta": 1e-5, "unit": "record", "people": 10, "noise_multiplier": 1.0, "clip": 1.0,
            "sampling_rate": 0.1, "steps": 5, "not_covered": ["labels"]}  # fmt: skip
    assert [s.epsilon for s in spent_at_nodes(dp, {"a": 10, "b": 20}, {"a": told})] == [1.0, 3.0]
    for broken in (None, {}, {**told, "epsilon": -1.0}, {**told, "epsilon": math.nan}, {**told, "unit": "\x1b[2J"},
                   {**told, "more": 1}, {**told, "not_covered": ["\x1b"]}):  # fmt: skip
        assert read_spent(broken) is None


def test_a_node_takes_part_in_private_fits_within_its_budget(tmp_path):
    budget = Grants(fit_budget=4.0)
    spend_fit(tmp_path, Grants(), None)  # no budget, no demand
    with pytest.raises(ProtocolError):
        spend_fit(tmp_path, budget, None)
    spend_fit(tmp_path, budget, {"epsilon": 3.0})
    with pytest.raises(ProtocolError):
        spend_fit(tmp_path, budget, {"epsilon": 3.0})
    spend_fit(tmp_path, budget, {"epsilon": 1.0})
    write_files(tmp_path, ARL, {"fit_budget": 4.0})
    with pytest.raises(ProtocolError, match="see the node's own log"):
        run(tmp_path, Wire(tmp_path))
    assert NAMES


def test_dp_of_d_eigan_in_one_process_is_told_for_all_nodes():
    rng = np.random.default_rng(1)
    nodes = [
        Node(rng.normal(size=(300, 2)), rng.integers(2, size=300).astype(str), rng.integers(2, size=300).astype(str))
        for _ in range(2)
    ]
    f = DistributedEIGAN(n_components=2, epochs=1, dp=DP(epsilon=2.0), random_state=0).fit(nodes)
    assert f.dp_.people == 600
    assert f.dp_.epsilon <= 2.0
