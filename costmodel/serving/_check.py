"""Rows of tables to time again: those that cannot run, and those that are unlike what others chose."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from costmodel.arguments import check_path
from costmodel.errors import CostModelError
from costmodel.reading import is_file, is_folder
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.serving._choose import near_tables, room_of
from costmodel.serving._forms import TableFile, is_table, read_table_file
from costmodel.serving._kernel import Kernel, Row, meets_scales, needed_shared_bytes

# Doublings of a tile's sides, with half of those of warps and stages. Of rows that frameworks ship, 0.6 % are
# so far from all of a dozen like tables, of random ones that run 50 % (experiments/serving/doubts.py).
FAR, _OTHERS, _ENOUGH = 3.0, 12, 3
_POWERS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps")
_WEIGHTS = {"BLOCK_SIZE_M": 1, "BLOCK_SIZE_N": 1, "BLOCK_SIZE_K": 1, "num_warps": 0.5, "num_stages": 0.5}


class Doubt(NamedTuple):
    """A row to time again.

    Attributes:
        table: Name of its file.
        tokens: Number of tokens.
        config: The row.
        reason: What is odd, in words.
    """

    table: str
    tokens: int
    config: Row
    reason: str


class Checked(NamedTuple):
    """What was found in a folder.

    Attributes:
        tables: Number of tables.
        rows: Number of rows.
        unjudged: Rows of GPUs that are unknown, and those that too few tables are like to call odd.
        doubts: Rows to time again.
    """

    tables: int
    rows: int
    unjudged: int
    doubts: tuple[Doubt, ...]


def check_tables(folder: Path | str, device: str | None = None) -> Checked:
    """Find rows of tables that should be timed again.

    Args:
        folder: Holds tables of vLLM or SGLang, in any depth; other files are passed over. Or one table.
        device: Name of the GPU that they are for. Default: as each name says.

    Raises:
        CostModelError: There are no tables, one cannot be read, or ``device`` is unknown.
    """
    place = check_path("folder", folder)
    if is_file(place):
        paths = [place]
    elif is_folder(place):
        paths = sorted(path for path in place.rglob("*.json") if is_table(path.name))
    else:
        raise CostModelError(f"{folder} must be a folder of tables, or a table, but there is none.")
    if not paths:
        raise CostModelError(
            f"{folder} must hold tables of vLLM or SGLang, such as E=8,N=14336,device_name=NVIDIA_L40S.json, "
            "but holds none."
        )
    rows = unjudged = 0
    doubts: list[Doubt] = []
    for path in paths:
        table = read_table_file(path)
        gpu = find_device(device) if device else _gpu_of(table)
        others = like_rows(table.kernel, gpu, table.rows) if gpu else []
        rows += len(table.rows)
        unjudged += len(table.rows) * (len(others) < _ENOUGH)
        doubts += _doubts(path.name, table, others, room_of(gpu)) if gpu else ()
    return Checked(len(paths), rows, unjudged, tuple(doubts))


def _gpu_of(table: TableFile) -> Device | None:
    """The GPU of NVIDIA's that a table is named for; None where it is unknown or another vendor's."""
    with suppress(CostModelError):
        return device if (device := find_device(table.device)).kind == "cuda" else None
    return None


def like_rows(kernel: Kernel, device: Device, but: Mapping[int, Row]) -> list[dict[int, Row]]:
    """Return the rows of tables for like kernels and GPUs, the nearest first, those of one table left out."""
    near = near_tables(kernel, device, "vllm")
    return [each.table.rows for each in near if each.table.rows != but][:_OTHERS]


def _doubts(name: str, table: TableFile, others: Sequence[dict[int, Row]], room: int) -> Iterator[Doubt]:
    for tokens, row in sorted(table.rows.items()):
        needed = needed_shared_bytes(table.kernel, row)
        if odd := [f"{each} {row[each]}" for each in _POWERS if row[each].bit_count() > 1]:
            yield Doubt(name, tokens, row, f"Triton takes powers of two, but here is {', '.join(odd)}")
        elif needed > room:
            yield Doubt(name, tokens, row, f"needs {needed:,} bytes of shared memory, but there are {room:,}")
        elif not meets_scales(table.kernel, row):
            yield Doubt(name, tokens, row, "BLOCK_SIZE_K neither divides the block of a scale nor is divided")
        elif len(others) >= _ENOUGH and (far := least_apart(row, tokens, others)) >= FAR:
            yield Doubt(name, tokens, row, f"{far:.1f} doublings from what {len(others)} like tables have")


def least_apart(row: Row, tokens: int, others: Sequence[dict[int, Row]]) -> float:
    """Return how far a row is from the nearest of those that other tables have for as many tokens."""
    theirs = [rows[min(rows, key=lambda known: abs(known - tokens))] for rows in others]
    return min(
        sum(weight * abs(float(np.log2(row[name] / other[name]))) for name, weight in _WEIGHTS.items())
        for other in theirs
    )
