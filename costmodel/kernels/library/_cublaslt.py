"""Matrix products by cuBLASLt, told how many SMs it has and which of its algorithms to take.

PyTorch reaches neither: cuBLASLt's attribute for the SMs has to be set on the descriptor of a product. The
functions, structures and numbers are those of NVIDIA's ``cublasLt.h``, the same in CUDA 12 and 13.

cuBLASLt's matrices are stored by columns. One that is stored by rows is its transpose stored by columns, and
``C = A B`` is ``C^T = B^T A^T``: the operands change places and nothing is copied.
"""

import ctypes
from collections.abc import Mapping
from contextlib import ExitStack
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache, partial
from typing import Any

import torch

from costmodel.errors import InvalidConfigError
from costmodel.kernels.library._source import MOST_ALGORITHMS
from costmodel.records._workload import Workload

_ELEMENTS = {torch.float32: 0, torch.float16: 2}  # cudaDataType_t: CUDA_R_32F, CUDA_R_16F
_COMPUTE_32F = 68  # cublasComputeType_t: sums in float32, and no TF32
_EPILOGUE, _BIAS_POINTER, SM_COUNT_TARGET = 7, 8, 15  # cublasLtMatmulDescAttributes_t
_DEFAULT, _RELU, _BIAS = 1, 2, 4  # cublasLtEpilogue_t; a ReLU behind a bias is 6
_MAX_WORKSPACE_BYTES = 1  # cublasLtMatmulPreferenceAttributes_t
WORKSPACE_BYTES = 32 << 20  # what NVIDIA advises for Hopper
# cublasLtMatmulAlgoConfigAttributes_t: place and type of what an algorithm is.
_CONFIG = {
    "id": (0, c_int32),
    "tile": (1, c_uint32),
    "splits": (2, c_int32),
    "reduction": (3, c_uint32),
    "swizzle": (4, c_uint32),
    "custom": (5, c_uint32),
    "stages": (6, c_uint32),
    "inner": (7, c_uint16),
    "cluster": (8, c_uint16),
}


