"""What a workload's output should be, by NumPy in float64: no schedule, no TVM, no rounding to speak of."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records._workload import Workload

Array = NDArray[np.float64]


def reference_output(workload: Workload, inputs: list[NDArray[Any]]) -> Array:
    """The output of ``workload`` for ``inputs``, in the order of ``workload.operator.inputs``."""
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
