"""Rows that are timed: by a GPU that times nothing, whose fastest config is known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import GPT_OSS, MIXTRAL, QWEN3, write_model

from costmodel.collector import Runner
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload, find_device
from costmodel.records._platform import part_of
from costmodel.serving import serve_tables
from costmodel.serving._default_rule import default_row

pytestmark = pytest.mark.white_box

H100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA L40S"
TOKENS = (1, 64, 1024)


class KnownBest(Runner):
    """A GPU on which each warp takes its time, so that few warps win; a second visit takes as long.

    Attributes:
        measured: Candidates, and on which visit.
    """

    description, budgets = "Nothing is timed.", (132,)

    def __init__(self, device: str = H100, failing_warps: int = 0, lucky: int = 0) -> None:
        self._device, self._failing, self._lucky = find_device(device), failing_warps, lucky
        self.measured: list[tuple[Candidate, int]] = []

    def platform(self, sms: int | None = None) -> Platform:
        return part_of(self._device, sms or self._device.sms)

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        return ("triton",)

    def space(self, workload: Workload | str, platforms: Sequence[Platform], **_: Any) -> Any:
        raise NotImplementedError

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        self.measured += [(each, visit) for each in candidates]
        return [self._measure(each, platform, visit) for each in candidates]

    def _measure(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        warps = int(candidate.config.decisions["num_warps"])
        ran = warps != self._failing
        seconds = 1e-5 if visit == 0 and warps == self._lucky else 1e-4 * warps
        return Measurement(
            candidate=candidate,
            platform=platform,
            outcome=Outcome.OK if ran else Outcome.LAUNCH_ERROR,
            error=None if ran else "it does not run",
            latencies_s=(seconds,) if ran else (),
            visit=visit,
            measured_at="2026-11-27T00:00:00+00:00",
        )


def test_a_row_is_the_fastest_of_those_timed_and_the_default_is_one(tmp_path: Path) -> None:
    gpu = KnownBest()
    model = write_model(tmp_path, MIXTRAL)
    found = serve_tables(model, H100, tensor_parallel=2, tokens=TOKENS, timings=16, on=gpu)
    (table,) = found.tables.values()
    for tokens, row in table.rows.items():
        default = default_row("vllm", table.kernel, tokens)
        timed = [each for each, visit in gpu.measured if not visit and each.workload.dims["t"] == tokens]
        assert len(timed) == 2 * 16
        least = min(int(each.config.decisions["num_warps"]) for each in timed)
        assert row.config["num_warps"] == least
        gain = default["num_warps"] / least
        assert row.gain == (gain, gain, gain)
        assert row.origin == ("timed" if gain > 1 else "default")
    assert found.origins["timed"] > 0
    assert found.files() != serve_tables(model, H100, tensor_parallel=2, tokens=TOKENS).files()


def test_rows_of_a_gpu_that_the_model_does_not_know_are_timed_too(tmp_path: Path) -> None:
    gpu = KnownBest(L40S)
    model, asked = write_model(tmp_path, QWEN3), {"framework": "sglang", "triton": "3.6.0"}
    found = serve_tables(model, L40S, **asked, tokens=TOKENS, timings=8, on=gpu)  # type: ignore[arg-type]
    assert set(found.origins) <= {"timed", "default"}
    assert found.origins["timed"] > 0


def test_what_was_fast_once_alone_does_not_replace_the_default(tmp_path: Path) -> None:
    gpu = KnownBest(lucky=8)
    model = write_model(tmp_path, MIXTRAL)
    found = serve_tables(model, H100, tensor_parallel=2, tokens=(1,), timings=16, on=gpu)
    assert found.tables == {}
    assert any(visit for _, visit in gpu.measured)


def test_a_default_that_does_not_run_leaves_what_is_known_without_timing(tmp_path: Path) -> None:
    model = write_model(tmp_path, MIXTRAL)
    told = serve_tables(model, H100, tensor_parallel=2, tokens=TOKENS)
    for gpu in (KnownBest(failing_warps=4), KnownBest(failing_warps=8)):
        found = serve_tables(model, H100, tensor_parallel=2, tokens=TOKENS, timings=4, on=gpu)
        for path, table in found.tables.items():
            for tokens, row in table.rows.items():
                if default_row("vllm", table.kernel, tokens)["num_warps"] == gpu._failing:
                    assert row == told.tables[path].rows[tokens]


def test_a_gpu_with_few_experts_has_no_more_of_a_token(tmp_path: Path) -> None:
    """A kernel of more would leave rows of its results unwritten, and be taken for a wrong one."""
    gpu = KnownBest()
    serve_tables(write_model(tmp_path, MIXTRAL), H100, expert_parallel=8, tokens=(64,), timings=4, on=gpu)
    sizes = [each.workload.dims for each, _ in gpu.measured]
    assert sizes
    assert {(each["e"], each["k"]) for each in sizes} == {(1, 1)}


def test_another_gpu_than_that_of_the_tables_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path, QWEN3)
    with pytest.raises(CostModelError, match="but that is NVIDIA H200 and this is NVIDIA H100 80GB HBM3"):
        serve_tables(model, "NVIDIA H200", timings=4, on=KnownBest())
    with pytest.raises(CostModelError, match="timings must be"):
        serve_tables(model, H100, timings=1, on=KnownBest())
    with pytest.raises(CostModelError, match="timings must be at least 2 where `on` is given"):
        serve_tables(model, H100, on=KnownBest())


def test_kernels_of_which_none_is_ours_are_not_timed(tmp_path: Path) -> None:
    """Scales of a tensor are another kernel than scales of blocks; int8 tokens are none of ours."""
    gpu = KnownBest()
    for told in ({"quant_method": "fp8"}, {"quant_method": "fp8", "weight_block_size": [64, 64]}):
        model = write_model(tmp_path, QWEN3, quantization_config=told)
        serve_tables(model, H100, tokens=TOKENS, timings=4, on=gpu)
    packed = {"quant_method": "gptq", "bits": 4, "group_size": -1}
    model = write_model(tmp_path, QWEN3, quantization_config=packed)
    serve_tables(model, H100, tokens=TOKENS, timings=4, on=gpu)
    assert gpu.measured == []
    packed["group_size"] = 128
    model = write_model(tmp_path, QWEN3, quantization_config=packed)
    serve_tables(model, H100, tokens=(64,), timings=4, on=gpu)
    assert gpu.measured
    assert np.all([each.workload.kind == "triton.fused_moe_int4" for each, _ in gpu.measured])
    with pytest.raises(CostModelError, match="no kernel that takes a table"):
        serve_tables(write_model(tmp_path, GPT_OSS), H100, timings=4, on=gpu)
