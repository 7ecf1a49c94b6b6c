"""What is found beside others is measured again alone."""

import random

import pytest
from msgspec.structs import replace

import costmodel
from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.records import Measurement
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS, measurement_key
from costmodel.testing import gpu_landscape
from costmodel.tuning import Goal

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="module")
def measurements() -> list[Measurement]:
    data = gpu_landscape(seed=2, workloads=[WORKLOAD], configs_per_workload=40, sms=(8, 32, 132))
    return data.to_measurements()


class Beside(ReplayRunner):
    """Measures up to a tenth less or more than what a kernel takes alone, so that another one wins."""

    def __init__(self, measurements: list[Measurement]) -> None:
        super().__init__(measurements)
        self.alone_runner = Alone(measurements)

    @property
    def alone(self) -> "Alone":
        return self.alone_runner

    def measure(self, candidates, platform, *, visit=0):
        found = super().measure(candidates, platform, visit=visit)
        return [replace(m, latencies_s=self._shifted(m), co_runners=UNKNOWN_CO_RUNNERS) for m in found]

    def _shifted(self, measured: Measurement) -> tuple[float, ...]:
        factor = random.Random(f"2 {measured.candidate.candidate_id}").uniform(0.9, 1.1)
        return tuple(factor * each for each in measured.latencies_s)


class Alone(ReplayRunner):
    """Remembers what it is asked for."""

    def __init__(self, measurements: list[Measurement]) -> None:
        super().__init__(measurements)
        self.asked: list[str] = []

    def measure(self, candidates, platform, *, visit=0):
        self.asked += [measurement_key(each, platform) for each in candidates]
        return super().measure(candidates, platform, visit=visit)


def tune(runner, **settings):
    settings = {"sms": 8, "trials": 40, "prior": None} | settings
    return costmodel.tune(WORKLOAD, on=runner, **settings)


def test_the_kernel_that_is_chosen_has_its_latency_alone(measurements):
    runner = Beside(measurements)
    found, undisturbed = tune(runner), tune(ReplayRunner(measurements))
    beside = min(found.search.trials, key=lambda trial: trial.value)
    assert beside.candidate != undisturbed.best.candidate  # who won beside others
    assert found.best.latency_s == (
        ReplayRunner(measurements).measure([found.best.candidate], found.search.platforms[0])[0].latency_s,
    )
    assert found.best.candidate == undisturbed.best.candidate
    again = f"the {len(runner.alone.asked)} best kernels were measured again alone."
    assert f"Others may have measured on the device meanwhile: {again}" in found.answer
    assert not any("again alone" in sentence for sentence in undisturbed.answer)
    assert 3 <= len(runner.alone.asked) == len(set(runner.alone.asked)) < 20


def test_all_kernels_that_are_chosen_are_measured_alone_on_each_budget(measurements):
    runner = Beside(measurements)
    found = tune(runner, sms=Goal((8, 32), portfolio=2))
    right = ReplayRunner(measurements)
    for part in found.ranges:
        trial = found.search.trials[part.kernel]
        alone = [right.measure([trial.candidate], on)[0].latency_s for on in found.search.platforms]
        assert trial.latency_s == tuple(alone)


def test_a_whole_device_was_measured_alone(measurements):
    runner = Beside([m for m in measurements if m.platform.sms_granted == 132])
    assert tune(runner, sms=None, trials=5).search.finalists == ()
    assert runner.alone.asked == []


def test_a_runner_that_measures_alone_measures_nothing_again(measurements):
    runner = Alone(measurements)
    tune(runner, trials=5)
    assert len(runner.asked) == 5


@pytest.mark.filterwarnings("ignore:tune:DeprecationWarning")
@pytest.mark.parametrize("runner", ["cpu", "replay"])
def test_lanes_are_those_of_a_gpu(runner):
    with pytest.raises(CostModelError, match=f"must be those of the runner cuda, but got {runner}"):
        costmodel.tune(WORKLOAD, runner=runner, lanes=True)
