"""`tacit release profile`: costs of cuts, counted by hand where that can be done."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.nets.mlp import mlp
from tacit.release.onnx import GraphBuilder

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

COLUMNS = ["cut", "values", "bytes", "parameters", "multiply_adds", "memory", "milliseconds"]


def saved(module, shape, path):
    g = GraphBuilder()
    g.output(g.torch(module, g.input("X", TensorProto.DOUBLE, shape), "net"), "release")
    path.write_bytes(g.build())
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, (y, s) = rng.standard_normal((100, 10)), rng.integers(2, size=(2, 100))
    make = lambda n_in, n_out: mlp(n_in, n_out, hidden=(32, 16))  # noqa: E731
    f = tacit.EIGAN(3, epochs=1, encoder=make, random_state=0).fit(X, y, sensitive_features=s)
    return tacit.save(f, tmp_path_factory.mktemp("profile") / "mlp.tacit")


@pytest.mark.filterwarnings("ignore:.*collapsed")
def test_an_mlp_is_counted_as_by_hand(bundle):
    costs = tacit.profile(bundle, repeats=1)
    assert list(costs.columns) == COLUMNS
    assert costs["cut"].iloc[0] == "(raw record)"
    assert costs["cut"].iloc[-1] == "all"
    assert costs["bytes"].tolist() == [80, 4 * 32, 4 * 16, 4 * 3, 8 * 3]
    assert costs["multiply_adds"].tolist() == [0, 320, 320 + 512, 320 + 512 + 48, 320 + 512 + 48]
    scaling, layers = 20, [320 + 32, 512 + 16, 48 + 3]
    assert costs["parameters"].tolist()[1:4] == (scaling + np.cumsum(layers)).tolist()
    assert costs["memory"].is_monotonic_increasing
    assert (costs["milliseconds"].iloc[1:] > 0).all()


def test_a_network_costs_what_it_does_by_hand():
    net = nn.Sequential(nn.Conv1d(2, 3, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(30, 4))
    table = tacit.profile(net, np.zeros((6, 2, 10)), repeats=1).set_index("cut")
    assert list(table.index) == ["0", "1", "2", "all"]
    assert table["values"].tolist() == [30, 30, 30, 4]
    assert table["bytes"].tolist() == [120, 120, 120, 16]
    assert table["parameters"].tolist() == [3 * 2 * 5 + 3] * 3 + [33 + 124]
    assert table["multiply_adds"].tolist() == [30 * (2 * 5)] * 3 + [300 + 4 * 30]
    assert table.loc["0", "memory"] == 4 * (33 + 20 + 30)
    assert (table["milliseconds"] > 0).all()


def test_times_of_cuts_are_taken_in_turns(monkeypatch):
    """A machine that becomes slower and slower: one cut after the other, the last would look slowest."""
    now = [0.0]

    def clock():
        now[0] += 1.0 + now[0] / 10  # each pass takes longer than the one before
        return now[0]

    net = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    monkeypatch.setattr("tacit.release.profiling.time.perf_counter", clock)
    took = tacit.profile(net, np.ones((1, 7)), repeats=9)["milliseconds"]
    assert took.max() / took.min() < 4  # one after the other it is more than a thousand


def test_a_graph_is_cut_where_its_layers_are_narrowest(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(2, 8, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 4, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * 28, 6), nn.Tanh(), nn.Linear(6, 2),
    )  # fmt: skip
    costs = tacit.profile(saved(net, (2, 64), tmp_path / "net.onnx"), repeats=1)
    work = np.cumsum([8 * 64 * 2 * 3, 4 * 28 * 8 * 5, 4 * 28 * 6, 6 * 2, 0])
    assert costs["multiply_adds"].tolist() == [0, *work]
    assert costs["parameters"].tolist() == [0, *np.cumsum([8 * 2 * 3 + 8, 4 * 8 * 5 + 4, 4 * 28 * 6 + 6, 6 * 2 + 2, 0])]
    assert costs["values"].tolist() == [2 * 64, 8 * 32, 4 * 28, 6, 2, 2]  # after the pool, not before it
    assert costs["bytes"].iloc[1] == 4 * 8 * 32


def test_skips_cannot_be_cut(tmp_path):
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            first = torch.relu(self.a(x))
            return self.c(first + torch.relu(self.b(first)))

    costs = tacit.profile(saved(Skip(), (4,), tmp_path / "skip.onnx"), repeats=1)
    # inside the skip two values would cross: after b it can be cut once they are added up
    assert costs["values"].tolist() == [4, 4, 4, 2, 2]


def test_what_cannot_be_profiled(bundle, tmp_path):
    (tmp_path / "no.onnx").write_bytes(b"no model")
    free = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    onnx.save(
        helper.make_model(free, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "free.onnx"
    )
    for name, message in (("no.onnx", "is not an ONNX model"), ("free.onnx", "shape of a record is not fixed")):
        with pytest.raises(tacit.TacitError, match=message):
            tacit.profile(tmp_path / name)
    with pytest.raises(tacit.TacitError, match="a Linear needs an example"):
        tacit.profile(nn.Linear(2, 2))
    for arguments, message in ((["x.pt"], "can be profiled"), ([str(bundle), "--figure", "f.txt"], "ends in .svg")):
        done = CliRunner().invoke(app, ["release", "profile", *arguments])
        assert message in str(done.exception)
