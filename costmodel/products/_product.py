"""A matrix product, and a kernel that computes it, as a model of products sees them."""

from typing import NamedTuple

from costmodel.errors import CostModelError

OPERAND_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "tfloat32": 4,
    "float32": 4,
    "float8_e4m3": 1,
    "int8": 1,
}
RESULT_BYTES = {**OPERAND_BYTES, "float8_e4m3": 2, "int8": 4}
LAYOUTS = ("nn", "nt", "tn", "tt")
_LARGEST = 1 << 31
_HALF, _ROW_BYTES = 2, 16


class Product(NamedTuple):
    """``C[m, n] = epilogue(A[m, k] B[k, n])``, ``batch`` times, with sums in float32 (int32 for int8).

    Attributes:
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
        batch: Products.
        dtype: Of the operands, one of ``OPERAND_BYTES``; "tfloat32" is float32 that may be rounded to
            TensorFloat-32.
        layout: A, then B: "n" as the product reads it, by rows; "t" transposed. A linear layer is "nt".
        epilogue: Elementwise steps, joined by "_": "bias", "bias_gelu". Others count as ``""``.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float16"
    layout: str = "nt"
    epilogue: str = ""

    @property
    def flops(self) -> float:
        """Operations; a multiply-add counts as two."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def min_bytes(self) -> float:
        """Bytes of operands and results."""
        operands, results = OPERAND_BYTES[self.dtype], RESULT_BYTES[self.dtype]
        read = self.m * self.k + self.k * self.n
        return float(self.batch * (operands * read + results * self.m * self.n))

    @property
    def is_aligned_half(self) -> bool:
        """Whether operands are of 16 bits and rows begin at 16 bytes, as in most products of models."""
        width = OPERAND_BYTES[self.dtype]
        return width == _HALF and not any(stride * width % _ROW_BYTES for stride in self.strides)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Elements between the rows of A, B and C as they are stored."""
        a_t, b_t = self.layout[0] == "t", self.layout[1] == "t"
        return self.m if a_t else self.k, self.k if b_t else self.n, self.n


class Kernel(NamedTuple):
    """A way to compute a product.

    Attributes:
        backend: "triton", "cublaslt", or "torch": PyTorch's call, which does not know its SMs.
        kind: Of Triton's, how tiles are shared out: "plain" (a program each), "split-k", "persistent",
            "stream-k", "tma" (persistent, by tensor descriptors). Of cuBLASLt, "told" its SMs or ``""``.
        block_m: Rows of a tile; 0, with the next four, where the library chooses.
        block_n: Columns of a tile.
        block_k: Length of a slab.
        stages: Slabs in flight.
        warps: Warps of a program.
        group_m: Rows of tiles that are walked together.
        splits: Programs that share a tile; 0 where the slabs of all tiles are shared out.
        programs_per_sm: Programs for each SM, where their number does not depend on the tiles; else 0.
        position: Of cuBLASLt's algorithms, in the order of its heuristics.
        algorithm: cuBLASLt's number of the algorithm, 0 if it was not asked.
        option: Its custom option.
        cluster: Its number of the shape of thread block clusters.
    """

    backend: str
    kind: str = ""
    block_m: int = 0
    block_n: int = 0
    block_k: int = 0
    stages: int = 0
    warps: int = 0
    group_m: int = 8
    splits: int = 1
    programs_per_sm: int = 0
    position: int = 0
    algorithm: int = 0
    option: int = 0
    cluster: int = 0


def check_product(product: Product) -> Product:
    """Return a product that a model can be asked about.

    Raises:
        CostModelError: A size is no positive whole number, or the dtype or the layout is unknown.
    """
    sizes = product.m, product.n, product.k, product.batch
    if any(type(size) is not int or not 0 < size < _LARGEST for size in sizes):
        raise CostModelError(
            f"Sizes of a product must be whole numbers from 1 to 2**31 - 1, but got {sizes}."
        )
    if product.dtype not in OPERAND_BYTES:
        raise CostModelError(
            f"The dtype of a product must be one of {', '.join(OPERAND_BYTES)}, but got {product.dtype!r}."
        )
    if product.layout not in LAYOUTS:
        raise CostModelError(
            f"The layout of a product must be one of {', '.join(LAYOUTS)} (A, then B; t: stored "
            f"transposed), but got {product.layout!r}."
        )
    return product
