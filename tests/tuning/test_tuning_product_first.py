"""A search for a product measures first what the model of products expects to be the fastest."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from costmodel import Replay, load_dataset, tune
from costmodel.collector import ReplayRunner
from costmodel.kernels.triton._source import TritonSource
from costmodel.products import Kernel, Product
from costmodel.products._workload import find_kernel, find_product
from costmodel.records import Config, Workload
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.tuning._measured_first import MeasuredFirst, expect_first

pytestmark = pytest.mark.white_box

NAME = "matmul-m64-n11008-k4096-float16"
H100 = "NVIDIA H100 80GB HBM3"
TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}


class Live(ReplayRunner):
    """A device for all that a search can tell: what it has measured is known to nobody."""

    def known_latencies(
        self, workload: Workload | str, *, sources: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[int, float]] | None:
        return None


@pytest.fixture(scope="module")
def live() -> Live:
    recorded = load_dataset("triton-sm-budgets").to_measurements(Workload.parse(NAME))
    return Live(each for each in recorded if each.platform.device.name == H100)


def test_what_is_expected_goes_before_what_a_space_starts_with_and_the_rest_behind_it(live: Live) -> None:
    workload = Workload.parse(NAME)
    space = KernelSpace(TritonSource().space(workload, "cuda"), live.platform(132))
    drawn = [space.candidate(each) for each in space.draw(4, np.random.default_rng(0)).configs]
    known, whole, read, expected = drawn
    foreign = replace(drawn[0], space="another")
    first = MeasuredFirst([known, foreign], [whole], [read], [foreign, expected])
    behind = [each.config for each in (known, whole, read)]
    assert space.starts
    assert first.configs_of(space) == [expected.config, *space.starts, *behind]


@pytest.mark.parametrize("sms", [8, 132])
def test_the_first_of_each_source_are_near_the_best(live: Live, sms: int) -> None:
    found = tune(NAME, sms=sms, trials=8, sources=["triton", "library"], on=live, prior=None)
    best = min(trial.latency_s[0] for trial in found.trials)
    workload, platform = Workload.parse(NAME), live.platform(sms)
    spaces = {name: live.space(workload, [platform], source=name) for name in ("triton", "library")}
    expected = expect_first(spaces, workload, [platform], 8, 0)
    assert [each.source for each in expected] == ["triton", "triton", "library", "library"]
    (measured,) = zip(*(live.measure([each], platform) for each in expected), strict=True)
    assert min(each.latency_s for each in measured) <= 1.15 * best
    assert any("model of products" in remark for remark in found.remarks)
    firsts = [trial.candidate.candidate_id for trial in found.trials if trial.number < 2]
    assert set(firsts) <= {each.candidate_id for each in expected}


def test_nothing_is_drawn_of_sources_that_the_model_does_not_know(live: Live) -> None:
    """TVM's space takes seconds."""
    workload, platform = Workload.parse(NAME), live.platform(32)
    spaces = {"metaschedule": None, "triton": live.space(workload, [platform], source="triton")}
    assert {each.source for each in expect_first(spaces, workload, [platform], 4, 0)} == {"triton"}  # type: ignore[arg-type]


def test_a_replay_is_not_told_what_a_twin_of_its_device_knows() -> None:
    found = tune(NAME, sms=8, trials=2, sources="triton", on=Replay("triton-sm-budgets"), prior=None)
    assert not any("model of products" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("source", "decisions", "kernel"),
    [
        ("library", {"call": "eager"}, Kernel("torch")),
        ("library", {"call": "addmm"}, None),
        (
            "library",
            {"call": "cublaslt", "algorithm": 2, "sm_target": 32},
            Kernel("cublaslt", "told", position=2),
        ),
        ("library", {"call": "cublaslt", "algorithm": 0, "sm_target": 0}, Kernel("cublaslt")),
        ("library", {"call": "cublaslt", "algorithm": 0, "sm_target": 64}, None),
        ("library", {"call": "cublaslt", "algorithm": 7, "sm_target": 32}, None),
        (
            "triton",
            {**TILES, "PROGRAMS": 64, "SPLIT_K": 1},
            Kernel("triton", "persistent", 64, 64, 64, 3, 4, programs_per_sm=2),
        ),
        ("triton", {**TILES, "PROGRAMS": 132, "SPLIT_K": 1}, None),
        ("triton", {"BLOCK": 64, "num_warps": 4}, None),
        (
            "triton",
            {**TILES, "PROGRAMS": 0, "SPLIT_K": 4},
            Kernel("triton", "split-k", 64, 64, 64, 3, 4, splits=4),
        ),
    ],
)
def test_configs_are_kernels_of_products(
    source: str, decisions: dict[str, int | str], kernel: Kernel
) -> None:
    assert find_kernel(source, Config(decisions), 32, 132) == kernel


def test_operators_are_products() -> None:
    batch = Workload.parse("batch_matmul-b12-m128-n64-k32-float16")
    assert find_product(batch) == Product(128, 64, 32, 12, "float16", "nn")
    fused = find_product(Workload.parse("matmul_bias_gelu-m8-n64-k32-float32"))
    assert fused == Product(8, 64, 32, 1, "float32", "nn", "bias_gelu")
    assert find_product(Workload.parse("softmax-m8-n64-float16")) is None
    assert find_product(Workload("triton.nobodys", {"x": 3}, "")) is None