class OfferedAlgorithm(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: an algorithm, and what it needs."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("status", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class CuBlasLt:
    """The library, and its handle on the current device.

    Args:
        path: Name of the shared library, as the dynamic linker takes it.
    """

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self._functions.cublasLtGetStatusName.restype = ctypes.c_char_p
        self.handle = c_void_p()
        self.call("Create", byref(self.handle))

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``cublasLt<name>``.

        Raises:
            RuntimeError: It gives another status than success.
        """
        status = self._functions[f"cublasLt{name}"](*arguments)
        if status:
            said = self._functions.cublasLtGetStatusName(c_int(status)).decode()
            raise RuntimeError(f"cublasLt{name} must succeed, but it gave {said}")

    def create(self, kind: str, stack: ExitStack, *arguments: Any) -> c_void_p:
        """Return a descriptor that lives as long as ``stack``."""
        made = c_void_p()
        self.call(f"{kind}Create", byref(made), *arguments)
        stack.callback(self.call, f"{kind}Destroy", made)
        return made

    def set(self, kind: str, descriptor: c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute of a descriptor to a value of ``ctypes``."""
        size = c_size_t(ctypes.sizeof(value))
        self.call(f"{kind}SetAttribute", descriptor, c_int(attribute), byref(value), size)


@cache
def _cublaslt(cuda: str) -> CuBlasLt:
    """Return the library that PyTorch has loaded, which the dynamic linker gives again.

    Raises:
        OSError: It has loaded none.
    """
    return CuBlasLt(f"libcublasLt.so.{cuda.partition('.')[0]}")


def make_product(workload: Workload, *, algorithm: int, sm_target: int) -> "tuple[Any, int]":
    """Tell what computes the product and the first steps of the epilogue, and how many steps that are.

    Sums and a ReLU behind them are part of the product. cuBLASLt's GELU is not: it is the approximation by
    a hyperbolic tangent.

    Args:
        workload: A ``matmul`` with any epilogue.
        algorithm: Position among those that the heuristics offer, the one that they think fastest first.
        sm_target: SMs to choose for; 0 for all that the device has.
    """
    fused = _fused(workload.operator.epilogue)
    return partial(_multiply, fused=fused, algorithm=algorithm, sm_target=sm_target), len(fused)


def _fused(epilogue: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps that cuBLASLt does."""
    sums = 0
    while epilogue[sums : sums + 1] in (("bias",), ("add",)):
        sums += 1
    return epilogue[: sums + 1] if epilogue[sums : sums + 1] == ("relu",) else epilogue[:sums]


def _multiply(
    operands: Mapping[str, Any], output: Any, *, fused: tuple[str, ...], algorithm: int, sm_target: int
) -> Any:
    """Return ``output = relu(A B + add + bias)``, of which ``fused`` names what there is."""
    library, a, b = _cublaslt(str(torch.version.cuda)), operands["A"], operands["B"]
    (m, k), n = a.shape, b.shape[1]
    added = operands["add"] if "add" in fused else output
    with ExitStack() as stack:
        create = partial(create_layout, library, stack, _ELEMENTS[a.dtype])
        layouts = create(n, k), create(k, m), create(n, m), create(n, m)  # of B, A, what is added, output
        operation = _operation(library, stack, fused, operands.get("bias"), sm_target)
        answer = _answer(library, stack, operation, layouts, algorithm)
        workspace = torch.empty(answer.workspace_bytes, dtype=torch.uint8, device=a.device)
        library.call(
            "Matmul",
            library.handle,
            operation,
            byref(c_float(1.0)),
            c_void_p(b.data_ptr()),
            layouts[0],
            c_void_p(a.data_ptr()),
            layouts[1],
            byref(c_float("add" in fused)),
            c_void_p(added.data_ptr()),
            layouts[2],
            c_void_p(output.data_ptr()),
            layouts[3],
            byref(answer.algorithm),
            c_void_p(workspace.data_ptr()),
            c_size_t(answer.workspace_bytes),
            c_void_p(torch.cuda.current_stream().cuda_stream if a.is_cuda else None),
        )
    return output


def create_layout(library: CuBlasLt, stack: ExitStack, elements: int, rows: int, columns: int) -> c_void_p:
    """Return a matrix that is stored by columns, one behind the other."""
    sizes = c_uint64(rows), c_uint64(columns), c_int64(rows)
    return library.create("MatrixLayout", stack, c_int(elements), *sizes)


def _operation(
    library: CuBlasLt, stack: ExitStack, fused: tuple[str, ...], bias: Any, sm_target: int
) -> c_void_p:
    """Return the product's descriptor."""
    scale = c_int(_ELEMENTS[torch.float32])
    operation = library.create("MatmulDesc", stack, c_int(_COMPUTE_32F), scale)
    epilogue = _RELU * ("relu" in fused) | _BIAS * ("bias" in fused)
    library.set("MatmulDesc", operation, _EPILOGUE, c_uint32(epilogue or _DEFAULT))
    if "bias" in fused:
        library.set("MatmulDesc", operation, _BIAS_POINTER, c_void_p(bias.data_ptr()))
    library.set("MatmulDesc", operation, SM_COUNT_TARGET, c_int32(sm_target))
    return operation


def _answer(
    library: CuBlasLt,
    stack: ExitStack,
    operation: c_void_p,
    layouts: tuple[c_void_p, ...],
    algorithm: int,
) -> OfferedAlgorithm:
    """Return one of the algorithms that the heuristics offer.

    Raises:
        InvalidConfigError: They offer fewer.
    """
    sound = list_algorithms(library, stack, operation, layouts)
    if algorithm >= len(sound):
        raise InvalidConfigError(
            f"An algorithm must be one of the {len(sound)} that cuBLASLt offers, but got {algorithm}, from "
            "0 on. Take a smaller one."
        )
    return sound[algorithm]


def list_algorithms(
    library: CuBlasLt,
    stack: ExitStack,
    operation: c_void_p,
    layouts: tuple[c_void_p, ...],
    most: int = MOST_ALGORITHMS,
) -> list[OfferedAlgorithm]:
    """Return the algorithms that the heuristics offer, the one that they think fastest first.

    Args:
        library: The library.
        stack: Keeps what is made for the question.
        operation: The product's descriptor.
        layouts: Those of B, A, what is added, and the output.
        most: How many are asked for.

    Raises:
        RuntimeError: There is none for such a product.
    """
    preference = library.create("MatmulPreference", stack)
    library.set("MatmulPreference", preference, _MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE_BYTES))
    answers, count = (OfferedAlgorithm * most)(), c_int()
    library.call(
        "MatmulAlgoGetHeuristic",
        library.handle,
        operation,
        *layouts,
        preference,
        c_int(most),
        answers,
        byref(count),
    )
    return [answer for answer in answers[: count.value] if answer.status == 0]


def read_algorithm_config(library: CuBlasLt, offered: OfferedAlgorithm) -> dict[str, int]:
    """Tell what an algorithm is: its number, tile, stages and so on; -1 for what it has not."""
    found = {}
    for name, (attribute, kind) in _CONFIG.items():
        value, size = kind(), c_size_t()
        arguments = c_int(attribute), byref(value), c_size_t(ctypes.sizeof(value)), byref(size)
        try:
            library.call("MatmulAlgoConfigGetAttribute", byref(offered.algorithm), *arguments)
            found[name] = int(value.value)
        except RuntimeError:
            found[name] = -1
    return found
