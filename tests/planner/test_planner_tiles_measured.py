"""Waves and savings against what cuSync measured on a V100 with kernels of 256 x 256 tiles, one on an SM."""

from math import ceil

import numpy as np
import pytest
from public_data import CUSYNC

from costmodel.planner import Overheads, StridedSync, TiledKernel, predict_saving
from costmodel.planner._tile_schedule import RowSync

pytestmark = pytest.mark.white_box

SMS = 80
# Learned from the layer of GPT-3 on the same GPU (experiments/tile_synchronization).
OVERHEADS = Overheads(gap_s=4e-6, block_s=12e-6, wait_s=0.8e-6)

needs_cusync = pytest.mark.skipif(
    not CUSYNC.is_dir(), reason="COSTMODEL_PUBLIC_DATA does not say where public data are"
)


def measured() -> dict[int, dict[str, list[float]]]:
    """Microseconds of LLaMA's layer by tokens and policy, where neither kernel is split."""
    found: dict[int, dict[str, list[float]]] = {}
    for line in (CUSYNC / "mlp-llama-v100.csv").read_text().splitlines():
        tokens, _, _, name, *values = [part.strip() for part in line.split("&")]
        if int(tokens) >= 1024:
            found.setdefault(int(tokens), {})[name] = [float(value) for value in values]
    return found


def kernels(tokens: int, first_us: float, second_us: float) -> tuple[TiledKernel, TiledKernel]:
    rows = ceil(tokens / 256)
    second_s = second_us * 1e-6 - OVERHEADS.gap_s
    return (
        TiledKernel.from_duration((rows, 22, 1), 1, SMS, first_us * 1e-6),
        TiledKernel.from_duration((rows, 32, 1), 1, SMS, second_s),
    )


@needs_cusync
def test_times_are_in_steps_of_waves() -> None:
    tiles_us = np.array(
        [
            [kernel.tile_s * 1e6 for kernel in kernels(m, *rows["baseline"][2:4])]
            for m, rows in measured().items()
        ]
    )
    off = np.abs(tiles_us / np.median(tiles_us, axis=0) - 1)
    assert len(tiles_us) == 9
    assert np.median(off) < 0.01
    assert (off < 0.04).mean() > 0.8


@needs_cusync
def test_savings_are_those_measured() -> None:
    off = []
    for tokens, rows in measured().items():
        producer, consumer = kernels(tokens, *rows["baseline"][2:4])
        for name, policy in (("rowsync", RowSync()), ("tilesync", StridedSync(2))):
            found = predict_saving(producer, consumer, SMS, policy, OVERHEADS)
            off.append(100 * found.saving - rows[name][-1])
    assert np.median(np.abs(off)) < 2.5
    assert np.max(np.abs(off)) < 5
