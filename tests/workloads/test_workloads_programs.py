"""The programs of workloads: what they compute, and that those of recorded kinds have not changed."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from costmodel.dataset import find_dataset
from costmodel.kernels import open_space
from costmodel.kernels._reference import agrees, make_arguments, reference_output
from costmodel.records import Workload
from costmodel.records._operators import OPERATORS

tvm = pytest.importorskip("tvm")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

# Odd sizes, so that nothing divides anything.
SIZES = {"b": 2, "m": 21, "n": 3, "c": 6, "h": 9, "w": 7, "o": 5, "k": 3, "s": 2}
ANCHORS = [kind for kind, operator in OPERATORS.items() if not operator.epilogue]
EPILOGUES = [
    f"{anchor}_{'_'.join(operator.epilogue)}"
    for anchor in ("matmul", "conv2d")
    for operator in OPERATORS.values()
    if operator.anchor == "matmul" and operator.epilogue
]
OTHERS = [
    "batch_matmul_bias_add_relu",
    "conv2d_nhwc_bias_add_relu",
    "depthwise_conv2d_bias_add",
    "depthwise_conv2d_nhwc_bias_add",
]


def small(kind: str, dtype: str) -> Workload:
    return Workload(kind, {dim: SIZES[dim] for dim in OPERATORS[kind].dims}, dtype)


def computed(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Output of the unscheduled program on the CPU, and the reference output."""
    program = tvm.compile(
        open_space(workload, "cpu").module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0})
    )
    arrays = make_arguments(workload)
    arguments = [tvm.runtime.tensor(array) for array in arrays]
    program(*arguments)
    return arguments[-1].numpy(), reference_output(workload, arrays[:-1])


def relative_error(output: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(output.astype(np.float64) - reference) / np.linalg.norm(reference))


@pytest.mark.parametrize("kind", [*ANCHORS, *EPILOGUES, *OTHERS])
def test_the_reference_is_what_the_program_computes(kind: str) -> None:
    output, reference = computed(small(kind, "float32"))
    assert output.shape == reference.shape
    assert relative_error(output, reference) < 1e-6


@pytest.mark.parametrize("kind", [*ANCHORS, "matmul_bias_gelu", "matmul_silu_mul", "conv2d_nhwc_bias_relu6"])
def test_float16_programs_differ_from_it_by_rounding(kind: str) -> None:
    output, reference = computed(small(kind, "float16"))
    assert output.dtype == np.float16
    assert relative_error(output, reference) < 2e-3
    assert agrees(output, reference)


def test_a_float16_softmax_of_a_long_row_does_not_stop_summing() -> None:
    output, reference = computed(Workload.parse("softmax-m4-n4096-float16"))
    assert relative_error(output, reference) < 1e-3
    np.testing.assert_allclose(output.astype(np.float64).sum(axis=1), 1.0, atol=2e-3)


def test_programs_of_the_published_dataset_have_kept_their_spaces() -> None:
    table = pq.read_table(
        find_dataset() / "measurements.parquet", columns=["workload", "kind", "space"]
    ).to_pandas()
    recorded = table.drop_duplicates(["kind", "space"])
    assert set(recorded["kind"]) >= {"matmul", "matmul_bias_gelu", "conv2d", "softmax", "layer_norm"}
    for name, space in zip(recorded["workload"], recorded["space"], strict=True):
        assert open_space(Workload.parse(name), "cuda").name == space, name
