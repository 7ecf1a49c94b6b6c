"""Landscapes: datasets from a formula, for tests and examples that have no GPU.

The formula has what makes SM budgets matter: big tiles reuse more data but come in few blocks, so they leave
SMs idle on a whole GPU and win on a small partition; a last wave that is nearly empty costs as much as a full
one.
"""

from collections.abc import Sequence

import numpy as np

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.records._candidate import Candidate, Config, Decision, KernelLaunch
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, Platform, part_of
from costmodel.records._workload import Workload

LANDSCAPE_SMS = (8, 16, 24, 32, 48, 64, 96, 132)
"""SM budgets of the landscapes, the whole device last."""
LANDSCAPE_WORKLOADS = (
    "matmul-m128-n768-k768",
    "matmul-m512-n512-k512",
    "matmul-m64-n2304-k768",
    "matmul-m1024-n1024-k256",
    "batch_matmul-b12-m128-n128-k64",
    "matmul-m256-n768-k3072",
    "matmul-m16-n4096-k1024",
    "batch_matmul-b16-m256-n64-k256",
    "matmul-m2048-n1024-k512",
    "matmul-m384-n1536-k384",
    "matmul-m64-n64-k4096",
    "batch_matmul-b8-m512-n512-k64",
)
"""Names of the workloads of the landscapes."""
LANDSCAPE_DEVICE = Device(
    name="landscape GPU",
    kind="cuda",
    architecture="sm_90",
    sms=132,
    clock_mhz=1980.0,
    bandwidth_gb_s=3352.0,
    l2_bytes=50 * 2**20,
    shared_bytes_per_sm=228 * 2**10,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    fp32_lanes_per_sm=128,
)
"""The device of the landscapes. It does not exist."""

_FAILING_SHARE = 0.02
_NOISE = 0.03
_TRIES = 400


def gpu_landscape(
    seed: int = 0,
    workloads: Sequence[str] = LANDSCAPE_WORKLOADS,
    configs_per_workload: int = 48,
    sms: Sequence[int] = LANDSCAPE_SMS,
) -> Dataset:
    """Make a dataset of tiled matrix products on partitions of one GPU, with latencies from a formula.

    The same arguments give the same dataset. About one config in fifty fails everywhere with
    ``launch_error``.

    Args:
        seed: Seed of configs and noise.
        workloads: Names of ``matmul`` and ``batch_matmul`` workloads whose dimensions have small prime
            factors.
        configs_per_workload: Number of distinct configs of each workload.
        sms: SM budgets; 132 is the whole device, smaller budgets are green contexts.
    """
    rng = np.random.default_rng(seed)
    candidates = tuple(
        candidate
        for name in workloads
        for candidate in _sample_candidates(Workload.parse(name), configs_per_workload, rng)
    )
    platforms = tuple(landscape_platform(count) for count in sms)
    fails = rng.random(len(candidates)) < _FAILING_SHARE
    quirk = rng.normal(0.0, _NOISE, len(candidates))
    noise = rng.normal(0.0, _NOISE / 3, (len(candidates), len(platforms)))
    return dataset_from_measurements(
        _measured(
            c, p, np.inf if fails[i] else landscape_latency(c, p) * float(np.exp(quirk[i] + noise[i, j]))
        )
        for i, c in enumerate(candidates)
        for j, p in enumerate(platforms)
    )


def landscape_platform(sms: int) -> Platform:
    """Return the landscape's device with this number of granted SMs."""
    return part_of(LANDSCAPE_DEVICE, sms)


