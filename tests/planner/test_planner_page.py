"""The page of a plan: what it says first, then the picture, then tables with short names."""

import re
from pathlib import Path

import pytest
from kernel_names import KERNELS
from kineto_traces import Machine, two_streams

from costmodel.planner import plan
from costmodel.planner._plan_page import format_seconds, shorten_kernel

pytestmark = pytest.mark.white_box


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return two_streams(Machine()).save(tmp_path / "trace.json")


def test_a_page_says_what_matters_before_it_shows_it(trace: Path, tmp_path: Path) -> None:
    found = plan(trace, "scale:sgemm=0.5")
    found.save_report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    order = ["x as fast: ", "of the critical path.", "of the time of kernels", "<img", "In numbers"]
    order += ["Operators, longest first", "Critical path, longest first"]
    places = [page.index(each) for each in order]
    assert places == sorted(places)
    assert found.verdict()[0].startswith(f"{found.speedup:.2f}x as fast: ")
    assert 'content="width=device-width' in page
    assert "@media (max-width: 40rem)" in page


def test_a_plan_without_a_change_says_how_long_it_takes(trace: Path) -> None:
    found = plan(trace)
    assert found.verdict()[0].startswith(format_seconds(found.before.makespan_s))
    assert plan(trace, "scale:sgemm=0.9999").verdict()[0].startswith("As fast as before")


def test_what_sets_the_pace_is_said(tmp_path: Path) -> None:
    slow = Machine()
    for _ in range(20):
        slow.host("aten::view", 30.0)
        slow.operator("aten::mm", "sgemm", 1.0)
    assert "The host sets the pace" in plan(slow.save(tmp_path / "host.json")).verdict()[1]
    busy = Machine()
    busy.operator("aten::mm", "sgemm", 9000.0)
    busy.synchronize()
    assert "The device sets the pace" in plan(busy.save(tmp_path / "device.json")).verdict()[1]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("void splitKreduce_kernel<32, 16, int, float>(int)", "splitKreduce_kernel"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
            "vectorized_elementwise_kernel<CUDAFunctor_add>",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>",
            "reduce_kernel<MeanOps>",
        ),
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float, 7>(int)",
            "softmax_warp_forward",
        ),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_execute_kernel",
            "sm80_xmma_gemm_f32f32_f32f32...tilesize128x64x8",
        ),
        ("<unknown>", "<unknown>"),
    ],
)
def test_a_short_name_tells_a_kernel_from_others(name: str, short: str) -> None:
    assert shorten_kernel(name) == short


def test_names_of_many_libraries_become_short() -> None:
    shorts = [shorten_kernel(name) for name, *_ in KERNELS]
    assert all(re.search(r"\w", short) for short in shorts)
    assert max(map(len, shorts)) <= 80
    assert len(set(shorts)) > 0.9 * len({name for name, *_ in KERNELS})


@pytest.mark.parametrize(
    ("seconds", "text"), [(5.446e-4, "545 us"), (2.949e-3, "2.95 ms"), (12.0, "12.0 s"), (4.2e-6, "4.20 us")]
)
def test_times_have_units(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
