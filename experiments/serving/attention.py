"""What the time of decode attention is made of, config by config: parts of contexts, one a program.

A program walks over its part of a sequence block by block: a block takes as long as the slowest of its bytes,
its products, and the latency of memory over the blocks in flight. Programs of long contexts run longer than
others, so that all together take at least the longest, and their sum over the places on the granted SMs. No
memory is faster than its bandwidth, and the parts of split contexts are added up. Rates are a device's.
"""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

ATTENTION = ("triton.paged_attention", "triton.latent_attention")
PARAMETERS = ("BLOCK_H", "BLOCK_N", "SPLITS", "num_warps", "num_stages")
_LATENCY_S, _START_S, _LAUNCH_S, _MERGE_S = 0.7e-6, 1.5e-6, 2.5e-6, 1.5e-6
_REACHED_BYTES, _REACHED_FLOPS = 0.9, 0.4  # of a datasheet
_DRAWN_BY_SM = 2.0  # times its share of bandwidth that an SM can draw
_REGISTERS, _OWN_REGISTERS, _MOST_THREADS = 65536, 64, 2048


def attention_columns(workload: Workload, rows: NDArray[np.int64], sms: int, device: Device) -> FloatArray:
    """Return ``(n, c)`` of configs, of which the first is the log2 of the seconds that follow.

    Args:
        workload: The attention.
        rows: ``(n, 5)`` parameters, as ``PARAMETERS`` has them; 0 where there is none.
        sms: SMs that are granted.
        device: The GPU.
    """
    dims = workload.dims
    of_group, n, splits, warps, stages = rows.T.astype(np.float64)
    lengths = np.maximum(np.rint(dims["c"] * np.arange(1, dims["b"] + 1) ** (-dims["s"] / 100)), 1)
    latent = workload.kind == ATTENTION[1]
    shared = of_group if latent else np.full_like(n, max(dims["q"], 16))
    groups = np.ceil(dims["h"] / shared) if latent else np.full_like(n, dims["h"])
    width = 2 * (dims["r"] + dims["o"]) if latent else 4 * dims["d"]  # bytes of a token
    result = dims["r"] if latent else dims["d"]
    share = min(1.0, _DRAWN_BY_SM * sms / device.sms)
    bandwidth = device.bandwidth_gb_s * 1e9 * _REACHED_BYTES
    flops = device.tensor_flops_per_sm_clock * device.clock_mhz * 1e6 * _REACHED_FLOPS
    threads = 32 * warps
    held = _REGISTERS // (shared * (result + n) + _OWN_REGISTERS * threads)
    per_sm = np.minimum(
        device.shared_bytes_per_sm // (width * n * stages), np.minimum(held, _MOST_THREADS // threads)
    )
    per_sm = np.clip(per_sm, 1, 16)
    programs = dims["b"] * groups * splits
    busy = np.minimum(per_sm, np.ceil(programs / sms))
    bytes_s = width * n * busy / (bandwidth * _DRAWN_BY_SM / device.sms)
    products_s = 4 * shared * n * width / 4 * busy / flops
    waiting_s = _LATENCY_S / np.maximum(stages - 1, 0.5)
    block_s = np.maximum(np.maximum(bytes_s, products_s), waiting_s)
    blocks = np.ceil(np.ceil(lengths[None, :] / splits[:, None]) / n[:, None])
    longest = blocks.max(axis=1) * block_s + _START_S
    work = (blocks.sum(axis=1) * block_s + dims["b"] * _START_S) * groups * splits / (per_sm * sms)
    moved = lengths.sum() * width * (groups if latent else dims["h"])
    left = np.where(
        splits > 1, 8.0 * dims["b"] * dims["h"] * (1 if latent else dims["q"]) * splits * result, 0
    )
    memory = (moved + left) / (bandwidth * share)
    merging = np.where(splits > 1, _MERGE_S + splits * 0.02e-6, 0)
    total = _LAUNCH_S + merging + np.maximum(np.maximum(work, longest), memory)
    logs = [total, longest, work, memory, programs / (per_sm * sms), blocks.max(axis=1), n, splits, per_sm]
    logs += [warps, stages, shared, n * stages * width, shared * result / threads, moved]
    found = [np.log2(each) for each in np.broadcast_arrays(*logs)]
    shares = [bytes_s / block_s, products_s / block_s, waiting_s / block_s, merging / total, longest / total]
    of_all = (np.log2(sms), np.log2(dims["b"]), np.log2(dims["c"]), dims["s"], float(latent), np.log2(groups))
    return np.stack([*found, *shares, *(np.broadcast_to(each, n.shape) for each in of_all)], axis=1)
