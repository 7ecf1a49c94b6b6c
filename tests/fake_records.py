"""Fake measurements, the same in every run: three workloads, four budgets, two visits, some failures."""

import math
from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from costmodel.records import Candidate, Config, Device, Measurement, Outcome, Platform, Workload
from costmodel.records._candidate import KernelLaunch
from costmodel.records._measurement import DeviceState, KernelResources

WORKLOADS = ("matmul-m128-n768-k3072", "softmax-m512-n512", "conv2d-n1-c64-h56-w56-o64-k3-s1")
BLOCKS = dict(zip(WORKLOADS, (256, 96, 1024), strict=True))
BUDGETS = (8, 32, 64, 132)
STATE = DeviceState(clock_mhz=1980.0, memory_clock_mhz=2619.0, temperature_c=41.0, power_w=300.0)
DEVICE = Device(name="Test GPU", kind="cuda", architecture="sm_90", sms=132, clock_mhz=1980.0)


def fake_candidate(workload: str = WORKLOADS[0], tile: int = 1) -> Candidate:
    """A kernel with decisions of each type, all of which follow from ``tile``."""
    config = Config({"tile": tile, "factors": (tile, 4), "order": "row", "share": 0.5})
    launches = (KernelLaunch(blocks=BLOCKS.get(workload, 256) // tile, threads_per_block=128, flops=1000),)
    return Candidate(Workload.parse(workload), "fake-1", config, launches)


def fake_platform(sms: int = 8) -> Platform:
    """``sms`` SMs of the fake device."""
    software = {"driver": "580.1", "tvm": "0.27"}
    return Platform(DEVICE, "whole" if sms == DEVICE.sms else "green_context", sms, sms, software)


def fake_measurement(
    workload: str = WORKLOADS[0], tile: int = 1, sms: int = 8, visit: int = 0, outcome: Outcome = Outcome.OK
) -> Measurement:
    """A measurement of a formula: waves x tile**0.9; visit 1 is 1 % slower."""
    candidate, platform = fake_candidate(workload, tile), fake_platform(sms)
    waves = math.ceil(BLOCKS.get(workload, 256) / tile / sms)
    base = 1e-6 * waves * tile**0.9 * (1 + 0.01 * visit)
    ok = outcome is Outcome.OK
    return Measurement(
        candidate=candidate,
        platform=platform,
        outcome=outcome,
        latencies_s=tuple(base * (1 + 0.001 * i) for i in range(3)) if ok else (),
        runs_per_repeat=10 if ok else 0,
        visit=visit,
        kernel_hash=f"{workload}/{tile}" if ok else "",
        resources=(KernelResources(registers_per_thread=32 + tile, stack_bytes=0),) if ok else (),
        before=STATE,
        after=replace(STATE, clock_mhz=1965.0, throttle_reasons=("sw_power_cap",)) if tile == 16 else STATE,
        board="0123abcd",
        measured_at=f"2026-11-21T10:{sms % 60:02d}:{tile:02d}+00:00",
        error="" if ok else "CUDA error",
    )


def fake_measurements() -> Iterator[Measurement]:
    """All of them; tile 16 fails on 8 SMs, and visit 1 sees tiles 1 and 4 only."""
    for workload, tile, sms in product(WORKLOADS, (1, 2, 4, 8, 16), BUDGETS):
        outcome = Outcome.LAUNCH_ERROR if (tile, sms) == (16, 8) else Outcome.OK
        yield fake_measurement(workload, tile, sms, outcome=outcome)
        if tile in (1, 4):
            yield fake_measurement(workload, tile, sms, visit=1)
