"""Kernels beside collectives that hold SMs take what an H200 took, and what rounds of blocks take."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.planner import KernelGraph, _held_sms, plan, replay
from costmodel.planner._held_sms import replay_with_held_sms, without_held_sms
from costmodel.planner.graphs._json_graph import JsonTask, graph_of

pytestmark = pytest.mark.white_box

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
START_US = 1.2


def beside(
    alone_us: float,
    collective_us: float,
    *,
    blocks: int = 128,
    sms: int = 132,
    channels: int = 24,
    first_us: float = 0.0,
    rank: int | None = 0,
) -> KernelGraph:
    """A product of one block on an SM, and a collective on another stream since ``first_us``."""
    shared = {"sms": sms, "block_warps": 8, "sm_blocks": 1}
    found = graph_of(
        [
            JsonTask(id="wait", duration_s=first_us * 1e-6, resource="communication", kind="copy"),
            JsonTask(
                id="c",
                name=ALL_REDUCE,
                duration_s=collective_us * 1e-6,
                resource="communication",
                blocks=channels,
                **(shared | {"sms": 132}),
            ),
            JsonTask(
                id="k", name="sgemm", duration_s=alone_us * 1e-6, resource="compute", blocks=blocks, **shared
            ),
        ],
        "beside",
    )
    return replace(found, resources=tuple(replace(each, rank=rank) for each in found.resources))


def takes_us(graph: KernelGraph) -> float:
    return 1e6 * float(replay_with_held_sms(graph).graph.durations_s[2])


def test_a_replay_that_did_not_settle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not replay_with_held_sms(beside(1345, 220)).graph.assumptions
    monkeypatch.setattr(_held_sms, "_TURNS", 1)
    (said,) = replay_with_held_sms(beside(1345, 220)).graph.assumptions
    assert said == "Kernels beside collectives did not settle in 1 turns: one still changes by 220.0 us."


def test_what_an_h200_took() -> None:
    """1,345 us alone, beside 220 us of a collective, and beside one that waits: experiments/several_ranks."""
    assert takes_us(beside(1345, 220)) == pytest.approx(1565)
    assert takes_us(beside(1345, 5000)) == pytest.approx(2689, abs=2)
    assert takes_us(beside(1345, 5000, channels=2)) == pytest.approx(1345)  # 130 SMs hold its 128 blocks


@pytest.mark.parametrize(
    ("graph", "expected_us"),
    [
        (beside(1345, 220, rank=None), 1345),  # a single process, whose trace is as it was recorded
        (beside(1345, 220, first_us=2000), 1345),  # begins when the kernel is over
        (beside(1345, 220, first_us=100), 1345),  # its blocks were there before
        (beside(1345, 220, sms=108, blocks=108), 1345),  # the collective has 24 SMs of its own
        (beside(1345, 220, sms=112, blocks=112), 1345 + 220),  # 20 of its own, and 4 of the kernel's
    ],
)
def test_only_sms_that_a_kernel_would_use_are_missed(graph: KernelGraph, expected_us: float) -> None:
    assert takes_us(graph) == pytest.approx(expected_us)


def test_rounds_of_blocks() -> None:
    """264 blocks in two rounds of 100 us; SMs are held for 250 us, so that 108 do 216 blocks by then."""
    graph = beside(START_US + 200, 250, blocks=264)
    assert takes_us(graph) == pytest.approx(START_US + 300)


@given(
    alone_us=st.floats(5, 3000),
    collective_us=st.floats(1, 3000),
    blocks=st.integers(1, 20_000),
    channels=st.integers(1, 64),
    first_us=st.floats(0, 2000),
)
def test_what_is_taken_out_is_put_in_again(
    alone_us: float, collective_us: float, blocks: int, channels: int, first_us: float
) -> None:
    graph = beside(alone_us, collective_us, blocks=blocks, channels=channels, first_us=first_us)
    recorded = replay_with_held_sms(graph)
    assert alone_us * 0.999 <= 1e6 * recorded.graph.durations_s[2] <= 2 * alone_us + 1
    again = replay_with_held_sms(without_held_sms(recorded))
    np.testing.assert_allclose(again.graph.durations_s, recorded.graph.durations_s, rtol=1e-3, atol=1e-8)


def test_fewer_channels_free_sms() -> None:
    recorded = replay(replay_with_held_sms(beside(1345, 220)).graph)
    assert 1e6 * recorded.makespan_s == pytest.approx(1565)
    found = plan(recorded.graph, "channels=2")
    assert 1e6 * found.after.makespan_s == pytest.approx(1345, rel=1e-3)
    assert any("1 collectives hold 2 SMs each" in each for each in found.assumptions)
    longer = plan(recorded.graph, "scale:nccl=4")
    assert 1e6 * longer.after.makespan_s == pytest.approx(1345 + 880, rel=1e-3)


def test_channels_need_collectives() -> None:
    with pytest.raises(CostModelError, match="the graph has none"):
        plan(graph_of([JsonTask(id="k", duration_s=1e-3)], "one"), "channels=2")
