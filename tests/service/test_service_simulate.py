import math
from itertools import pairwise

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.service import TuneWork, load_times, simulate
from costmodel.service._simulate import Simulated, enough_builders, simulate_grid
from costmodel.service._stage_times import CampaignWork, StageTimes

pytestmark = pytest.mark.white_box

pytest.importorskip("simpy")

FIXED = StageTimes(source="made up", build_s=(1.0,), measure_s=(0.25,), propose_s=(0.5,), start_s=(2.0,))


def exponential(mean_s: float, seed: int) -> tuple[float, ...]:
    return tuple(np.random.default_rng(seed).exponential(mean_s, 20_000))


def machine_repair_rate(jobs: int, servers: int, think_s: float, serve_s: float) -> float:
    """Jobs a second of an M/M/c queue with a finite population: Allen, Probability, Statistics and Queueing
    Theory, section 5.2.7."""
    weights = [
        math.comb(jobs, n)
        * math.factorial(n)
        / math.prod(min(i, servers) for i in range(1, n + 1))
        * (serve_s / think_s) ** n
        for n in range(jobs + 1)
    ]
    busy = sum(min(n, servers) * weight for n, weight in enumerate(weights)) / sum(weights)
    return busy / serve_s


def test_builders_with_exponential_times_serve_as_queueing_theory_says() -> None:
    times = StageTimes(
        source="", build_s=exponential(1.0, 1), propose_s=exponential(1.5, 2), measure_s=(0.0,)
    )
    found = simulate([TuneWork(6000, 1, 1)] * 3, times, builders=2)
    expected = machine_repair_rate(3, 2, np.mean(times.propose_s), np.mean(times.build_s))
    assert found.kernels / found.seconds == pytest.approx(expected, rel=0.02)
    assert found.builder_use == pytest.approx(expected / 2 * np.mean(times.build_s), rel=0.02)


def test_a_gpu_with_exponential_times_serves_as_queueing_theory_says() -> None:
    times = StageTimes(
        source="", measure_s=exponential(1.0, 3), propose_s=exponential(2.0, 4), build_s=(0.0,)
    )
    found = simulate([TuneWork(6000, 1, 1)] * 3, times, builders=8)
    expected = machine_repair_rate(3, 1, np.mean(times.propose_s), np.mean(times.measure_s))
    assert found.kernels / found.seconds == pytest.approx(expected, rel=0.02)


def test_a_tune_waits_for_each_batch_before_it_proposes_another() -> None:
    found = simulate([TuneWork(4, batch=2, batches=1)], FIXED, builders=2)
    assert found.seconds == pytest.approx(2.0 + (1.0 + 0.5) + 0.5 + (1.0 + 0.5))


def test_of_two_batches_one_is_built_while_the_other_is_measured() -> None:
    found = simulate([TuneWork(4, batch=1, batches=2)], FIXED, builders=4)
    # Builds begin at 2.0, 2.5, 3.75 and 4.5 s, measurements at 3.0, 3.75, 4.75 and 5.5 s.
    assert found.seconds == pytest.approx(5.75)


def test_a_tune_proposes_as_many_as_a_search_does() -> None:
    by_rule = simulate([TuneWork(64)], FIXED, builders=15)
    assert by_rule == simulate([TuneWork(64, batch=8, batches=4)], FIXED, builders=15)
    assert by_rule != simulate([TuneWork(64, batch=16, batches=1)], FIXED, builders=15)


def test_jobs_one_after_the_other_take_the_sum_of_their_times() -> None:
    one = simulate([TuneWork(8, 2)], FIXED, builders=4)
    three = simulate([TuneWork(8, 2)] * 3, FIXED, builders=4, at_once=1)
    assert three.seconds == pytest.approx(3 * one.seconds)
    assert simulate([TuneWork(8, 2)] * 3, FIXED, builders=4).seconds < 2 * one.seconds


def test_a_campaign_measures_kernels_together_when_all_are_built() -> None:
    times = StageTimes(source="", build_s=(1.0,), measure_s=(0.25,))
    assert simulate([CampaignWork(1, 8, 1)], times, builders=4).seconds == pytest.approx(
        1 + 4 * 0.25 + 4 * 0.25
    )
    assert simulate([CampaignWork(1, 8, 8)], times, builders=4).seconds == pytest.approx(2 + 8 * 0.25)


