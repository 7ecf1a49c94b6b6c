"""What kernels take beside others on other SMs, on a device whose cache and memory are easy to count with."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.planner import SharedMemory, read_graph
from costmodel.planner.whatif._sharing import RunningKernel, Waits, fair_shares
from costmodel.records import Workload, find_device

pytestmark = pytest.mark.white_box

MB, US = 10**6, 1e-6
# 1 MB in a microsecond from memory; half of the cache, 20 MB, counts.
DEVICE = replace(find_device("NVIDIA H100 80GB HBM3"), bandwidth_gb_s=1000.0, l2_bytes=40 * MB)
shared, patient = SharedMemory(DEVICE), SharedMemory(DEVICE, Waits(0.0, 0.0, 0.0))


def of(*kernels: tuple[float, float], by: SharedMemory = patient) -> list[float]:
    """Factors of kernels, given by microseconds and MB; where nothing waits, unless said otherwise."""
    return by.slowdowns([us * US for us, _ in kernels], [round(mb * MB) for _, mb in kernels])


def test_kernels_that_stream_share_the_bandwidth() -> None:
    assert of((40, 80), (40, 80)) == pytest.approx([2, 2])  # each takes all of it
    assert of((100, 80), (100, 80)) == pytest.approx([(80 * 160 / 180 / 100) / 0.5] * 2)


def test_who_asks_for_little_keeps_its_pace_and_the_other_gets_the_rest() -> None:
    heavy, light = of((40, 80), (4000, 80))
    assert light == 1
    assert heavy == pytest.approx(1 / (1 - 80 * 80 / 100 / 4000))


def test_a_kernel_misses_more_the_more_passes_through_the_cache_before_it_uses_a_byte_again() -> None:
    """Alone it asks for half a MB a microsecond; beside another of 20 MB for 40 / 60 of one."""
    assert of((20, 20)) == [1]
    assert of((20, 20), (20, 20)) == pytest.approx([4 / 3, 4 / 3])  # and gets half of one
    assert of((20, 20), (2000, 20)) == [1, 1]  # of which a hundredth passes in its time


def test_waits_grow_with_the_load_of_others() -> None:
    """80 MB in 800 us take 8 % of the bandwidth, and one who moves nothing waits for them alone."""
    one = SharedMemory(DEVICE, Waits(0.5, 0.0, 0.0))
    assert of((100, 0), (800, 80), by=one) == pytest.approx([1 + 0.08 * 0.5, 1])
    assert of((100, 0), (800, 80), (800, 80), by=one)[0] == pytest.approx(1 + 0.16 * 0.5)


def test_short_kernels_and_those_that_stream_wait_longer() -> None:
    short = SharedMemory(DEVICE, Waits(0.0, 1.0, 0.0))
    assert of((5, 0), (800, 80), by=short)[0] == pytest.approx(1 + 0.08 / 2)
    assert of((15, 0), (800, 80), by=short)[0] == pytest.approx(1 + 0.08 / 4)
    streaming = SharedMemory(DEVICE, Waits(0.0, 0.0, 1.0))
    asked = 20 * 22 / 42 / 40  # 2 of 80 MB pass in its time
    assert of((40, 20), (1600, 80), by=streaming)[0] == pytest.approx(1 + 0.04 * asked)


def test_what_is_not_known_moves_nothing() -> None:
    assert of((10, 0), (40, 80)) == [1, 1]
    assert of() == []


def test_a_device_without_a_known_cache_has_none() -> None:
    none = SharedMemory(replace(DEVICE, l2_bytes=0), Waits(0.0, 0.0, 0.0))
    assert of((20, 1), (20, 10), by=none) == [1, 1]
    assert of((10, 10), (10, 10), by=none) == pytest.approx([2, 2])


def test_a_device_must_have_a_bandwidth() -> None:
    with pytest.raises(CostModelError, match=r"must have a known memory bandwidth, but made up has 0 GB/s"):
        SharedMemory(replace(DEVICE, name="made up", bandwidth_gb_s=0.0))


@given(st.lists(st.floats(0, 1e3), max_size=8), st.floats(0, 1e3))
def test_shares_are_fair(asked: list[float], most: float) -> None:
    shares = fair_shares(asked, most)
    assert all(share <= wanted for share, wanted in zip(shares, asked, strict=True))
    assert sum(shares) == pytest.approx(min(most, sum(asked)))
    largest = max(shares, default=0.0)
    short = [share for share, wanted in zip(shares, asked, strict=True) if share < wanted]
    assert short == pytest.approx(
        [largest] * len(short)
    )  # who gets less than it asks for gets as much as any


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(0, 1e3)), min_size=1, max_size=6))
def test_nobody_is_faster_beside_others_and_alone_all_take_what_they_take(kernels) -> None:
    assert all(factor >= 1 for factor in of(*kernels, by=shared))
    assert of(kernels[0], by=shared) == pytest.approx([1])


def test_tasks_of_a_graph_are_known_by_their_workloads(tmp_path: Path) -> None:
    name = "softmax-m8192-n4096-float16"
    size = Workload.parse(name).min_bytes
    tasks = [
        {"id": "a", "duration_s": 1e-4, "sms": 64, "workload": name, "resource": "left"},
        {"id": "b", "duration_s": 2e-4, "sms": 64, "workload": name, "resource": "right"},
        {"id": "unknown", "duration_s": 1e-4, "sms": 64},
    ]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"tasks": tasks}))
    graph = read_graph(file).graph
    number = {graph.name(task): task for task in range(len(graph))}
    beside = shared(graph)
    a, b, unknown = (RunningKernel(number[each], 1.0) for each in ("a", "b", "unknown"))
    assert beside([a, b]) == shared.slowdowns([1e-4, 2e-4], [size, size])
    assert max(beside([a, b])) > 1
    assert beside([a, unknown]) == shared.slowdowns([1e-4, 1e-4], [size, 0])
    assert beside([a, b._replace(share=0.0)]) == [1, 1]  # it only starts
