"""Every exported graph is valid ONNX: other tools can check, convert and read it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.version_converter
import pytest

from tacit.filters.registry import registered_filters
from tacit.release.onnx import OPSET, export
from tacit.testing import people

EXPORTED = {
    f"{name}-{i}": f
    for name, registered in registered_filters().items()
    if name not in ("resample", "singular-spectrum")  # they learn nothing, and have no bundle
    for i, f in enumerate(registered.example_filters())
}
MODALITY = {name: registered.modality for name, registered in registered_filters().items()}


def records(modality):
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=60), rng.integers(2, size=60)
    if modality == "windows":
        return rng.standard_normal((60, 2, 32)), y, s
    if modality == "images":
        return rng.integers(0, 256, (60, 1, 16, 16), dtype=np.uint8), y, s
    table = people()
    return table.X, table.y, table.sensitive


@pytest.fixture(scope="module")
def graphs():
    made = {}

    def graph(name):
        if name not in made:
            X, y, s = records(MODALITY[name.rsplit("-", 1)[0]])
            content, *_ = export(EXPORTED[name].fit(X, y, sensitive_features=s).mechanism_)
            made[name] = onnx.load_from_string(content)
        return made[name]

    return graph


@pytest.mark.usefixtures("few_steps")
@pytest.mark.filterwarnings("ignore:.*collapsed")
@pytest.mark.parametrize("name", EXPORTED)
def test_the_graph_passes_the_checker_and_declares_its_outputs(name, graphs):
    model = graphs(name)
    onnx.checker.check_model(model, full_check=True)
    for output in model.graph.output:
        dims = output.type.tensor_type.shape.dim
        assert dims[0].dim_param == "n"
        assert all(d.dim_value or d.dim_param for d in dims[1:])


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("name", ["codebook-0", "coupling-0", "eigan-0"])
def test_the_graph_can_be_converted_to_the_next_opset(name, graphs):
    converted = onnx.version_converter.convert_version(graphs(name), OPSET + 1)
    onnx.checker.check_model(converted, full_check=True)


def test_a_graph_without_shapes_fails_the_checker(graphs):
    """The control: this is what was exported before."""
    model = onnx.ModelProto()
    model.CopyFrom(graphs("linear-eraser-0"))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model, full_check=True)
