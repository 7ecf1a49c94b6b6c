"""Matrix products, one or a batch, with every epilogue that operators have: one kernel."""

from pathlib import Path

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families.tile_products import GROUPED, operand_reads
from costmodel.records._operators import OPERATORS
from costmodel.records._workload import DTYPE_BYTES

_PARAMETERS = {
    "float16": {
        "BLOCK_M": (16, 32, 64, 128, 256),
        "BLOCK_N": (32, 64, 128, 256),
        "BLOCK_K": (32, 64, 128),
        "GROUP_M": (1, 8),
        "PROGRAMS": (0, 8, 16, 32, 64, 132, 264),
        "SPLIT_K": (1, 2, 4, 8),
        "num_warps": (2, 4, 8),
        "num_stages": (2, 3, 4),
    },
    "float32": {
        "BLOCK_M": (16, 32, 64, 128),
        "BLOCK_N": (32, 64, 128),
        "BLOCK_K": (16, 32, 64),
        "GROUP_M": (1, 8),
        "PROGRAMS": (0, 8, 16, 32, 64, 132, 264),
        "SPLIT_K": (1, 2, 4, 8),
        "num_warps": (2, 4, 8),
        "num_stages": (2, 3, 4),
    },
}
_DEFAULTS = {
    "float16": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    "float32": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 3},
}
_OWN_CONDITIONS = {
    "float16": (),
    "float32": ("BLOCK_M * BLOCK_N * BLOCK_K <= 65536 * num_warps",),  # 2048 unrolled operations of a thread
}
# What multiplies as a group has operands of every stage in shared memory. Otherwise those in use are in
# registers, which spares a stage.
_STAGED = {"float16": f"(num_stages if {GROUPED} else num_stages - 1)", "float32": "(num_stages - 1)"}
# Results change threads on their way out, all at once or a few of each thread.
_RESULTS = {
    "float16": f"((4 if SPLIT_K > 1 else 2) * BLOCK_M * BLOCK_N if {GROUPED} else 512 * num_warps)",
    "float32": "min(2048 * num_warps, 4 * BLOCK_M * BLOCK_N)",
}


def _family(anchor: str, dtype: str) -> TritonFamily:
    batch, times = ("b", "b * ") if anchor == "batch_matmul" else ("1", "")
    tiles = f"{times}ceil(m / BLOCK_M) * ceil(n / BLOCK_N)"
    partials = f"(4 * SPLIT_K * {times}m * n if SPLIT_K > 1 else 0)"
    width = DTYPE_BYTES[dtype]
    return TritonFamily(
        name=f"{anchor}_{dtype}",
        kernel=Path(__file__).with_name("kernel.py"),
        function="matmul",
        operators=tuple(kind for kind, operator in OPERATORS.items() if operator.anchor == anchor),
        operands={"a": "A", "b": "B", "bias": "bias", "add": "add", "mul": "mul", "c": "output"},
        dims={**({"b": 16} if times else {}), "m": 1024, "n": 1024, "k": 1024},
        dtype=dtype,
        parameters=_PARAMETERS[dtype],
        defaults={**_DEFAULTS[dtype], "GROUP_M": 8, "PROGRAMS": 0, "SPLIT_K": 1},
        conditions=(
            "BLOCK_M < 2 * max(m, 16)",
            "BLOCK_N < 2 * max(n, 32)",
            "BLOCK_K < 2 * max(k, 32)",
            "GROUP_M == 1 or GROUP_M <= 2 * ceil(m / BLOCK_M)",
            "256 * num_warps <= BLOCK_M * BLOCK_N <= 4096 * num_warps",  # 8 to 128 results a thread
            "(BLOCK_M + BLOCK_N) * BLOCK_K <= 4096 * num_warps",  # up to 128 operands a thread
            *_OWN_CONDITIONS[dtype],
            f"{_shared_bytes(dtype)} <= 232448",
            f"PROGRAMS < {tiles}",
            "PROGRAMS == 0 or SPLIT_K == 1",
            f"SPLIT_K == 1 or SPLIT_K <= ceil(k / BLOCK_K) and SPLIT_K * {tiles} <= 1056",  # 8 for each SM
        ),
        grid=(f"PROGRAMS if PROGRAMS > 0 else SPLIT_K * {tiles}",),
        constants={"BATCH": batch, "M": "m", "N": "n", "K": "k"},
        scratch={"partials": partials, "arrivals": f"4 * {tiles} if SPLIT_K > 1 else 0"},
        scratch_types={"partials": "float32", "arrivals": "int32"},
        launch={
            "vthreads": f"ceil({tiles} / PROGRAMS) if PROGRAMS > 0 else 1",
            "shared_bytes": f"{_one_slab(dtype)} if PROGRAMS == 0 and k <= BLOCK_K * SPLIT_K"
            f" else {_shared_bytes(dtype)}",
            "local_bytes": "BLOCK_M * BLOCK_N / (8 * num_warps)",
            "global_load_bytes": f"{width} * {times}k * (m * ceil(n / BLOCK_N) + n * ceil(m / BLOCK_M))"
            f" + {partials}",
            "global_store_bytes": f"{width} * {times}m * n + {partials}",
            "shared_load_bytes": f"2 * {tiles} * ceil(k / BLOCK_K) * BLOCK_K * {operand_reads()}"
            if dtype == "float16"
            else "0",
            "shared_store_bytes": f"{width} * {tiles} * ceil(k / BLOCK_K) * BLOCK_K * (BLOCK_M + BLOCK_N)",
            "tensor_flops": f"2 * {times}m * n * k" if dtype == "float16" else "0",
            "unroll_steps": "ceil(k / (BLOCK_K * SPLIT_K))",
            "vector_bytes": f"16 if n % {16 // width} == 0 and k % {16 // width} == 0 else {width}",
        },
    )


def _shared_bytes(dtype: str) -> str:
    """Formula of the shared memory of a block whose loop over k has several steps.

    Programs that go on to the next tile while they write one hold slabs and results at once. Of
    240 random configs that Triton 3.6 compiled for sm_90, 205 take exactly what is said, the others .6 to
    1.08 of it; less where rows of an odd size keep copies from being asynchronous.
    """
    slabs = f"{DTYPE_BYTES[dtype]} * {_STAGED[dtype]} * (BLOCK_M + BLOCK_N) * BLOCK_K"
    results = _RESULTS[dtype]
    return f"({slabs} + {results} if PROGRAMS > 0 else max({slabs}, {results}))"


def _one_slab(dtype: str) -> str:
    """Formula of the shared memory of a block that does all of k in one step."""
    return f"max({DTYPE_BYTES[dtype]} * (BLOCK_M + BLOCK_N) * BLOCK_K, {_RESULTS[dtype]})"


FAMILIES = [_family(anchor, dtype) for anchor in ("matmul", "batch_matmul") for dtype in _PARAMETERS]
