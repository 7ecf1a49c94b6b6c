"""What the time of a tiled product of experts is made of, config by config.

A program computes a tile slab by slab: a slab takes as long as the slowest of its products, its bytes out of
L2, and the latency of memory over the slabs in flight. Programs come in waves over the granted SMs, and all
together are no faster than device memory. Each expert's tokens make tiles of their own, so that their number
depends on the routing. Rates are a device's, from its datasheet; a learner corrects what follows from them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.kernels.triton.families import routing
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

_SEED = 20260  # of the routing, as families draw it
_REACHED_FLOPS, _REACHED_BYTES = 0.7, 0.9  # of a datasheet
_L2_BYTES_A_CLOCK = 64  # to an SM
_LATENCY_S, _START_S, _LAUNCH_S = 0.7e-6, 1.5e-6, 2.5e-6
_NARROW = 0.6  # of the rate, below 64 rows
_REGISTERS, _OWN_REGISTERS = 65536, 64  # of an SM; of a thread beside its sums
_MOST_THREADS = 2048
_RESIDENT, _STAYED = 0.7, 0.2  # what fits into so much of L2 comes from memory to so small a part
_DRAWN_BY_SM = 2.0  # times its share of bandwidth that an SM can draw

COLUMNS = (
    *("total", "waves", "per_sm", "tiles", "slabs", "programs_per_sm", "padding", "sums_per_thread"),
    *("operands_per_thread", "rows", "columns", "depth", "group", "staged"),
    *("compute", "l2", "waiting", "memory", "idle", "warps", "stages", "ragged"),
    *("log_tokens", "log_experts", "log_columns", "log_depth", "log_sms", "of_token", "of_weight"),
)


class TiledProduct(NamedTuple):
    """A product whose rows belong to experts.

    Attributes:
        counts: ``(e,)`` rows of each expert.
        columns: Results of a row.
        depth: Elements of a row.
        of_token: Bytes of one of these.
        of_weight: Bytes of a weight.
    """

    counts: NDArray[np.int64]
    columns: int
    depth: int
    of_token: float
    of_weight: float


_BYTES = {"fused_moe_float8": (1.0, 1.0), "fused_moe_int8": (2.0, 1.0), "fused_moe_int4": (2.0, 0.5)}


def product_of(workload: Workload) -> TiledProduct | None:
    """Return the product that a workload of a family is; None where it is another kernel."""
    name, dims = workload.kind.removeprefix("triton."), workload.dims
    if name == "block_scaled_float8":
        return TiledProduct(np.array([dims["m"]]), dims["n"], dims["k"], 1.0, 1.0)
    if name.startswith("fused_moe"):
        first = routing.draw(dims, np.random.default_rng(_SEED))["first"]
        return TiledProduct(
            np.diff(first).astype(np.int64), dims["n"], dims["d"], *_BYTES.get(name, (2.0, 2.0))
        )
    return None


def row_columns(product: TiledProduct, rows: NDArray[np.int64], sms: int, device: Device) -> FloatArray:
    """Return ``(n, len(COLUMNS))`` of configs of a product.

    Args:
        product: The product.
        rows: ``(n, 6)`` parameters, as ``PARAMETERS`` has them.
        sms: SMs that are granted.
        device: The GPU.
    """
    m, n, k, group, warps, stages = rows.T.astype(np.float64)
    total_rows, active = float(product.counts.sum()), int((product.counts > 0).sum())
    heights, place = np.unique(m, return_inverse=True)
    tiles_m = np.array([np.ceil(product.counts / height).sum() for height in heights])[place]
    tiles, slabs = tiles_m * np.ceil(product.columns / n), np.ceil(product.depth / k)
    slab_bytes = (m * product.of_token + n * product.of_weight) * k
    threads = 32 * warps
    staged = np.maximum(stages * slab_bytes, 1.0)
    room = np.minimum(device.shared_bytes_per_sm // staged, _REGISTERS // (m * n + _OWN_REGISTERS * threads))
    room = np.clip(np.minimum(room, _MOST_THREADS // threads), 1, 16)
    per_sm = np.minimum(room, np.ceil(tiles / sms))
    waves = np.ceil(tiles / (per_sm * sms))
    clock = device.clock_mhz * 1e6
    flops = (
        device.tensor_flops_per_sm_clock * clock * _REACHED_FLOPS * (2.0 if product.of_token == 1 else 1.0)
    )
    compute = 2 * m * n * k / (flops * np.where(m < 64, _NARROW, 1.0))
    from_l2 = slab_bytes / (_L2_BYTES_A_CLOCK * clock)
    waiting = _LATENCY_S / np.maximum(stages - 1, 1)
    slab_s = np.maximum(np.maximum(compute, from_l2) * per_sm, waiting)
    moved = active * product.columns * product.depth * product.of_weight
    moved += total_rows * (product.depth * product.of_token + 2 * product.columns)
    moved *= _STAYED if moved < _RESIDENT * device.l2_bytes else 1.0
    share = min(1.0, _DRAWN_BY_SM * sms / device.sms)
    memory = np.full_like(m, moved / (device.bandwidth_gb_s * 1e9 * _REACHED_BYTES * share))
    total = _LAUNCH_S + np.maximum(waves * (slabs * slab_s + _START_S), memory)
    walked = waves * slabs
    logs = [total, waves, per_sm, tiles, slabs, tiles / sms, tiles_m * m / total_rows, m * n / threads]
    logs += [(m + n) * k / threads, m, n, k, group, staged]
    shares = [walked * compute * per_sm, walked * from_l2 * per_sm, walked * waiting, memory]
    of_all = (total_rows, active, product.columns, product.depth, sms)
    found = [np.log2(each) for each in logs]
    found += [each / total for each in shares]
    found += [1 - tiles / (waves * per_sm * sms), warps, stages, (product.depth % k > 0).astype(float)]
    found += [np.full_like(m, np.log2(max(each, 1))) for each in of_all]
    found += [np.full_like(m, product.of_token), np.full_like(m, product.of_weight)]
    return np.stack(found, axis=1).astype(np.float32).astype(np.float64)
