"""Kernels of a model that frameworks take configs for from a table, and our workloads that stand for them."""

from typing import Literal

import msgspec

from costmodel.records._workload import Workload

# What tables call the types of tokens and weights; of 16-bit ones nothing.
Precision = Literal["", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16"]
BlockShape = tuple[int, int]
Row = dict[str, int]  # parameters of a kernel, in the words of both frameworks
PARAMETERS = (
    *("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"),
    *("num_warps", "num_stages"),
)

_FAMILIES = {"": "fused_moe", "int8_w8a16": "fused_moe_int8", "int4_w4a16": "fused_moe_int4"}
_OPERAND_BYTES: dict[Precision, tuple[float, float]] = {
    "": (2, 2),
    "fp8_w8a8": (1, 1),
    "int8_w8a8": (1, 1),
    "int8_w8a16": (2, 1),
    "int4_w4a16": (2, 0.5),
}
_SCALED_BLOCK: BlockShape = (128, 128)  # of weights that share a scale, in our families
# How unevenly experts are chosen, see ``fused_moe``: few experts are more alike than many.
_SKEW, _SKEW_OF_FEW, _FEW = 100, 50, 32


class ExpertProducts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="experts"):
    """Both products of the experts of a layer: gate and up together, then down. One config is for both.

    Attributes:
        experts: On a GPU.
        chosen: Experts of a token; 0 where it is not known, as tables do not say it.
        width: Elements between the products, after gating.
        hidden: Elements of a token; 0 where it is not known.
        precision: Types of tokens and weights.
        block: Rows and columns of a weight that share a scale.
    """

    experts: int
    chosen: int
    width: int
    hidden: int
    precision: Precision = ""
    block: BlockShape | None = None

    @property
    def is_ours(self) -> bool:
        """Whether kernels of our own families stand for it: of these types, with all sizes known."""
        if not (self.chosen and self.hidden):
            return False
        if self.precision.endswith("a16"):
            return bool(self.block and self.block[1])
        return self.precision == "" or (self.precision, self.block) == ("fp8_w8a8", _SCALED_BLOCK)

    def workloads(self, tokens: int) -> tuple[Workload, Workload]:
        """Return the products of a number of tokens, of our own families."""
        return self._workload(tokens, 2 * self.width, self.hidden, ""), self._workload(
            tokens, self.hidden, self.width, "_weighted"
        )

    def _workload(self, tokens: int, columns: int, depth: int, weighted: str) -> Workload:
        family = "fused_moe_float8" if self.precision == "fp8_w8a8" else _FAMILIES[self.precision]
        dims = {"t": tokens, "e": self.experts, "k": self.chosen, "n": columns, "d": depth}
        if family == "fused_moe":
            family += weighted
        if self.precision.startswith("int"):
            assert self.block
            dims["g"] = self.block[1]
        skew = _SKEW if self.experts > _FEW else _SKEW_OF_FEW
        return Workload(f"triton.{family}", {**dims, "s": skew}, "")


class ScaledProduct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="scaled"):
    """A product of a linear layer in float8, whose weights have a scale for each block.

    Attributes:
        columns: Results of a token.
        depth: Elements of a token.
        block: Rows and columns of a weight that share a scale.
    """

    columns: int
    depth: int
    block: BlockShape = _SCALED_BLOCK

    @property
    def is_ours(self) -> bool:
        """Whether a kernel of our own family stands for it."""
        return self.block == _SCALED_BLOCK

    def workloads(self, tokens: int) -> tuple[Workload]:
        """Return the product of a number of tokens."""
        return (
            Workload("triton.block_scaled_float8", {"m": tokens, "n": self.columns, "k": self.depth}, ""),
        )


Kernel = ExpertProducts | ScaledProduct


def needed_shared_bytes(kernel: Kernel, row: Row) -> int:
    """Return the shared memory that a config takes at most: operands of all stages."""
    of_token, of_weight = operand_bytes(kernel)
    slab = row["BLOCK_SIZE_M"] * of_token + row["BLOCK_SIZE_N"] * of_weight
    return int(slab * row["BLOCK_SIZE_K"] * row["num_stages"])


def meets_scales(kernel: Kernel, row: Row, *, whole: bool = False) -> bool:
    """Tell whether the slabs of a config and the blocks of scales divide one another.

    Args:
        kernel: What for; without scales all do.
        row: The config.
        whole: Ask for slabs of whole blocks where a block has several rows of weights: not every kernel of
            the frameworks that takes them keeps a scale for more than one slab.
    """
    if kernel.block is None or not kernel.block[1]:
        return True
    depth, (rows, block) = row["BLOCK_SIZE_K"], kernel.block
    return depth % block == 0 or (block % depth == 0 and not (whole and rows))


def operand_bytes(kernel: Kernel) -> tuple[float, float]:
    """Return the bytes of an element of a token, and of a weight."""
    precision = "fp8_w8a8" if isinstance(kernel, ScaledProduct) else kernel.precision
    return _OPERAND_BYTES[precision]
