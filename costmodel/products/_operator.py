"""The operator ``costmodel::mm``: a matrix product by the library's call that is chosen for the SMs it gets.

It chooses among the algorithms of cuBLASLt, told the SMs, and the call of PyTorch, which it leaves only where
another is surely faster. Whatever it does not know it leaves to PyTorch too: other devices and dtypes, and
operands with gaps. Sums are added in float32 (by PyTorch's call as PyTorch is set), and results have the
operands' dtype, in a region of autocast too. ``experiments/products/check_operator.py`` compares it
with float64 on a GPU.
"""

from collections.abc import Callable
from contextlib import ExitStack
from ctypes import byref, c_float, c_int, c_int32, c_size_t, c_void_p
from functools import cache, lru_cache
from typing import Any

from costmodel.errors import MissingExtraError

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError("The operator costmodel::mm", "torch") from None

from costmodel.kernels.library._cublaslt import (
    SM_COUNT_TARGET,
    CuBlasLt,
    OfferedAlgorithm,
    create_layout,
    list_algorithms,
    read_algorithm_config,
)
from costmodel.products._choose import top
from costmodel.products._cublaslt_tiles import describe_algorithm
from costmodel.products._model import shipped_products
from costmodel.products._product import Kernel, Product

# cudaDataType_t, and cublasComputeType_t with sums in float32; numbers as in ``kernels/library``.
_TYPES = {"float16": (2, 68), "bfloat16": (14, 68), "float32": (0, 68), "tfloat32": (0, 77)}
_TRANS_A, _TRANS_B = 3, 4
_ROUNDED_PARTS = 1, 4  # cublasLtReductionScheme_t: in place, and in the type of the results
_ALIGNMENT = 256
_TOO_LONG = 1 << 31
_REMEMBERED = 4096
_FEW = 0.25
_SURE = {
    ("usual", "few"): 1.0, ("usual", "part"): 1.08, ("usual", "whole"): 1.2,
    ("other", "few"): 1.75, ("other", "part"): 1.3, ("other", "whole"): 1.2,
}  # fmt: skip

Multiply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]


# By ``custom_op`` each call would take 15 us more of the host.
torch.library.define("costmodel::mm", "(Tensor a, Tensor b, SymInt sms=0) -> Tensor")


def mm(a: torch.Tensor, b: torch.Tensor, sms: int = 0) -> torch.Tensor:
    """Return the product of two matrices.

    Args:
        a: ``(m, k)``, stored by rows or, transposed, by columns.
        b: ``(k, n)``, likewise.
        sms: SMs of the current stream, such as those of its green context; 0 for all.
    """
    found: torch.Tensor = torch.ops.costmodel.mm.default(a, b, sms)
    return found


@torch.library.impl("costmodel::mm", "default")  # type: ignore[untyped-decorator]
def _compute(a: torch.Tensor, b: torch.Tensor, sms: int = 0) -> torch.Tensor:
    product = _find_product(a, b)
    if product is None:
        return _by_pytorch(a, b)
    c = torch.empty((product.m, product.n), dtype=a.dtype, device=a.device)
    with torch.cuda.device(a.device):
        multiply = _plan(product, sms, a.device.index)
        if multiply is None or c.data_ptr() % _ALIGNMENT:
            return _by_pytorch(a, b)
        multiply(a, b, c)
    return c


