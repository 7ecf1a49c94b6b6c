"""What a learner sees of a kernel on some SMs: the terms of its time, and what they leave out."""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.products._core import TERMS
from costmodel.products._product import OPERAND_BYTES, Kernel, Product

_SHARES = ("compute", "l2", "latency", "memory", "sums")
_LOGS = ("total", "waves", "per_sm", "tiles", "slabs", "programs", "padding", "block_m", "block_n", "block_k")
_PLAIN = ("idle", "stages", "warps", "splits")
_KERNEL = ("kind", "group_m", "position", "algorithm", "option", "cluster")
_PRODUCT = (
    "log_m", "log_n", "log_k", "log_batch", "log_sms", "log_intensity", "dtype", "a_t", "b_t", "odd_operands",
    "odd_results", "epilogue",
)  # fmt: skip
_OTHERS = ("programs_per_sm_of_device", "ragged_k", "single_copies", "registers")
_DIVISOR = 16  # Triton knows of a stride that is passed whether this divides it, and nothing else
_ACCESS_BYTES = 16  # the widest
COLUMNS = (*_SHARES, *_LOGS, *_PLAIN, *_KERNEL, *_PRODUCT, *_OTHERS)
# bfloat16 takes as long as float16 does.
_DTYPES = {"float16": 0, "bfloat16": 0, "float8_e4m3": 1, "int8": 2, "tfloat32": 3, "float32": 4}
_KINDS = (
    ("torch", ""), ("cublaslt", ""), ("cublaslt", "told"), ("triton", "plain"), ("triton", "split-k"),
    ("triton", "stream-k"), ("triton", "persistent"), ("triton", "tma"),
)  # fmt: skip
KIND_PLACES = {kind: i for i, kind in enumerate(_KINDS)}


def kernel_columns(
    product: Product, kernels: Sequence[Kernel], sms: int, terms: FloatArray, *, sizes_known: bool = False
) -> FloatArray:
    """Return ``(n, len(COLUMNS))``, float32 of sizes and ratios, mostly in powers of two.

    Args:
        product: The product.
        kernels: Kernels that compute it.
        sms: SMs that are granted.
        terms: What ``time_terms`` tells of them.
        sizes_known: Whether Triton's kernels have the sizes compiled in.
    """
    term = dict(zip(TERMS, terms.T, strict=True))
    found = [term[name] / term["total"] for name in _SHARES]
    found += [np.log2(term[name]) for name in _LOGS]
    found += [term[name] for name in _PLAIN]
    own = [(KIND_PLACES[each[:2]], each.group_m, *each[-4:]) for each in kernels]
    found += list(np.array(own, np.float64).T)
    found += [np.full(len(kernels), value) for value in _product_columns(product, sms)]
    found += [np.log2(term["programs"] / sms), (product.k % term["block_k"] > 0).astype(float)]
    single, registers = _thread_columns(product, kernels, term, sizes_known=sizes_known)
    found += [single, np.log2(registers)]
    return np.stack(found, axis=1).astype(np.float32).astype(np.float64)


def _thread_columns(
    product: Product, kernels: Sequence[Kernel], term: dict[str, FloatArray], *, sizes_known: bool
) -> tuple[FloatArray, FloatArray]:
    """Copies of a thread in a slab that are not the widest, and registers for their addresses and sums.

    A thread has 255 registers: what is above goes to memory and back in every slab, and a kernel takes up to
    a hundred times as long.
    """
    width = OPERAND_BYTES[product.dtype]
    a, b, _ = (_narrow_copies(stride, width, sizes_known=sizes_known) for stride in product.strides)
    is_triton = np.array([kernel.backend == "triton" for kernel in kernels])
    threads = 32 * term["warps"]
    single = is_triton * (a * term["block_m"] + b * term["block_n"]) * term["block_k"] / threads
    return single, term["block_m"] * term["block_n"] / threads + 2 * single


def _narrow_copies(stride: int, width: int, *, sizes_known: bool) -> float:
    """Copies for each element; 0 where all are of the widest access."""
    widest = _ACCESS_BYTES // width
    if stride % _DIVISOR == 0 or (sizes_known and stride % widest == 0):
        return 0.0
    return 1 / _even(stride) if sizes_known else 1.0


def _product_columns(product: Product, sms: int) -> list[float]:
    a, b, c = product.strides
    width = OPERAND_BYTES[product.dtype]
    sizes = [float(np.log2(size)) for size in (product.m, product.n, product.k, product.batch, sms)]
    steps = [step for step in product.epilogue.split("_") if step]
    return [
        *sizes,
        float(np.log2(product.flops / product.min_bytes)),
        float(_DTYPES[product.dtype]),
        float(product.layout[0] == "t"),
        float(product.layout[1] == "t"),
        float(_odd(min(_even(a), _even(b)) * width)),
        float(_odd(_even(c) * width)),
        float(min(len(steps), 2)),
    ]


def _even(stride: int) -> int:
    """The power of two that divides it."""
    return stride & -stride


def _odd(stride_bytes: int) -> int:
    """How far a stride is from the 32 bytes at which every way to copy works: 0 if it is a multiple."""
    return max(0, 5 - int(stride_bytes).bit_length() + 1)
