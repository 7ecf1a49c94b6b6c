"""What a workload's output should be, by NumPy in float64: no schedule, no TVM, no rounding to speak of."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records._workload import Workload

Array = NDArray[np.float64]
_SEED = 20260
_WEIGHTS = frozenset({"B", "weight"})  # inputs whose products are summed up
# A sum of K products that is rounded to float16 at each step is off by 1.5e-4 sqrt(K) of its norm: 1.9e-2 at
# K = 16384 (simulated; 5e-3 on Tensor Cores, which round every 16th step). A kernel that forgets one tile
# of 16 steps is off by 4 / sqrt(K): 3.1e-2 at that K. In float32 rounding stays under 1e-5.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2.5e-2}
_BLOCK = 1 << 17  # numbers that are compared at a time: two blocks and their difference fit into an L2 cache


def reference_output(workload: Workload, inputs: list[NDArray[Any]]) -> Array:
    """Return the output of ``workload`` for ``inputs``, in the order of ``workload.operator.inputs``."""
    operator = workload.operator
    names = operator.inputs(workload.dims)
    arrays = {name: array.astype(np.float64) for name, array in zip(names, inputs, strict=True)}
    own = {step: arrays.pop(step) for step in operator.epilogue if step in arrays}
    result = _ANCHORS[operator.anchor](*arrays.values(), workload.dims)
    for step in operator.epilogue:
        result = _STEPS[step](result, own.get(step))
    return result


def _conv2d_nhwc(data: Array, weight: Array, dims: Mapping[str, int]) -> Array:
    return _sum_of_taps(data, weight, dims, np.matmul)


def _conv2d(data: Array, weight: Array, dims: Mapping[str, int]) -> Array:
    output = _conv2d_nhwc(np.moveaxis(data, 1, -1), weight.transpose(2, 3, 1, 0), dims)
    return np.moveaxis(output, -1, 1)


def _depthwise_conv2d_nhwc(data: Array, weight: Array, dims: Mapping[str, int]) -> Array:
    return _sum_of_taps(data, weight[:, :, 0], dims, np.multiply)


def _depthwise_conv2d(data: Array, weight: Array, dims: Mapping[str, int]) -> Array:
    output = _depthwise_conv2d_nhwc(np.moveaxis(data, 1, -1), weight.transpose(2, 3, 1, 0), dims)
    return np.moveaxis(output, -1, 1)


def _sum_of_taps(
    data: Array, weight: Array, dims: Mapping[str, int], product: Callable[[Array, Array], Array]
) -> Array:
    """Convolution of NHWC data: each tap of the window sees the image shifted, every s pixels of it."""
    size, stride = dims["k"], dims["s"]
    pad = size // 2
    padded = np.pad(data, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    rows, columns = ((dims[axis] + 2 * pad - size) // stride + 1 for axis in "hw")
    total: Array = np.zeros(())
    for row, column in np.ndindex(size, size):
        shifted = padded[:, row::stride, column::stride][:, :rows, :columns]
        # The product of contiguous arrays is a hundred times as fast.
        total = total + product(np.ascontiguousarray(shifted), np.ascontiguousarray(weight[row, column]))
    return total


def _softmax(x: Array, _: Mapping[str, int]) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _layer_norm(x: Array, gain: Array, bias: Array, _: Mapping[str, int]) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + bias)


def _rms_norm(x: Array, gain: Array, _: Mapping[str, int]) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * gain)


def _product(a: Array, b: Array, _: Mapping[str, int]) -> Array:
    return a @ b


def _gelu(x: Array) -> Array:
    from scipy.special import erf  # takes a while to import, and sources are imported everywhere

    return np.asarray(0.5 * x * (1.0 + erf(x / np.sqrt(2.0))))


def _silu(x: Array) -> Array:
    from scipy.special import expit

    return np.asarray(x * expit(x))


_ANCHORS: Mapping[str, Callable[..., Array]] = {
    "matmul": _product,
    "batch_matmul": _product,
    "conv2d": _conv2d,
    "conv2d_nhwc": _conv2d_nhwc,
    "depthwise_conv2d": _depthwise_conv2d,
    "depthwise_conv2d_nhwc": _depthwise_conv2d_nhwc,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}
_STEPS: Mapping[str, Callable[[Array, Any], Array]] = {
    "bias": lambda x, bias: x + bias,
    "add": lambda x, other: x + other,
    "mul": lambda x, other: x * other,
    "relu": lambda x, _: np.maximum(x, 0.0),
    "relu6": lambda x, _: np.clip(x, 0.0, 6.0),
    "gelu": lambda x, _: _gelu(x),
    "silu": lambda x, _: _silu(x),
}


def make_arguments(workload: Workload) -> list[NDArray[Any]]:
    """Return random normal inputs, then an output full of NaN, so that an element that nobody writes is seen.

    Weights are divided by the square root of the reduction's length: results are of order 1, in the range of
    float16 and where activation functions bend.
    """
    rng = np.random.default_rng(_SEED)
    operator, dims = workload.operator, workload.dims
    shrink = operator.reduction(dims) ** -0.5
    arrays = []
    for name, shape in operator.inputs(dims).items():
        values = rng.standard_normal(shape) * (shrink if name in _WEIGHTS else 1.0)
        arrays.append(values.astype(workload.dtype))
    return [*arrays, np.full(operator.output(dims), np.nan, workload.dtype)]


def tolerance_of(dtype: str) -> float:
    """Largest ``||output - reference|| / ||reference||`` that rounding explains; 0 for whole numbers."""
    return _TOLERANCE.get(dtype, 0.0)


def agrees(output: NDArray[Any], reference: NDArray[Any], tolerance: float | None = None) -> bool:
    """Tell whether ``||output - reference|| / ||reference||`` is within a tolerance; integers must be equal.

    Those of one byte are codes of quantised numbers, and have a tolerance as numbers have. It is that of
    rounding to the output's dtype unless given. NaN and another size never are within it. Every kernel is
    checked, so it must take little time: squares are summed in float32, which is off by far less and takes a
    fifth of float64's time, and in blocks that stay in a cache.
    """
    if output.dtype.kind != "f" and output.dtype.itemsize > 1:
        return bool(np.array_equal(output, reference))
    tolerance = tolerance_of(str(output.dtype)) if tolerance is None else tolerance
    if output.size != reference.size:
        return False
    squares = _squares(output.ravel(), reference.ravel())
    return bool(squares[0] <= tolerance**2 * squares[1])


def _squares(output: NDArray[Any], reference: NDArray[Any]) -> tuple[float, float]:
    """Return ``||output - reference||²`` and ``||reference||²`` of two arrays ``(n,)``."""
    of_difference = of_reference = 0.0
    for first in range(0, reference.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        expected = reference[block].astype(np.float32, copy=False)
        difference = output[block].astype(np.float32, copy=False) - expected
        of_difference += float(np.vdot(difference, difference))
        of_reference += float(np.vdot(expected, expected))
    return of_difference, of_reference
