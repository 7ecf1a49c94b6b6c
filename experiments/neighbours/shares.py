"""Slowdowns by fair shares of the memory's and the cache's bandwidth alone, which nothing waits for.

Of what kernels read and write together as large a part is missed as does not fit into the L2 cache.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from measured import Array, Measured

from costmodel.planner._latencies import L2_BYTES_S


class Shared(NamedTuple):
    """What kernels share.

    Attributes:
        memory_bytes_s: What the device's memory gives a second.
        l2_bytes: What the cache holds.
        l2_bytes_s: What it gives a second.
    """

    memory_bytes_s: float
    l2_bytes: float = 0.0
    l2_bytes_s: float = np.inf


def of_data_sheet(measured: Measured) -> dict[str, Shared]:
    """More and more of a data sheet, and what the fastest kernels alone have got of the cache."""
    device = measured.device
    memory, cache = device.bandwidth_gb_s * 1e9, float(device.l2_bytes)
    return {
        "fair shares of bandwidth": Shared(memory),
        "the same, L2 capacity": Shared(memory, cache),
        "the same, L2 bandwidth": Shared(memory, cache, L2_BYTES_S),
    }


def by_shares(shared: Shared, measured: Measured) -> Array:
    """``(n, 2)`` slowdowns."""
    sizes, alone_s = measured.sizes_bytes, measured.alone_s
    missed_alone, missed = (
        np.maximum(0.0, 1 - shared.l2_bytes / np.maximum(total, 1.0))
        for total in (sizes, sizes.sum(axis=1, keepdims=True))
    )
    overcounted = np.maximum(1.0, sizes * missed_alone / alone_s / shared.memory_bytes_s)
    of_memory = times_as_long(sizes * missed / alone_s / overcounted, shared.memory_bytes_s)
    of_cache = times_as_long(np.minimum(sizes / alone_s, shared.l2_bytes_s), shared.l2_bytes_s)
    return np.maximum(of_memory, of_cache)


def times_as_long(asked: Array, most: float) -> Array:
    """``(n, 2)`` what each of two asks for over its fair share, at least 1."""
    if np.isinf(most):
        return np.ones_like(asked)
    return np.maximum(1.0, asked / np.maximum(most / 2, most - asked[:, ::-1]))


def fitted_shares(known: Measured, asked: Measured) -> Array:
    """By what bandwidths and cache have the least mean error for the known pairs, of a grid."""
    bandwidths = known.device.bandwidth_gb_s * 1e9 * np.arange(0.5, 1.05, 0.1)
    caches = known.device.l2_bytes * np.arange(0.0, 1.1, 0.2)
    shared = [Shared(*each) for each in product(bandwidths, caches, (3e12, 4.5e12, L2_BYTES_S, np.inf))]
    errors = [np.abs(by_shares(each, known) / known.slowdowns - 1).mean() for each in shared]
    return by_shares(shared[int(np.argmin(errors))], asked)