@torch.library.register_fake("costmodel::mm")  # type: ignore[untyped-decorator]
def _describe(a: torch.Tensor, b: torch.Tensor, sms: int = 0) -> torch.Tensor:
    torch._check(a.dim() == 2 and b.dim() == 2, lambda: "mm takes two matrices")
    torch._check(a.shape[1] == b.shape[0], lambda: "columns of a must be as many as rows of b")
    return a.new_empty((a.shape[0], b.shape[1]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, *ctx.sms = inputs  # what is not passed is not there
    ctx.save_for_backward(a, b)


def _differentiate(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    a, b = ctx.saved_tensors
    wants_a, wants_b, *_ = ctx.needs_input_grad
    of_a = mm(gradient, b.mH, *ctx.sms) if wants_a else None
    of_b = mm(a.mH, gradient, *ctx.sms) if wants_b else None
    return of_a, of_b, *[None for _ in ctx.sms]


torch.library.register_autograd("costmodel::mm", _differentiate, setup_context=_save)


def _by_pytorch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return PyTorch's product, of the operands' dtype where it would cast them (autocast) too."""
    if not torch.is_autocast_enabled(a.device.type):
        return torch.mm(a, b)
    with torch.autocast(a.device.type, enabled=False):
        return torch.mm(a, b)


def _find_product(a: torch.Tensor, b: torch.Tensor) -> Product | None:
    """Return the product that matrices have; None for what is PyTorch's to compute, or to refuse."""
    dtype, layouts = _dtype(a), (_layout(a), _layout(b))
    is_known = (
        a.is_cuda
        and a.device == b.device
        and a.dtype == b.dtype
        and dtype in _TYPES
        and None not in layouts
        and a.shape[1] == b.shape[0]
        and max(*a.shape, *b.shape) < _TOO_LONG
        and not any(each.data_ptr() % _ALIGNMENT for each in (a, b))
        and _known_device(a.device.index)
    )
    if not is_known:
        return None
    (m, k), n = a.shape, b.shape[1]
    return Product(m, n, k, dtype=dtype, layout="".join(each or "" for each in layouts))


def _layout(matrix: torch.Tensor) -> str | None:
    """Tell how a matrix is stored; None if it has gaps or is none."""
    if matrix.layout != torch.strided or matrix.dim() != 2 or 0 in matrix.shape:
        return None
    return "n" if matrix.is_contiguous() else "t" if matrix.t().is_contiguous() else None


def _dtype(matrix: torch.Tensor) -> str:
    name = str(matrix.dtype).removeprefix("torch.")
    # ``allow_tf32`` raises where both of PyTorch's ways to set the precision were used.
    is_rounded = name == "float32" and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return "tfloat32" if is_rounded else name


@cache
def _known_device(index: int) -> str:
    """Return the name of a device whose products were measured, nothing for others."""
    name = torch.cuda.get_device_name(index)
    return name if name in shipped_products().devices else ""


@lru_cache(_REMEMBERED)
def _plan(product: Product, sms: int, index: int) -> Multiply | None:
    """Return what computes a product into its last argument; None for PyTorch's call."""
    model, device = shipped_products(), _known_device(index)
    whole = int(model.sms[model.place_of(device)])
    told = sms if sms < whole else 0  # who has all need not be told
    prepared = _Prepared(_library(index), product, told)
    offered = tuple(prepared.describe(i) for i in range(len(prepared.answers)))
    if not offered:
        return None
    ranked = top(product, sms or None, device, offered, count=1000)
    (by_pytorch,) = (each for each in ranked if each.kernel.backend == "torch")
    most_s = by_pytorch.seconds / sure_margin(product, (sms or whole) / whole)
    for choice in ranked:
        if choice.seconds > most_s:
            return None
        if choice.kernel.backend == "cublaslt" and prepared.adds_in_float32(choice.kernel.position):
            return prepared.multiply(choice.kernel.position)
    return None


def sure_margin(product: Product, share: float) -> float:
    """Return how many times as long PyTorch's call must be expected to take before another one is run.

    By these margins 0.5 % of the choices for products of other models are over 2 % slower than it
    (``experiments/products/sure.py``).

    Args:
        product: The product.
        share: SMs that are granted, of all; at most 1.
    """
    return _SURE[kind_of_margin(product, share)]


def kind_of_margin(product: Product, share: float) -> tuple[str, str]:
    """Tell apart what a margin depends on: how much was measured of such products, and of how many SMs."""
    operands = "usual" if product.is_aligned_half else "other"
    return operands, "few" if share <= _FEW else "part" if share < 1 else "whole"


@lru_cache
def _library(index: int) -> CuBlasLt:
    """Return the library with a handle on a device."""
    return CuBlasLt(f"libcublasLt.so.{str(torch.version.cuda).partition('.')[0]}")


class _Prepared:
    """cuBLASLt's descriptors of a product, and what its heuristics offer; they live as long as this does."""

    def __init__(self, library: CuBlasLt, product: Product, sms: int = 0) -> None:
        self._library, self._product, self._told = library, product, sms
        self._stack = ExitStack()
        elements, compute = _TYPES[product.dtype]
        b_t, a_t = product.layout[1] == "t", product.layout[0] == "t"
        m, n, k = product[:3]
        # Matrices of cuBLASLt are stored by columns: C^T = B^T A^T, and nothing is copied.
        sizes = ((k, n) if b_t else (n, k)), ((m, k) if a_t else (k, m)), (n, m)
        self._layouts = [create_layout(library, self._stack, elements, *size) for size in sizes]
        self._operation = library.create("MatmulDesc", self._stack, c_int(compute), c_int(0))
        for attribute, value in ((_TRANS_A, b_t), (_TRANS_B, a_t), (SM_COUNT_TARGET, sms)):
            library.set("MatmulDesc", self._operation, attribute, c_int32(value))
        self.answers = self._ask()

    def _ask(self) -> list[OfferedAlgorithm]:
        """Return the algorithms, the fastest in the heuristics' opinion first; none if they refuse."""
        b, a, c = self._layouts
        try:
            return list_algorithms(self._library, self._stack, self._operation, (b, a, c, c))
        except RuntimeError:  # it supports no such product
            return []

    def describe(self, position: int) -> Kernel:
        """Return an algorithm as a kernel."""
        kind = "told" if self._told else ""
        return describe_algorithm(self._product, kind, position, self._config(position))

    def adds_in_float32(self, position: int) -> bool:
        """Whether an algorithm rounds to the type of the results once, not each part of a split sum."""
        return self._config(position)["reduction"] not in _ROUNDED_PARTS

    def _config(self, position: int) -> dict[str, int]:
        return read_algorithm_config(self._library, self.answers[position])

    def multiply(self, position: int) -> Multiply:
        """Return what runs an algorithm."""
        answer, library, (layout_b, layout_a, layout_c) = self.answers[position], self._library, self._layouts

        def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
            workspace = torch.empty(answer.workspace_bytes, dtype=torch.uint8, device=a.device)
            pointers = [c_void_p(each.data_ptr()) for each in (a, b, c, workspace)]
            library.call(
                "Matmul",
                library.handle,
                self._operation,
                byref(c_float(1.0)),
                pointers[1],
                layout_b,
                pointers[0],
                layout_a,
                byref(c_float(0.0)),
                pointers[2],
                layout_c,
                pointers[2],
                layout_c,
                byref(answer.algorithm),
                pointers[3],
                c_size_t(answer.workspace_bytes),
                c_void_p(torch.cuda.current_stream().cuda_stream),
            )

        return run
