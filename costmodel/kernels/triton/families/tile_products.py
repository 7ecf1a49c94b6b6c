"""What kernels whose programs multiply tiles on Tensor Cores share: which reads of operands that takes.

Four warps and 64 rows multiply as a group (wgmma), which reads both operands from shared memory, that with
the columns once for every 64 rows. Otherwise each warp has rows and columns of the results, and reads its
part of both operands into registers: 32 rows, if there are as many, and all columns or a share of them.
"""

GROUPED = "(BLOCK_M >= 64 and num_warps >= 4)"
_WARPS_OF_ROWS = "min(num_warps, max(1, BLOCK_M // 32))"
_ROW_READS = f"(max(1, 16 * num_warps // BLOCK_M) if {GROUPED} else num_warps / {_WARPS_OF_ROWS})"
_COLUMN_READS = f"(BLOCK_M / 64 if {GROUPED} else {_WARPS_OF_ROWS})"


def operand_reads(columns: str = "BLOCK_N") -> str:
    """Elements that a program reads from shared memory in each step of a product over one dimension.

    Args:
        columns: Columns of the results of a program.
    """
    return f"(BLOCK_M * {_ROW_READS} + {columns} * {_COLUMN_READS})"
