"""Inputs and reference outputs: independent of TVM, in range, and able to tell a wrong kernel."""

import numpy as np
import pytest

from costmodel.kernels._reference import agrees, make_arguments, reference_output
from costmodel.records import Workload
from costmodel.records._operators import OPERATORS

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize(("stride", "k"), [(1, 1), (1, 3), (2, 3), (2, 1), (3, 5), (1, 2)])
def test_convolution_is_the_sum_over_its_window(stride: int, k: int) -> None:
    workload = Workload.parse(f"conv2d-n2-c3-h9-w8-o4-k{k}-s{stride}")
    data, weight, output = make_arguments(workload)
    reference = reference_output(workload, [data, weight])
    assert reference.shape == output.shape
    for n, o, y, x in np.random.default_rng(0).integers((2, 4, *output.shape[2:]), size=(20, 4)):
        total = 0.0
        for c, i, j in np.ndindex(3, k, k):
            row, column = y * stride + i - k // 2, x * stride + j - k // 2
            if 0 <= row < 9 and 0 <= column < 8:
                total += float(data[n, c, row, column]) * float(weight[o, c, i, j])
        assert reference[n, o, y, x] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("anchor", ["conv2d", "depthwise_conv2d"])
def test_layouts_compute_the_same(anchor: str) -> None:
    sizes = {"n": 2, "c": 4, "h": 7, "w": 9, "o": 3, "k": 3, "s": 2}
    dims = {dim: sizes[dim] for dim in OPERATORS[anchor].dims}
    data, weight, bias, _ = make_arguments(Workload(f"{anchor}_bias", dims))
    nchw = reference_output(Workload(f"{anchor}_bias", dims), [data, weight, bias])
    last = [data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0), bias[:, 0, 0]]
    nhwc = reference_output(Workload(f"{anchor}_nhwc_bias", dims), last)
    np.testing.assert_allclose(nhwc.transpose(0, 3, 1, 2), nchw, atol=1e-12)


@pytest.mark.parametrize("kind", OPERATORS)
def test_inputs_keep_results_near_one_and_outputs_start_unwritten(kind: str) -> None:
    dims = dict.fromkeys(OPERATORS[kind].dims, 16) | ({"k": 3, "s": 1} if "s" in OPERATORS[kind].dims else {})
    *inputs, output = make_arguments(Workload(kind, dims, "float16"))
    assert np.isnan(output).all()
    reference = reference_output(Workload(kind, dims, "float16"), inputs)
    assert 0.01 < np.abs(reference).mean() < 3.0
    assert np.abs(reference).max() < 100.0


def test_large_float16_products_stay_in_range() -> None:
    *inputs, _ = make_arguments(Workload.parse("matmul-m8-n8-k65536-float16"))
    assert all(np.isfinite(array).all() for array in inputs)
    assert np.abs(reference_output(Workload.parse("matmul-m8-n8-k65536-float16"), inputs)).max() < 10.0


def accumulated(workload: Workload, skipped: slice = slice(0)) -> np.ndarray:
    """A matrix product that rounds its sum to float16 at each step, without the skipped steps."""
    a, b, _ = make_arguments(workload)
    steps = np.delete(np.arange(workload.dims["k"]), skipped)
    total = np.zeros((workload.dims["m"], workload.dims["n"]), np.float16)
    for k in steps:
        total = (total + a[:, k : k + 1].astype(np.float32) * b[k].astype(np.float32)).astype(np.float16)
    return total


@pytest.mark.parametrize("k", [256, 4096, 11008])
def test_float16_sums_agree_and_a_forgotten_tile_does_not(k: int) -> None:
    workload = Workload.parse(f"matmul-m24-n24-k{k}-float16")
    a, b, _ = make_arguments(workload)
    reference = reference_output(workload, [a, b]).astype(np.float32)
    assert agrees(accumulated(workload), reference)
    assert not agrees(accumulated(workload, slice(k - 16, k)), reference)


@pytest.mark.parametrize("wrong", [0, 1 << 17, 299_999])
def test_one_wrong_number_of_many_is_seen_wherever_it_is(wrong: int) -> None:
    reference = np.ones(300_000, np.float32)
    output = reference.copy()
    assert agrees(output, reference)
    output[wrong] = 1.1
    assert not agrees(output, reference)


def test_another_size_is_wrong() -> None:
    reference = np.ones(6, np.float32)
    assert not agrees(reference[:5], reference)
    assert not agrees(np.ones(7, np.float32), reference)


def test_float32_tells_one_part_in_a_thousand_and_nan() -> None:
    reference = np.ones((4, 4), np.float32)
    assert agrees(reference * np.float32(1.00001), reference)
    assert not agrees(reference * np.float32(1.001), reference)
    assert not agrees(np.full_like(reference, np.nan), reference)
