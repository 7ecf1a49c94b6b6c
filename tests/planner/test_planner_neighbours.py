"""What kernels take beside others on other SMs, on a device whose cache and memory are easy to count with."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.planner import read_graph
from costmodel.planner.neighbours import SharedMemory, fair_shares
from costmodel.planner.whatif import Work
from costmodel.records import Workload, find_device

MB, US = 10**6, 1e-6
# 1 MB in a microsecond from memory, 4 from the cache, which holds 40 MB.
DEVICE = replace(find_device("NVIDIA H100 80GB HBM3"), bandwidth_gb_s=1000.0, l2_bytes=40 * MB)
shared = SharedMemory(DEVICE, l2_bytes_s=4e12)


def of(*kernels: tuple[float, float]) -> list[float]:
    """Factors of kernels, given by microseconds and MB."""
    return shared.slowdowns([us * US for us, _ in kernels], [round(mb * MB) for _, mb in kernels])


def test_kernels_that_fit_into_the_cache_together_do_not_meet_in_the_memory() -> None:
    assert of((20, 20), (20, 20)) == [1, 1]


def test_kernels_that_ask_for_more_than_the_cache_gives_share_it() -> None:
    assert of((2.5, 10), (2.5, 10)) == pytest.approx([2, 2])  # each asks for all that there is
    assert of((2.5, 10), (10, 10)) == pytest.approx([4 / 3, 1])  # who asks for a quarter gets it


def test_kernels_that_stream_share_the_bandwidth() -> None:
    """Each of 80 MB misses half alone, in 40 us, and three quarters beside another."""
    assert of((40, 80), (40, 80)) == pytest.approx([3, 3])


def test_who_asks_for_little_keeps_its_pace_and_the_other_gets_the_rest() -> None:
    heavy, light = of((40, 80), (4000, 80))
    assert light == 1
    assert heavy == pytest.approx((60 / 40) / (1 - 60 / 4000))


def test_kernels_that_fit_alone_but_not_together_fetch_what_does_not_fit() -> None:
    alone = of((10, 40))
    beside = of((10, 40), (10, 40))  # each misses half: 2 MB a microsecond, of which each gets a half
    assert alone == [1]
    assert beside == pytest.approx([4, 4])


def test_a_kernel_that_moves_more_than_the_memory_can_give_is_counted_as_one_that_moves_as_much() -> None:
    """Alone it would fetch 40 MB in 20 us, twice what is possible."""
    assert of((20, 80)) == [1]
    assert of((20, 80), (1000, 1)) == pytest.approx([(41 / 81 * 80 / 20 / 2) / (1 - 41 / 81 / 1000), 1])


def test_what_is_not_known_moves_nothing() -> None:
    assert of((10, 0), (40, 80)) == [1, 1]
    assert of() == []


def test_a_device_without_a_known_cache_has_none() -> None:
    none = SharedMemory(replace(DEVICE, l2_bytes=0))
    assert none.slowdowns([10 * US, 10 * US], [10 * MB, 10 * MB]) == pytest.approx([2, 2])


def test_a_device_must_have_a_bandwidth() -> None:
    with pytest.raises(CostModelError, match=r"must have a known bandwidth, but made up has 0 GB/s"):
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
    assert all(factor >= 1 for factor in of(*kernels))
    assert of(kernels[0]) == pytest.approx([1])


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
    a, b, unknown = (Work(number[each], 1.0) for each in ("a", "b", "unknown"))
    assert beside([a, b]) == shared.slowdowns([1e-4, 2e-4], [size, size])
    assert max(beside([a, b])) > 1
    assert beside([a, unknown]) == [1, 1]
    assert beside([a, b._replace(share=0.0)]) == [1, 1]  # it only starts