def test_each_workload_keeps_its_gpu() -> None:
    times = StageTimes(source="", build_s=(0.0,), measure_s=(1.0,))
    seconds = {
        (workloads, gpus): simulate([CampaignWork(workloads, 8, 1)], times, builders=1, gpus=gpus).seconds
        for workloads in (1, 2)
        for gpus in (1, 2)
    }
    assert seconds == {(1, 1): 8, (1, 2): 8, (2, 1): 16, (2, 2): 8}


def test_kernels_beside_others_on_a_gpu_take_as_much_longer_as_was_measured() -> None:
    times = StageTimes(source="", build_s=(0.0,), measure_s=(1.0,), lane_slowdown={2: 1.6})
    assert simulate([CampaignWork(1, 8, 1)], times, builders=1, lanes=2).seconds == pytest.approx(4 * 1.6)
    with pytest.raises(CostModelError, match=r"must be a number that was measured, \[1, 2\], but got 4"):
        simulate([CampaignWork(1, 8, 1)], times, builders=1, lanes=4)


def test_the_engine_gives_out_one_job_after_the_other() -> None:
    times = StageTimes(source="", build_s=(0.1,), measure_s=(0.0,), engine_s=(1.0,))
    found = simulate([CampaignWork(1, 10, 1)], times, builders=100)
    assert found.seconds == pytest.approx(10.1)
    assert found.limit == "engine"


@pytest.mark.parametrize("jobs", [[TuneWork(128)] * 4, [CampaignWork(4, 64)]], ids=["tunes", "campaign"])
def test_more_of_anything_is_never_slower_nor_beyond_what_it_can_do(
    jobs: list[TuneWork | CampaignWork],
) -> None:
    times = load_times("h100")
    builders, gpus = (1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 4)
    found = {
        (one.gpus, one.builders): one for one in simulate_grid(jobs, times, builders=builders, gpus=gpus)
    }
    rate = {key: one.kernels_per_hour for key, one in found.items()}
    for fewer, more in pairwise(builders):
        for devices in gpus:
            # A tune with more builders proposes more at once: the last batches can fall less well.
            assert rate[devices, more] >= 0.95 * rate[devices, fewer]
    for fewer, more in pairwise(gpus):
        for cores in builders:
            assert rate[more, cores] >= 0.95 * rate[fewer, cores]
    for one in found.values():
        assert max(one.builder_use, one.gpu_use, one.engine_use) <= 1.0
        most = min(times.per_second(one.builders, one.gpus).values())
        assert one.kernels / one.seconds <= 1.15 * most  # what is drawn has another mean than all


def test_the_same_seed_is_the_same_simulation() -> None:
    times = load_times("h100")
    first, again, other = (simulate([TuneWork(32)] * 2, times, builders=8, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_what_holds_it_up_is_what_is_taken_all_the_time() -> None:
    assert simulate([CampaignWork(1, 64, 1)], FIXED, builders=1).limit == "builders"
    assert simulate([CampaignWork(1, 640, 1)], FIXED, builders=64).limit == "GPUs"
    assert simulate([TuneWork(32, 1, 1)], FIXED, builders=64).limit == "jobs"


def test_enough_builders_are_the_fewest_that_reach_nearly_the_most() -> None:
    def reached(builders: int, kernels: int) -> Simulated:
        return Simulated(builders, 1, 1, kernels, 3600.0, 0.0, 0.0, 0.0)

    assert enough_builders([reached(1, 50), reached(2, 96), reached(4, 100)]) == 2


@pytest.mark.parametrize("number", ["builders", "gpus", "lanes"])
def test_there_is_one_of_everything_at_least(number: str) -> None:
    with pytest.raises(CostModelError, match=f"{number} must be a whole number of at least 1, but got 0"):
        simulate([TuneWork()], FIXED, **{"builders": 1, number: 0})
    with pytest.raises(CostModelError, match="jobs must be a whole number of at least 1, but got 0"):
        simulate([], FIXED, builders=1)