def landscape_latency(candidate: Candidate, platform: Platform) -> float:
    """Return the noise-free latency, in seconds, of a candidate with one launch.

    The fullest SM sets the pace: ``ceil(blocks / SMs)`` blocks run on it, slowed down where too few warps and
    too small register tiles hide latency, and where registers spill. Memory traffic shares the bandwidth that
    the busy SMs can draw, up to the device's. Compute and memory overlap in part; a launch costs 2.5 us.
    """
    device, sms, (launch,) = platform.device, platform.sms_granted, candidate.launches
    per_sm = -(-launch.blocks // sms)
    resident = min(per_sm, _blocks_per_sm(launch, device))
    clock_hz = device.clock_mhz * 1e6
    outputs = max(1.0, launch.local_bytes / 4)
    hiding = min(1.0, (resident * launch.threads_per_block / 768) ** 0.6 * min(2.0, outputs**0.25))
    reuse = outputs**0.5 / (outputs**0.5 + 1.5)
    spill = 1.0 + max(0.0, outputs / 96 - 1.0)
    block_flops = launch.flops / launch.blocks
    compute_s = per_sm * block_flops * spill / (2 * device.fp32_lanes_per_sm * clock_hz * hiding * reuse)
    busy = min(sms, launch.blocks)
    traffic = launch.global_load_bytes + launch.global_store_bytes
    coalescing = 0.5 + 0.5 * min(1.0, launch.vector_bytes / 16)
    cache_s = traffic / (busy * 48 * clock_hz * coalescing)
    dram_s = candidate.workload.min_bytes / min(device.bandwidth_gb_s * 1e9, busy * 70e9)
    slow, fast = max(compute_s, cache_s, dram_s), min(compute_s, cache_s + dram_s)
    return float(2.5e-6 + slow + 0.2 * fast)


def _blocks_per_sm(launch: KernelLaunch, device: Device) -> int:
    registers = launch.threads_per_block * min(255, 24 + launch.local_bytes // 4)
    by_shared = device.shared_bytes_per_sm // (launch.shared_bytes + 1024)
    by_threads = device.max_threads_per_sm // launch.threads_per_block
    return max(1, min(device.max_blocks_per_sm, by_threads, by_shared, device.registers_per_sm // registers))


def _measured(candidate: Candidate, platform: Platform, latency_s: float) -> Measurement:
    ok = bool(np.isfinite(latency_s))
    return Measurement(
        candidate=candidate,
        platform=platform,
        outcome=Outcome.OK if ok else Outcome.LAUNCH_ERROR,
        latencies_s=(latency_s,) if ok else (),
        runs_per_repeat=1 if ok else 0,
        measured_at="2026-01-01T00:00:00+00:00",
        error="" if ok else "too many resources requested for launch",
    )


def _sample_candidates(workload: Workload, count: int, rng: np.random.Generator) -> list[Candidate]:
    """Distinct candidates that a GPU could launch, by rejection."""
    found: dict[str, Candidate] = {}
    for _ in range(_TRIES * count):
        decisions = _sample_decisions(workload, rng)
        launch = _launch(workload, decisions)
        if launch is not None:
            candidate = Candidate(workload, "landscape-1", Config(decisions), (launch,))
            found.setdefault(candidate.candidate_id, candidate)
        if len(found) == count:
            return list(found.values())
    raise ValueError(
        f"a landscape must hold {count} configs of {workload.name}, but only {len(found)} were found"
    )


def _sample_decisions(workload: Workload, rng: np.random.Generator) -> dict[str, Decision]:
    dims = workload.dims
    return {
        "sketch": 0,
        "tile.C.i": _split(dims["m"], 5, rng),
        "tile.C.j": _split(dims["n"], 5, rng),
        "tile.C.k": _split(dims["k"], 3, rng),
        "cooperative_fetch.A_shared": int(rng.integers(1, 5)),
        "cooperative_fetch.B_shared": int(rng.integers(1, 5)),
        "unroll_explicit": int(rng.choice([0, 16, 64, 512])),
    }


def _split(size: int, parts: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Spread the prime factors of ``size`` over ``parts`` at random."""
    factors = [1] * parts
    prime = 2
    while size > 1:
        if size % prime:
            prime += 1
            continue
        size //= prime
        factors[int(rng.integers(parts))] *= prime
    return tuple(factors)


def _launch(workload: Workload, decisions: dict[str, Decision]) -> KernelLaunch | None:
    """Launch facts of a product with operands staged through shared memory; None if it cannot run."""
    rows, cols, depth = (np.array(decisions[f"tile.C.{axis}"]) for axis in "ijk")
    grid, vthread, thread = (int(rows[level] * cols[level]) for level in range(3))
    tile_m, tile_n, chunk = int(rows[1:].prod()), int(cols[1:].prod()), int(depth[1:].prod())
    outputs = tile_m * tile_n // thread
    shared_bytes = 4 * chunk * (tile_m + tile_n)
    if not 32 <= thread <= 1024 or vthread > 64 or outputs > 256 or shared_bytes > 48 * 1024:
        return None
    batch = workload.dims.get("b", 1)
    blocks, k = grid * batch, workload.dims["k"]
    lanes = decisions["cooperative_fetch.A_shared"]
    unroll = decisions["unroll_explicit"]
    assert isinstance(lanes, int)
    assert isinstance(unroll, int)
    loads = 4 * blocks * k * (tile_m + tile_n)
    fragment = int(vthread * (rows[3:].prod() + cols[3:].prod()))
    return KernelLaunch(
        blocks=blocks,
        threads_per_block=thread,
        vthreads=vthread,
        shared_bytes=shared_bytes,
        local_bytes=4 * outputs,
        global_load_bytes=loads,
        global_store_bytes=4 * blocks * tile_m * tile_n,
        shared_load_bytes=4 * blocks * thread * k * fragment,
        shared_store_bytes=loads,
        flops=workload.flops,
        vector_bytes=4 * lanes,
        unroll_steps=unroll,
    )
