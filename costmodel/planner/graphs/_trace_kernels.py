"""What a trace says of kernels: the workload that an operator computes, and how a launch fills an SM.

``torch.profiler.profile(record_shapes=True)`` writes shapes. What only moves data, and shapes and settings
that no workload has, are none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import Any, NamedTuple

import msgspec

from costmodel.errors import CostModelError
from costmodel.planner.graphs._trace_events import Args, DeviceProperties, read_count
from costmodel.records._device_table import find_device
from costmodel.records._operators import OPERATORS
from costmodel.records._platform import Device
from costmodel.records._workload import Workload


def in_float16(workload: Workload) -> Workload:
    """Return the same in float16, convolutions with channels last; what is no operator stays."""
    if workload.is_foreign or workload.dtype == "float16":
        return workload
    nhwc = workload.kind.replace("conv2d", "conv2d_nhwc")
    kind = nhwc if nhwc in OPERATORS else workload.kind
    return Workload(kind, workload.dims, "float16")


_TYPES = {"float": "float32", "c10::Half": "float16", "c10::BFloat16": "float16"}

Dims = list[list[int]]


class _Call(NamedTuple):
    """What a trace says of a call: sizes of each input, and what those are that are no tensors."""

    dims: Dims
    settings: Sequence[str]

    def numbers(self, position: int) -> list[int]:
        """Read the whole numbers of a setting, such as ``[2, 2]``; none where it was not written."""
        text = self.settings[position] if position < len(self.settings) else ""
        return [int(each) for each in re.findall(r"-?\d+", text)]


def find_workload(name: str, args: Args) -> str:
    """Find the name of the workload of an operator's call; empty if it is none, or if shapes are missing.

    bfloat16 counts as float16, and convolutions in either as those with channels last.
    """
    if name not in _OPERATORS or not isinstance(args.input_dims, list):
        return ""
    types = args.input_type if isinstance(args.input_type, list) else []
    dtype = _TYPES.get(str(types[0])) if types else None
    if dtype is None:
        return ""
    settings = args.concrete_inputs if isinstance(args.concrete_inputs, list) else []
    dims = [each if isinstance(each, list) else [] for each in args.input_dims]
    try:
        found = _OPERATORS[name](_Call(dims, [str(each) for each in settings]))
        if found is None:
            return ""
        kind, sizes = found
        workload = Workload(kind, {dim: int(size) for dim, size in sizes.items()}, "float32")
        return (in_float16(workload) if dtype == "float16" else workload).name
    except (ValueError, TypeError, IndexError):  # of other ranks, or sizes that are no numbers
        return ""


_Found = tuple[str, Mapping[str, int]] | None


def _matmul(kind: str, left: list[int], right: list[int]) -> _Found:
    (m, k), (depth, n) = left, right
    return (kind, {"m": m, "n": n, "k": k}) if k == depth else None


def _addmm(call: _Call) -> _Found:
    added = call.dims[0]
    return _matmul("matmul_bias" if len(added) == 1 else "matmul_add", call.dims[1], call.dims[2])


def _linear(call: _Call) -> _Found:
    (*rows, k), (n, depth), *bias = call.dims
    kind = "matmul_bias" if bias and bias[0] else "matmul"
    return (kind, {"m": prod(rows), "n": n, "k": k}) if k == depth else None


def _bmm(call: _Call) -> _Found:
    (b, m, k), (batches, depth, n) = call.dims[:2]
    return ("batch_matmul", {"b": b, "m": m, "n": n, "k": k}) if (b, k) == (batches, depth) else None


def _softmax(call: _Call) -> _Found:
    *rows, n = call.dims[0]
    axis = call.numbers(1)
    return ("softmax", {"m": prod(rows), "n": n}) if axis in ([-1], [len(rows)]) else None


def _layer_norm(call: _Call) -> _Found:
    *rows, n = call.dims[0]
    return ("layer_norm", {"m": prod(rows), "n": n}) if [n] in call.dims[1:] else None


def _convolution(stride: int, padding: int, dilation: int, groups: int) -> Callable[[_Call], _Found]:
    """Convolutions whose settings stand at these positions."""

    def convolution(call: _Call) -> _Found:
        (n, c, h, w), (o, per_group, k, width) = call.dims[:2]
        steps, (grouped,) = call.numbers(stride), call.numbers(groups)
        usual = set(call.numbers(padding)) == {k // 2} and set(call.numbers(dilation)) == {1}
        if k != width or not usual or len(set(steps)) != 1:
            return None
        sizes = {"n": n, "c": c, "h": h, "w": w}
        if grouped == 1 and per_group == c:
            return "conv2d", sizes | {"o": o, "k": k, "s": steps[0]}
        if grouped == c == o and per_group == 1:
            return "depthwise_conv2d", sizes | {"k": k, "s": steps[0]}
        return None

    return convolution


_OPERATORS: Mapping[str, Callable[[_Call], _Found]] = {
    "aten::mm": lambda call: _matmul("matmul", *call.dims[:2]),
    "aten::addmm": _addmm,
    "aten::linear": _linear,
    "aten::bmm": _bmm,
    "aten::_softmax": _softmax,
    "aten::native_layer_norm": _layer_norm,
    "aten::conv2d": _convolution(stride=3, padding=4, dilation=5, groups=6),
    "aten::convolution": _convolution(stride=3, padding=4, dilation=5, groups=8),
    "aten::cudnn_convolution": _convolution(padding=2, stride=3, dilation=4, groups=5),
}


# Shared memory that CUDA keeps for itself in each block, and units of registers: CUDA C++ Programming Guide,
# compute capability 8 and 9; blocks of an SM at most, which Kineto does not write.
_RESERVED_SHARED_BYTES, _REGISTER_UNIT, _MOST_BLOCKS = 1024, 8, 32
# Threads of a warp on the GPUs of AMD for data centres.
_AMD_WARP = 64
# Blocks of a grid, and threads of a block, at most.
_MOST_GRID, _MOST_BLOCK = 2**62, 1024


class Launch(NamedTuple):
    """Blocks of a grid, warps of a block, blocks that an SM holds at once; 0 for what nobody knows."""

    blocks: int
    block_warps: int
    sm_blocks: int


def read_launch(args: Args, device: DeviceProperties) -> Launch:
    """Read what a trace says of a kernel's launch on a device."""
    blocks, warps = _size(args.grid, _MOST_GRID), ceil(_size(args.block, _MOST_BLOCK) / device.warp_size)
    if not warps or not device.sm_threads:
        return Launch(blocks, warps, 0)
    registers = ceil(read_count(args.registers) / _REGISTER_UNIT) * _REGISTER_UNIT
    threads = warps * device.warp_size
    limits = [_MOST_BLOCKS, device.sm_threads // threads]
    if registers and device.sm_registers:
        limits.append(device.sm_registers // (registers * threads))
    if device.sm_shared_bytes:
        wanted = read_count(args.shared_bytes) + _RESERVED_SHARED_BYTES
        limits.append(device.sm_shared_bytes // wanted)
    return Launch(blocks, warps, max(min(limits), 1))


def _size(sizes: Any, most: int) -> int:
    """Blocks of a grid, or threads of a block; 0 for what is none."""
    found = prod(read_count(each) for each in sizes) if isinstance(sizes, list) else 0
    return found if found <= most else 0


def find_model(properties: DeviceProperties) -> Device | None:
    """Find the model of a GPU: that of the table, or what the trace says of it; None if it says nothing."""
    if not properties.name:
        return None
    try:
        found = find_device(properties.name)
    except CostModelError:
        is_amd = properties.warp_size == _AMD_WARP or "amd" in properties.name.lower()
        return Device(properties.name, "hip" if is_amd else "cuda", "", properties.num_sms, 0.0)
    is_part = 0 < properties.num_sms < found.sms
    return msgspec.structs.replace(found, sms=properties.num_sms) if is_part else found


def complete_properties(properties: DeviceProperties) -> DeviceProperties:
    """Fill in what the trace does not say of a GPU from the table of GPUs."""
    device = find_model(properties)
    if device is None:
        return properties
    return properties._replace(
        num_sms=properties.num_sms or device.sms,
        sm_threads=properties.sm_threads or (device.max_threads_per_sm if device.clock_mhz else 0),
        sm_registers=properties.sm_registers or device.registers_per_sm,
        sm_shared_bytes=properties.sm_shared_bytes or device.shared_bytes_per_sm,
    )
