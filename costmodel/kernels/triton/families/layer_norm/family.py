"""Layer normalisation over rows, with gain and bias."""

from pathlib import Path

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton.families import row_blocks


def _layer_norm(dtype: str, element_bytes: int) -> TritonFamily:
    blocks, vector = (
        row_blocks.in_flight(element_bytes, 2 * element_bytes),
        row_blocks.vector_bytes(element_bytes),
    )
    return TritonFamily(
        name=f"layer_norm_{dtype}",
        kernel=Path(__file__).with_name("kernel.py"),
        function="layer_norm",
        operators=("layer_norm",),
        operands={"x": "x", "gain": "gain", "bias": "bias", "y": "output"},
        dims={"m": 4096, "n": 4096},
        dtype=dtype,
        parameters=row_blocks.PARAMETERS,
        defaults=row_blocks.DEFAULTS,
        conditions=(*row_blocks.BLOCK_CONDITIONS, *row_blocks.LOOP_CONDITIONS, row_blocks.fits(blocks)),
        grid=row_blocks.GRID,
        scalars={"m": "m"},
        constants={"N": "n"},
        launch={
            "vthreads": row_blocks.TILES_OF_A_PROGRAM,
            "shared_bytes": row_blocks.shared_bytes(blocks, vector),
            "local_bytes": "4 * ROWS * BLOCK_N / threads",
            "global_load_bytes": f"{element_bytes} * n * (m * {row_blocks.PASSES} + 2 * ceil(m / ROWS))",
            "global_store_bytes": f"{element_bytes} * m * n",
            "unroll_steps": row_blocks.STEPS,
            "vector_bytes": vector,
        },
    )


FAMILIES = [_layer_norm("float16", 2), _layer_norm("float32", 4)]
