"""How often ``serve-tables check`` doubts rows that frameworks ship, and rows that are drawn at random."""

import numpy as np

from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.serving._check import FAR, least_apart, like_rows
from costmodel.serving._choose import room_of
from costmodel.serving._forms import published_tables
from costmodel.serving._kernel import Kernel, Row, needed_shared_bytes

_TABLES, _OF_EACH, _LIKE = 300, 4, 3
# Parameters that tuners of both frameworks sweep.
_SWEPT = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}


def main() -> None:
    """Compare each row with those of tables for like kernels and GPUs, its own left out."""
    rng = np.random.default_rng(0)
    tables = published_tables()
    shipped, drawn = [], []
    for i in rng.permutation(len(tables))[:_TABLES]:
        table = tables[i]
        gpu = _gpu(table.device)
        others = like_rows(table.kernel, gpu, table.rows) if gpu else []
        if gpu is None or len(others) < _LIKE:
            continue
        for tokens in rng.choice(list(table.rows), min(_OF_EACH, len(table.rows)), replace=False).tolist():
            shipped.append(least_apart(table.rows[tokens], tokens, others) >= FAR)
            drawn.append(least_apart(_draw(rng, table.kernel, room_of(gpu)), tokens, others) >= FAR)
    print(
        f"{len(shipped)} rows: {np.mean(shipped):.1%} of those shipped, {np.mean(drawn):.1%} of random ones"
    )


def _gpu(name: str) -> Device | None:
    try:
        gpu = find_device(name)
    except CostModelError:
        return None
    return gpu if gpu.kind == "cuda" else None


def _draw(rng: np.random.Generator, kernel: Kernel, room: int) -> Row:
    """Draw a row that the GPU has room for."""
    while True:
        row = {name: int(rng.choice(values)) for name, values in _SWEPT.items()}
        if needed_shared_bytes(kernel, row) <= room:
            return row


if __name__ == "__main__":
    main()
