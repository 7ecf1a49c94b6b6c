"""cuBLASLt's algorithms for a product, told its SMs or not, each ready to be put on a stream.

Functions, structures and numbers are those of NVIDIA's ``cublasLt.h``, the same in CUDA 12 and 13. Matrices
of cuBLASLt are stored by columns: ``C = A B`` by rows is ``C^T = B^T A^T`` by columns, and nothing is copied.
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from costmodel.products._product import Product

# cudaDataType_t of operands and results; cublasComputeType_t and the type of the factors.
_F32, _F16, _BF16, _I8, _I32, _F8 = 0, 2, 14, 3, 10, 28
_TYPES = {
    "float16": (_F16, _F16, 68, _F32),
    "bfloat16": (_BF16, _BF16, 68, _F32),
    "float32": (_F32, _F32, 68, _F32),
    "tfloat32": (_F32, _F32, 77, _F32),
    "float8_e4m3": (_F8, _BF16, 68, _F32),
    "int8": (_I8, _I32, 72, _I32),
}
_TRANS_A, _TRANS_B, _EPILOGUE, _BIAS_POINTER, _SM_COUNT_TARGET, _FAST_ACCUM = 3, 4, 7, 8, 15, 25
_EPILOGUES = {"": 1, "bias": 4, "bias_gelu": 36}
_BATCH_COUNT, _BATCH_STRIDE = 5, 6
_MAX_WORKSPACE_BYTES = 1
WORKSPACE_BYTES = 32 << 20
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


class _Answer(ctypes.Structure):
    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("status", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class Algorithm(NamedTuple):
    """One that the heuristics offer.

    Attributes:
        position: In their list, the fastest in their opinion first.
        told: SMs that they were told, 0 for none.
        waves: Waves that they expect.
        config: What it is, by the names of ``_CONFIG``.
        launch: Put it on a stream.
    """

    position: int
    told: int
    waves: float
    config: dict[str, int]
    launch: Callable[[int], None]


class CuBlasLt:
    """The library that PyTorch has loaded.

    Args:
        cuda: PyTorch's version of CUDA.
        workspace: Address of ``WORKSPACE_BYTES``.
    """

    def __init__(self, cuda: str, workspace: int) -> None:
        self._library = ctypes.CDLL(f"libcublasLt.so.{cuda.partition('.')[0]}")
        self._workspace = c_void_p(workspace)
        self._handle = c_void_p()
        self._call("Create", byref(self._handle))

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._library[f"cublasLt{name}"](*arguments)
        if status:
            raise RuntimeError(f"cublasLt{name} gave {status}")

    def _set(self, kind: str, descriptor: c_void_p, attribute: int, value: Any) -> None:
        self._call(
            f"{kind}SetAttribute", descriptor, c_int(attribute), byref(value), c_size_t(ctypes.sizeof(value))
        )


class Descriptors:
    """Descriptors of a product; ``close`` frees them.

    Args:
        library: The library.
        shape: The product.
        pointers: Addresses of A, B, the bias and C.
    """

    def __init__(self, library: CuBlasLt, shape: Product, pointers: tuple[int, ...]) -> None:
        self._library, self._shape = library, shape
        a, b, bias, c = pointers
        self._pointers = c_void_p(a), c_void_p(b), c_void_p(c)
        operands, results, compute, factors = _TYPES[shape.dtype]
        self._one = (c_int32 if factors == _I32 else c_float)(1)
        self._zero = (c_int32 if factors == _I32 else c_float)(0)
        self._compute, self._factors, self._bias = compute, factors, bias
        m, n, k = shape.m, shape.n, shape.k
        a_t, b_t = shape.layout[0] == "t", shape.layout[1] == "t"
        self._layouts = (
            self._layout(operands, *((k, n) if b_t else (n, k))),
            self._layout(operands, *((m, k) if a_t else (k, m))),
            self._layout(results, n, m),
        )
        self._trans = int(b_t), int(a_t)
        self._operations: dict[int, c_void_p] = {}
        self._preference = c_void_p()
        library._call("MatmulPreferenceCreate", byref(self._preference))
        library._set("MatmulPreference", self._preference, _MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE_BYTES))

    def _layout(self, dtype: int, rows: int, columns: int) -> c_void_p:
        library, made = self._library, c_void_p()
        sizes = c_uint64(rows), c_uint64(columns), c_int64(rows)
        library._call("MatrixLayoutCreate", byref(made), c_int(dtype), *sizes)
        if self._shape.batch > 1:
            library._set("MatrixLayout", made, _BATCH_COUNT, c_int32(self._shape.batch))
            library._set("MatrixLayout", made, _BATCH_STRIDE, c_int64(rows * columns))
        return made

    def _operation(self, told: int) -> c_void_p:
        if told not in self._operations:
            library, made = self._library, c_void_p()
            library._call("MatmulDescCreate", byref(made), c_int(self._compute), c_int(self._factors))
            for attribute, value in zip((_TRANS_A, _TRANS_B), self._trans, strict=True):
                library._set("MatmulDesc", made, attribute, c_int32(value))
            library._set("MatmulDesc", made, _EPILOGUE, c_uint32(_EPILOGUES[self._shape.epilogue]))
            if self._shape.epilogue:
                library._set("MatmulDesc", made, _BIAS_POINTER, c_void_p(self._bias))
            if told:
                library._set("MatmulDesc", made, _SM_COUNT_TARGET, c_int32(told))
            if self._shape.dtype == "float8_e4m3":
                library._set("MatmulDesc", made, _FAST_ACCUM, ctypes.c_int8(1))
            self._operations[told] = made
        return self._operations[told]

    def algorithms(self, told: int, most: int) -> list[Algorithm]:
        """What the heuristics offer, the fastest in their opinion first; nothing if they refuse."""
        library, operation = self._library, self._operation(told)
        answers, count = (_Answer * most)(), c_int()
        b, a, c = self._layouts
        try:
            library._call(
                "MatmulAlgoGetHeuristic", library._handle, operation, b, a, c, c, self._preference,
                c_int(most), answers, byref(count),
            )  # fmt: skip
        except RuntimeError:
            return []
        return [
            Algorithm(i, told, float(answer.waves), self._config(answer), self._launch(operation, answer))
            for i, answer in enumerate(answers[: count.value])
            if answer.status == 0
        ]

    def _config(self, answer: _Answer) -> dict[str, int]:
        found = {}
        for name, (attribute, kind) in _CONFIG.items():
            value, size = kind(), c_size_t()
            status = self._library._library.cublasLtMatmulAlgoConfigGetAttribute(
                byref(answer.algorithm),
                c_int(attribute),
                byref(value),
                c_size_t(ctypes.sizeof(value)),
                byref(size),
            )
            found[name] = -1 if status else int(value.value)
        return found

    def _launch(self, operation: c_void_p, answer: _Answer) -> Callable[[int], None]:
        library, (layout_b, layout_a, layout_c), (a, b, c) = self._library, self._layouts, self._pointers
        multiply, algorithm = library._library.cublasLtMatmul, answer.algorithm
        arguments = (
            library._handle, operation, byref(self._one), b, layout_b, a, layout_a, byref(self._zero),
            c, layout_c, c, layout_c, byref(algorithm), library._workspace, c_size_t(WORKSPACE_BYTES),
        )  # fmt: skip

        def launch(stream: int) -> None:
            status = multiply(*arguments, c_void_p(stream))
            if status:
                raise RuntimeError(f"cublasLtMatmul gave {status}")

        return launch

    def close(self) -> None:
        """Free the descriptors."""
        library = self._library
        for made in self._operations.values():
            library._call("MatmulDescDestroy", made)
        for made in self._layouts:
            library._call("MatrixLayoutDestroy", made)
        library._call("MatmulPreferenceDestroy", self._preference)
