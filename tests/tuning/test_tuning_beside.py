"""``costmodel.tune`` beside a service that is a process of its own."""

from pathlib import Path

import pytest
from fake_service import FakeService
from msgspec import structs

import costmodel
from costmodel.collector import ReplayRunner, ServiceWatch
from costmodel.collector.runners._service_watch import ServiceReport
from costmodel.errors import CostModelError
from costmodel.testing import gpu_landscape
from costmodel.tuning import Beside, Goal, Gpu, Replay, SearchSettings

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="module")
def dataset():
    return gpu_landscape(seed=2, workloads=[WORKLOAD], configs_per_workload=40, sms=(8, 132))


@pytest.fixture
def service(tmp_path: Path):
    with FakeService(tmp_path) as service:
        yield service


class Disturbing(ReplayRunner):
    """Takes something from a service while it measures, from one measurement on."""

    def __init__(self, measurements, service: FakeService, requests: int, since: int = 0) -> None:
        super().__init__(measurements)
        self.service, self.requests, self.left = service, requests, since

    def measure(self, candidates, platform, *, visit=0):
        if self.left == 0:
            self.service.disturb(self.requests)
        self.left = max(0, self.left - 1)
        return super().measure(candidates, platform, visit=visit)


def tune(dataset, **settings):
    return costmodel.tune(WORKLOAD, **{"sms": 8, "trials": 4, "prior": None, **settings})


def watch(service: FakeService, **settings: float) -> ServiceWatch:
    return ServiceWatch(service.log, window=300, **settings)


def test_a_search_beside_a_service_finds_what_it_finds_alone(dataset, service):
    fared: list[ServiceReport] = []
    alone = tune(dataset, on=Replay(dataset))
    beside = tune(dataset, on=Beside(Replay(dataset), watch(service), fared.append))
    assert beside.search.trials == alone.search.trials
    assert alone.remarks == ()
    assert not [sentence for sentence in alone.answer if "service" in sentence]
    assert [lost.pauses for lost in fared] == [0]
    (told,) = [sentence for sentence in beside.answer if "service" in sentence]
    assert told.startswith("The service beside it: p99 1.0")
    assert "at most +5 %" in told
    assert "; 0 pauses, 0.0 s in all." in told


def test_a_search_that_takes_too_much_pauses_and_finds_the_same(dataset, service):
    fared: list[ServiceReport] = []
    runner = Disturbing(dataset.to_measurements(WORKLOAD), service, requests=3)
    result = tune(dataset, on=Beside(runner, watch(service, may_lose=0.1), fared.append))
    assert result.search.trials == tune(dataset, on=Replay(dataset)).search.trials
    (lost,) = fared
    assert 1 <= lost.pauses <= 4  # one a measurement, fewer where a slow machine lets requests pile up
    assert lost.requests_over >= 4 * 3
    assert 100 * lost.requests_over <= lost.requests
    assert lost.p99_rise <= 0.1
    assert any(f"{lost.pauses} pause" in sentence for sentence in result.answer)


def test_a_search_that_cannot_go_on_ends_with_what_it_has(dataset, service):
    runner = Disturbing(dataset.to_measurements(WORKLOAD), service, requests=100, since=2)
    fared: list[ServiceReport] = []
    result = tune(dataset, on=Beside(runner, watch(service, longest_pause_s=0.2), fared.append))
    assert result.search.trials == tune(dataset, on=Replay(dataset), trials=3).search.trials
    (lost,) = fared
    assert "did not make up for it" in lost.ended
    assert f"The search went no further: {lost.ended}" in result.answer


def test_of_several_sources_those_count_that_were_measured(dataset, service):
    """The second source has nothing where the first measurement of the first is the last."""
    landscape = dataset.to_measurements(WORKLOAD)
    called = [
        structs.replace(m, candidate=structs.replace(m.candidate, space="library-1")) for m in landscape
    ]
    runner = Disturbing([*landscape, *called], service, requests=100)
    assert len(runner.sources(WORKLOAD)) == 2
    result = tune(dataset, on=Beside(runner, watch(service, longest_pause_s=0.2)))
    assert len(result.trials) == 1
    assert any("The search went no further" in remark for remark in result.remarks)


def test_a_service_that_is_slower_by_itself_is_told(dataset, service):
    class Slowing(ReplayRunner):
        def measure(self, candidates, platform, *, visit=0):
            service.times(1.5)
            service.await_requests(50)
            return super().measure(candidates, platform, visit=visit)

    runner = Slowing(dataset.to_measurements(WORKLOAD))
    result = tune(dataset, on=Beside(runner, watch(service)))
    assert len(result.trials) == 4
    assert any("slower by itself" in sentence and "p99 is 1.5" in sentence for sentence in result.answer)


def test_nothing_is_opened_before_the_service_is_heard(tmp_path: Path):
    with pytest.raises(CostModelError, match="Start the service first"):
        costmodel.tune("no-such-workload-m1", sms=8, sources="cuda", on=Beside(Gpu(), tmp_path / "none.log"))


@pytest.mark.parametrize(
    "settings",
    [
        {"sms": None},
        {"sms": Goal(portfolio=2)},
        {"sms": Goal((8,), free_sms=0.04)},
        {"search": SearchSettings(measure_curves=True)},
    ],
    ids=str,
)
def test_the_sms_of_the_service_are_left_to_it(dataset, service, settings):
    with pytest.raises(CostModelError, match="A search beside a service must name its SMs"):
        tune(dataset, on=Beside(Replay(dataset), watch(service)), **settings)


def test_a_search_beside_a_service_takes_no_lanes(dataset, service):
    with pytest.raises(CostModelError, match="A search beside a service must name its SMs"):
        tune(dataset, on=Beside(Gpu(lanes=True), watch(service)))
