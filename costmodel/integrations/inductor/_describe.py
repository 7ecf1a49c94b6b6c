"""Inductor's candidates for a matrix product, in our terms: the product, and a kernel for each candidate."""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from costmodel.products._product import OPERAND_BYTES, Kernel, Product

if TYPE_CHECKING:
    from torch._inductor.kernel_inputs import KernelInputs
    from torch._inductor.kernel_template_choice import KernelTemplateChoice

# Operators that multiply two of their inputs, and what they add to the product.
_EPILOGUES = {"mm": "", "bmm": "", "addmm": "bias", "baddbmm": "bias", "scaled_mm": ""}
_SCALED, _INPUTS_OF_SCALED = "scaled_mm", 4  # and a bias
_LEAST_K_OF_BYTES = 32  # Tensor Cores sum over as many at once
_DTYPES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.int8: "int8",
    torch.float8_e4m3fn: "float8_e4m3",
}
# Kinds of the templates of Triton, by the ids that Inductor gives them.
_TEMPLATES = {
    "triton::mm": "plain",
    "triton::bmm": "plain",
    "triton::mm_persistent": "persistent",
    "triton::mm_persistent_tma": "tma",
    "triton::scaled_mm_device_tma_epilogue_scaling": "tma",
}


def read_product(inputs: "KernelInputs", operator: str) -> Product | None:
    """Return the product that candidates compute; None unless its shapes are numbers and its dtype is known.

    Args:
        inputs: Of the operator. Scales of rows or of all of a matrix are not told apart.
        operator: Inductor's name for it, such as ``addmm``.
    """
    if operator not in _EPILOGUES:
        return None
    a, b = inputs.mat1mat2()
    sizes = (*a.get_size(), *b.get_size(), *a.get_stride(), *b.get_stride())
    if not {a.get_dtype(), b.get_dtype()} <= _DTYPES.keys() or not all(map(is_number, sizes)):
        return None
    *batch, m, k = map(int, a.get_size())
    if operator == _SCALED and k < _LEAST_K_OF_BYTES:
        return None
    has_bias = operator == _SCALED and len(inputs.nodes()) > _INPUTS_OF_SCALED
    return Product(
        m,
        int(b.get_size()[-1]),
        k,
        batch=batch[0] if batch else 1,
        dtype=_name_of_dtype(b.get_dtype()),
        layout=_order(a.get_stride()) + _order(b.get_stride()),
        epilogue="bias" if has_bias else _EPILOGUES[operator],
    )


def read_choice(choice: "KernelTemplateChoice") -> Kernel | None:
    """Return the kernel of a candidate; None for a template that is not known."""
    name, options = choice.template.uid, choice.params.to_kwargs()
    if name.startswith("aten::"):
        return Kernel("torch")
    if name in _TEMPLATES:
        return _triton_kernel(_TEMPLATES[name], options)
    if "k_split" in options:
        return Kernel("torch", "decompose-k", splits=int(options["k_split"]))
    return None


def read_convolution(node: Any) -> tuple[Product, int] | None:
    """Return the product that a convolution is, and its groups; None unless its shapes are numbers.

    Each output pixel is a row, and what it is summed over are the weights of one output channel.

    Args:
        node: Of a graph of PyTorch, with the shapes that tracing found.
    """
    if getattr(node, "target", None) is not torch.ops.aten.convolution.default:
        return None
    _, weight, made = (each.meta.get("val") for each in (*node.args[:2], node))
    groups, sizes = node.args[8], (*getattr(weight, "shape", ()), *getattr(made, "shape", ()))
    if not sizes or not all(map(is_number, sizes)) or made.dtype not in _DTYPES:
        return None
    images, channels, *pixels = map(int, made.shape)
    dtype = _name_of_dtype(made.dtype)
    return Product(images * prod(pixels), channels, prod(map(int, weight.shape[1:])), 1, dtype, "nt"), groups


def as_kernel(config: Any) -> Kernel:
    """Return the kernel of a config of a convolution's template."""
    options = {"GROUP_M": 8, "num_stages": config.num_stages, "num_warps": config.num_warps}
    return _triton_kernel("plain", options | config.kwargs)


def shared_bytes(product: Product, kernel: Kernel) -> int:
    """Return the shared memory of a block of a Triton kernel; 0 for the library's.

    As its compiler asked for it on an H200: products on CUDA cores (float32) load one slab less ahead, and a
    kernel with tensor descriptors keeps its sums to store them.
    """
    ahead = max(1, kernel.stages - (product.dtype == "float32"))
    slabs = ahead * (kernel.block_m + kernel.block_n) * kernel.block_k * OPERAND_BYTES[product.dtype]
    return slabs + (4 * kernel.block_m * kernel.block_n if kernel.kind == "tma" else 0)


def _triton_kernel(kind: str, options: Mapping[str, Any]) -> Kernel:
    return Kernel(
        "triton",
        kind,
        block_m=int(options["BLOCK_M"]),
        block_n=int(options["BLOCK_N"]),
        block_k=int(options["BLOCK_K"]),
        stages=int(options["num_stages"]),
        warps=int(options["num_warps"]),
        group_m=int(options["GROUP_M"]),
        programs_per_sm=0 if kind == "plain" else 1,
    )


def _name_of_dtype(dtype: torch.dtype) -> str:
    """Name of what the Tensor Cores are given: float32 may be rounded on the way."""
    if dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
        return "tfloat32"
    return _DTYPES[dtype]


def _order(strides: Any) -> str:
    """``n`` for a matrix that is stored by rows, ``t`` for one stored by columns."""
    *_, of_row, of_column = map(int, strides)
    return "t" if of_column != 1 and of_row == 1 else "n"


def is_number(size: Any) -> bool:
    """Whether a size is known."""
    return isinstance(size, int) or bool(getattr(size, "is_number", False))
