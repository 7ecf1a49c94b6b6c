"""What PyTorch runs, measured on this CPU beside TVM's kernels by one runner."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tvm")

from costmodel import tune
from costmodel.collector import CpuRunner
from costmodel.errors import CostModelError
from costmodel.kernels._sources import open_sources
from costmodel.records import Outcome, Workload

pytestmark = [pytest.mark.torch, pytest.mark.white_box]

WORKLOAD = Workload.parse("matmul_bias-m32-n32-k32")


@pytest.fixture(scope="module")
def runner():
    with CpuRunner(sources=open_sources(["metaschedule", "library"]), build_workers=1) as opened:
        yield opened


def test_calls_are_measured_and_checked_beside_kernels(runner) -> None:
    assert runner.sources(WORKLOAD) == ("metaschedule", "library")
    library = runner.space(WORKLOAD, [runner.platform(1)], source="library")
    kernels = runner.space(WORKLOAD, [runner.platform(1)], source="metaschedule")
    candidates = [library.candidate(config) for config in library.starts]
    candidates.append(kernels.candidate(kernels.space.sample(np.random.default_rng(0))))
    measured = runner.measure(candidates, runner.platform(1))
    assert [m.outcome for m in measured] == [Outcome.OK] * 3
    assert [m.candidate.source for m in measured] == ["library", "library", "metaschedule"]
    assert {"tvm", "torch"} <= set(measured[0].platform.software)


def test_the_answer_is_the_fastest_of_all(runner) -> None:
    result = tune(WORKLOAD, sms=1, trials=2, sources="all", on=runner, prior=None)
    assert {trial.candidate.source for trial in result.search.trials} == {"metaschedule", "library"}
    assert result.best.latency_s[0] == min(trial.latency_s[0] for trial in result.search.trials)


def test_a_runner_with_several_sources_is_searched_as_asked(runner) -> None:
    settings = {"sms": 1, "trials": 2, "prior": None, "on": runner}
    for source, searched in (("library", "library"), (None, "metaschedule")):
        result = tune(WORKLOAD, sources=source, **settings)
        assert {trial.candidate.source for trial in result.search.trials} == {searched}
    with pytest.raises(CostModelError, match=r"the runner has \(metaschedule, library\), but got cuda"):
        tune(WORKLOAD, sources="cuda", **settings)
