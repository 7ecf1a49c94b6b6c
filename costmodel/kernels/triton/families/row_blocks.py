"""What kernels over the rows of a matrix ``(m, n)`` share: their parameters, and how they are launched.

A program takes ``ROWS`` rows. Where ``BLOCK_N`` is as long as a row it holds them in registers, else it loops
over blocks of columns. ``PROGRAMS`` of them share all rows, one tile after the other; 0 is a program a tile.
Of a loop ``STAGES`` blocks are in flight, all but one of them in shared memory.
"""

PARAMETERS = {
    "ROWS": (1, 2, 4, 8, 16, 32),
    "BLOCK_N": (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    "PROGRAMS": (0, 32, 64, 132, 264, 528, 1056),
    "STAGES": (1, 2, 3),
    "num_warps": (1, 2, 4, 8, 16, 32),
}
DEFAULTS = {"ROWS": 1, "BLOCK_N": 4096, "PROGRAMS": 0, "STAGES": 1, "num_warps": 8}
GRID = ("PROGRAMS if PROGRAMS > 0 else ceil(m / ROWS)",)
TILES_OF_A_PROGRAM = "ceil(ceil(m / ROWS) / blocks)"
STEPS = "ceil(n / BLOCK_N)"
PASSES = "(1 if BLOCK_N >= n else 2)"  # over the columns, of kernels that need a whole row for each result

BLOCK_CONDITIONS = (
    "BLOCK_N == 128 or BLOCK_N < 2 * n",
    "ROWS == 1 or ROWS < 2 * m",
    # A thread has at least 2 elements, and at most what its registers hold, of which 16 warps leave few.
    "64 * num_warps <= ROWS * BLOCK_N <= min(2048 * num_warps, max(16384, 1024 * num_warps))",
)
LOOP_CONDITIONS = (
    "PROGRAMS == 0 or PROGRAMS * ROWS < m",
    "STAGES == 1 or BLOCK_N < n or PROGRAMS > 0",
)


def in_flight(element_bytes: int, column_bytes: int = 0) -> str:
    """Shared memory that the blocks of a loop have.

    Args:
        element_bytes: What a loop reads for each element of a block.
        column_bytes: What it reads for each column of a block, whatever the rows.
    """
    return f"(STAGES - 1) * BLOCK_N * ({element_bytes} * ROWS + {column_bytes})"


def fits(blocks: str) -> str:
    """Whether a block has that much shared memory, and a few KiB more."""
    return f"{blocks} <= 210 * 1024"


def shared_bytes(blocks: str, vector: str) -> str:
    """Shared memory of a block, but for a few KiB by which warps add up rows and exchange columns.

    Args:
        blocks: What the blocks of a loop have.
        vector: The widest access. What is narrower than 4 bytes is not copied past the registers.
    """
    return f"{blocks} if {vector} >= 4 else 0"


def vector_bytes(element_bytes: int) -> str:
    """Widest access to elements of this size: those that a thread has side by side and rows keep aligned."""
    aligned = "(8 if n % 8 == 0 else 4 if n % 4 == 0 else 2 if n % 2 == 0 else 1)"
    return f"min(16, {element_bytes} * min({aligned}, ROWS * BLOCK_N // threads))"
