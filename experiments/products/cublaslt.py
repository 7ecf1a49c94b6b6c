"""cuBLASLt's algorithms for a product, told its SMs or not, each ready to be put on a stream.

Matrices of cuBLASLt are stored by columns: ``C = A B`` by rows is ``C^T = B^T A^T`` by columns, and nothing
is copied.
"""

from collections.abc import Callable
from contextlib import ExitStack
from ctypes import byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import NamedTuple

from costmodel.kernels.library._cublaslt import (
    SM_COUNT_TARGET,
    CuBlasLt,
    OfferedAlgorithm,
    create_layout,
    list_algorithms,
    read_algorithm_config,
)
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
_TRANS_A, _TRANS_B, _EPILOGUE, _BIAS_POINTER, _FAST_ACCUM = 3, 4, 7, 8, 25
_EPILOGUES = {"": 1, "bias": 4, "bias_gelu": 36}
_BATCH_COUNT, _BATCH_STRIDE = 5, 6


class Algorithm(NamedTuple):
    """One that the heuristics offer.

    Attributes:
        position: In their list, the fastest in their opinion first.
        told: SMs that they were told, 0 for none.
        waves: Waves that they expect.
        config: What it is, see ``read_algorithm_config``.
        launch: Put it on a stream.
    """

    position: int
    told: int
    waves: float
    config: dict[str, int]
    launch: Callable[[int], None]


class Descriptors:
    """Descriptors of a product; ``close`` frees them.

    Args:
        library: The library that PyTorch has loaded.
        shape: The product.
        pointers: Addresses of A, B, the bias and C.
        workspace: Address of ``WORKSPACE_BYTES``.
    """

    def __init__(self, library: CuBlasLt, shape: Product, pointers: tuple[int, ...], workspace: int) -> None:
        self._library, self._shape, self._stack = library, shape, ExitStack()
        a, b, self._bias, c = pointers
        self._pointers, self._workspace = (c_void_p(a), c_void_p(b), c_void_p(c)), c_void_p(workspace)
        operands, results, self._compute, self._factors = _TYPES[shape.dtype]
        number = c_int32 if self._factors == _I32 else c_float
        self._one, self._zero = number(1), number(0)
        m, n, k = shape.m, shape.n, shape.k
        a_t, b_t = shape.layout[0] == "t", shape.layout[1] == "t"
        self._layouts = (
            self._layout(operands, *((k, n) if b_t else (n, k))),
            self._layout(operands, *((m, k) if a_t else (k, m))),
            self._layout(results, n, m),
        )
        self._trans = int(b_t), int(a_t)
        self._operations: dict[int, c_void_p] = {}

    def _layout(self, dtype: int, rows: int, columns: int) -> c_void_p:
        library, made = self._library, create_layout(self._library, self._stack, dtype, rows, columns)
        if self._shape.batch > 1:
            library.set("MatrixLayout", made, _BATCH_COUNT, c_int32(self._shape.batch))
            library.set("MatrixLayout", made, _BATCH_STRIDE, c_int64(rows * columns))
        return made

    def _operation(self, told: int) -> c_void_p:
        if told not in self._operations:
            library, types = self._library, (c_int(self._compute), c_int(self._factors))
            made = library.create("MatmulDesc", self._stack, *types)
            for attribute, value in zip((_TRANS_A, _TRANS_B), self._trans, strict=True):
                library.set("MatmulDesc", made, attribute, c_int32(value))
            library.set("MatmulDesc", made, _EPILOGUE, c_uint32(_EPILOGUES[self._shape.epilogue]))
            if self._shape.epilogue:
                library.set("MatmulDesc", made, _BIAS_POINTER, c_void_p(self._bias))
            if told:
                library.set("MatmulDesc", made, SM_COUNT_TARGET, c_int32(told))
            if self._shape.dtype == "float8_e4m3":
                library.set("MatmulDesc", made, _FAST_ACCUM, c_int8(1))
            self._operations[told] = made
        return self._operations[told]

    def algorithms(self, told: int, most: int) -> list[Algorithm]:
        """What the heuristics offer, the fastest in their opinion first; nothing if they refuse."""
        library, operation = self._library, self._operation(told)
        b, a, c = self._layouts
        try:
            answers = list_algorithms(library, self._stack, operation, (b, a, c, c), most)
        except RuntimeError:
            return []
        return [
            Algorithm(
                i,
                told,
                float(each.waves),
                read_algorithm_config(library, each),
                self._launch(operation, each),
            )
            for i, each in enumerate(answers)
        ]

    def _launch(self, operation: c_void_p, answer: OfferedAlgorithm) -> Callable[[int], None]:
        library, (layout_b, layout_a, layout_c), (a, b, c) = self._library, self._layouts, self._pointers
        arguments = (
            library.handle, operation, byref(self._one), b, layout_b, a, layout_a, byref(self._zero),
            c, layout_c, c, layout_c, byref(answer.algorithm), self._workspace,
            c_size_t(answer.workspace_bytes),
        )  # fmt: skip
        return lambda stream: library.call("Matmul", *arguments, c_void_p(stream))

    def close(self) -> None:
        """Free the descriptors."""
        self._stack.close()
