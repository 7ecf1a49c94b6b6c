"""What PyTorch computes a workload with, as its users would write it.

A call takes the operator's inputs in order and then the output, all contiguous in the workload's layout, and
gives the tensor that holds the result: the output where PyTorch can write into it, else a new one. A view is
free; where PyTorch copies data into another layout, the copy is part of the call.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from costmodel.kernels.family._source import load_module
from costmodel.kernels.library import _cublaslt
from costmodel.kernels.library._source import LibraryFamily
from costmodel.records._workload import Workload

Tensor = Any  # torch.Tensor
Tensors = Mapping[str, Tensor]  # inputs by the operator's names for them
Call = Callable[..., Tensor]
Anchor = Callable[[Tensors, Tensor], Tensor]  # of the inputs and the output


def make_call(workload: Workload, name: str, **choices: int) -> Call:
    """The call of a name; the first steps of the epilogue that its kernel does itself are not made again."""
    operator = workload.operator
    inputs, epilogue = list(operator.spelled_inputs), operator.epilogue
    anchor, fused = _CALLS[name](workload, **choices)

    def call(*tensors: Tensor) -> Tensor:
        *given, output = tensors
        operands = dict(zip(inputs, given, strict=True))
        result = anchor(operands, output)
        for step in epilogue[fused:]:
            result = _STEPS[step](result, operands.get(step))
        return result

    return call


def make_family_call(family: LibraryFamily, workload: Workload, name: str) -> Call:
    """Return a call that a family says: of its arguments in the kernel's order, giving its one output.

    Where its file has a function ``prepare``, the first call gives it the tensors by name, and what it
    returns is what each call gets: a sparse matrix made of arrays takes no time that counts.
    """
    assert family.library
    module = load_module(family.library)
    function, prepare = getattr(module, name), getattr(module, "prepare", dict)
    (position,) = family.own_outputs(workload)
    prepared: dict[str, Any] = {}

    def call(*tensors: Tensor) -> Tensor:
        if not prepared:
            prepared.update(prepare(dict(zip(family.argument_names, tensors, strict=True))))
        return function(prepared).reshape(tensors[position].shape)

    return call


def _eager(workload: Workload) -> tuple[Anchor, int]:
    anchor = workload.operator.anchor
    return _convolution(workload) if "conv2d" in anchor else (_ANCHORS[anchor], 0)


def _addmm(workload: Workload) -> tuple[Anchor, int]:
    """Return the product with what is added to it first: one row for all, or as large as the product."""
    added = workload.operator.epilogue[0]
    multiply_add = torch.addmm if workload.operator.anchor == "matmul" else torch.baddbmm

    def anchor(operands: Tensors, output: Tensor) -> Tensor:
        return multiply_add(operands[added], operands["A"], operands["B"], out=output)

    return anchor, 1


def _convolution(workload: Workload, *, benchmark: bool = False) -> tuple[Anchor, int]:
    """A convolution with its bias; channels that are last stay so, as views that PyTorch knows as such.

    Args:
        workload: The workload.
        benchmark: Whether cuDNN times its algorithms at the first call, and does not just guess.
    """
    operator, dims = workload.operator, workload.dims
    groups = dims["c"] if operator.family == "depthwise_conv2d" else 1
    convolve = partial(functional.conv2d, stride=dims["s"], padding=dims["k"] // 2, groups=groups)
    with_bias = operator.epilogue[:1] == ("bias",)

    def channels_first(operands: Tensors, _: Tensor) -> Tensor:
        torch.backends.cudnn.benchmark = benchmark
        bias = operands["bias"].flatten() if with_bias else None
        return convolve(operands["data"], operands["weight"], bias)

    def channels_last(operands: Tensors, output: Tensor) -> Tensor:
        data, weight = operands["data"].permute(0, 3, 1, 2), operands["weight"].permute(3, 2, 0, 1)
        result = channels_first({**operands, "data": data, "weight": weight}, output)
        return result.permute(0, 2, 3, 1).contiguous()  # one channel may be taken for channels first

    is_last = operator.anchor.endswith("_nhwc")
    return (channels_last if is_last else channels_first), int(with_bias)


def _product(operands: Tensors, output: Tensor) -> Tensor:
    return torch.matmul(operands["A"], operands["B"], out=output)


def _softmax(operands: Tensors, output: Tensor) -> Tensor:
    return torch.softmax(operands["x"], 1, out=output)


def _layer_norm(operands: Tensors, _: Tensor) -> Tensor:
    gain = operands["gain"]
    return functional.layer_norm(operands["x"], gain.shape, gain, operands["bias"], 1e-5)


def _rms_norm(operands: Tensors, _: Tensor) -> Tensor:
    return functional.rms_norm(operands["x"], operands["gain"].shape, operands["gain"], 1e-5)


_CALLS: Mapping[str, Callable[..., tuple[Anchor, int]]] = {
    "eager": _eager,
    "addmm": _addmm,
    "cudnn_benchmark": partial(_convolution, benchmark=True),
    "cublaslt": _cublaslt.make_product,
}
_ANCHORS: Mapping[str, Anchor] = {
    "matmul": _product,
    "batch_matmul": _product,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}
# In place: none of them makes a new tensor.
_STEPS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bias": lambda x, bias: x.add_(bias),
    "add": lambda x, other: x.add_(other),
    "mul": lambda x, other: x.mul_(other),
    "relu": lambda x, _: x.relu_(),
    "relu6": lambda x, _: functional.relu6(x, inplace=True),
    "gelu": lambda x, _: torch.ops.aten.gelu.out(x, out=x),  # the module's own function always makes one
    "silu": lambda x, _: functional.silu(x, inplace=True),
}
