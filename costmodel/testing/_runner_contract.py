"""Contract checks for runners: the cuda, cpu and replay runners pass the same ones.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", RUNNER_CHECKS)
    def test_replay_runner_keeps_the_contract(check):
        check(RunnerCase(open=lambda: ReplayRunner(records), candidates=candidates, failing=broken))
"""

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.collector.runners._base import Runner
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome


@dataclass(frozen=True)
class RunnerCase:
    """A runner to check.

    Attributes:
        open: Opens a new runner.
        candidates: Two or more distinct candidates that run.
        failing: A candidate that this runner cannot run.
        sms: An SM budget that the runner grants; None for the whole device.
        impossible_sms: An SM budget that the runner cannot grant.
    """

    open: Callable[[], Runner]
    candidates: Sequence[Candidate]
    failing: Candidate
    sms: int | None = None
    impossible_sms: int = 1_000_003


def check_measures_each_candidate_in_order(case: RunnerCase) -> None:
    """One measurement for each candidate, in order, failures among them, on the platform asked for."""
    asked = [*case.candidates[:1], case.failing, *case.candidates[1:]]
    with case.open() as runner:
        platform = runner.platform(case.sms)
        measured = runner.measure(asked, platform)
    assert [m.candidate.candidate_id for m in measured] == [c.candidate_id for c in asked]
    assert all(m.platform.platform_id == platform.platform_id for m in measured)
    assert [m.outcome is Outcome.OK for m in measured] == [c is not case.failing for c in asked]
    assert all(m.visit == 0 for m in measured)


def check_failure_says_why(case: RunnerCase) -> None:
    """A failure carries its reason, and no latency."""
    with case.open() as runner:
        (failed,) = runner.measure([case.failing], runner.platform(case.sms))
    assert failed.error, "a failed measurement must say why"
    assert failed.latencies_s == ()


def check_no_candidates_give_no_measurements(case: RunnerCase) -> None:
    """An empty list is measured as an empty list."""
    with case.open() as runner:
        assert runner.measure([], runner.platform(case.sms)) == []


def check_platform_grants_what_it_says(case: RunnerCase) -> None:
    """A platform holds the granted SMs, and asking again grants the same."""
    with case.open() as runner:
        platform, whole = runner.platform(case.sms), runner.platform()
        assert platform == runner.platform(case.sms)
    assert 0 < platform.sms_granted <= whole.sms_granted == whole.device.sms
    assert platform.device == whole.device


def check_impossible_budget_is_refused(case: RunnerCase) -> None:
    """A budget that cannot be granted is the user's error, told in a sentence."""
    with case.open() as runner:
        try:
            granted = runner.platform(case.impossible_sms)
        except CostModelError as error:
            refusal = str(error)
        else:
            raise AssertionError(f"{case.impossible_sms} SMs must be refused, but got {granted.name}")
    assert str(case.impossible_sms) in refusal, "the refusal must name what was asked for"


def check_budgets_can_be_granted(case: RunnerCase) -> None:
    """The SM budgets to tune for are granted as they stand, smallest first, the whole device last."""
    with case.open() as runner:
        budgets, whole = runner.budgets, runner.platform()
        granted = [runner.platform(sms).sms_granted for sms in budgets]
    assert tuple(granted) == budgets == tuple(sorted(set(budgets)))
    assert budgets[-1] == whole.sms_granted


def check_space_holds_the_kernels_of_a_workload(case: RunnerCase) -> None:
    """The space is on the platforms asked for, and what it draws has features on each."""
    workload = case.candidates[0].workload
    with case.open() as runner:
        platforms = (runner.platform(case.sms), runner.platform())
        space = runner.space(workload, platforms)
        drawn = space.draw(8, np.random.default_rng(0))
    assert space.platforms == platforms
    assert drawn.features.shape[:2] == (len(drawn), len(platforms))
    assert space.candidate(drawn.configs[0]).workload == workload


def check_known_latencies_are_those_measured(case: RunnerCase) -> None:
    """What is known without measuring is what would be measured; a device knows nothing."""
    candidate = case.candidates[0]
    with case.open() as runner:
        known = runner.known_latencies(candidate.workload)
        if known is not None:
            platform = runner.platform(case.sms)
            (measured,) = runner.measure([candidate], platform)
            assert known[platform.sms_granted][candidate.candidate_id] == measured.latency_s


def check_machine_code_is_told_in_order(case: RunnerCase) -> None:
    """What a compiler made of candidates is told of each, in order; it may be that nothing is known."""
    with case.open() as runner:
        found = runner.machine_code([*case.candidates, case.candidates[0]])
        assert runner.machine_code([]) == []
    assert len(found) == len(case.candidates) + 1
    assert found[0] == found[-1]


def check_description_is_one_line(case: RunnerCase) -> None:
    """The user is told on one line what measures."""
    with case.open() as runner:
        description = runner.description
    assert description.strip()
    assert "\n" not in description


def check_closing_ends_workers(case: RunnerCase) -> None:
    """Leaving the context ends the runner's processes, and closing again is harmless."""
    before = set(multiprocessing.active_children())
    with case.open() as runner:
        runner.prefetch(case.candidates)
        runner.measure(case.candidates[:1], runner.platform(case.sms))
    runner.close()
    left = set(multiprocessing.active_children()) - before
    assert not left, f"processes outlived their runner: {left}"


RUNNER_CHECKS: tuple[Callable[[RunnerCase], None], ...] = (
    check_measures_each_candidate_in_order,
    check_failure_says_why,
    check_no_candidates_give_no_measurements,
    check_platform_grants_what_it_says,
    check_impossible_budget_is_refused,
    check_budgets_can_be_granted,
    check_space_holds_the_kernels_of_a_workload,
    check_known_latencies_are_those_measured,
    check_machine_code_is_told_in_order,
    check_description_is_one_line,
    check_closing_ends_workers,
)
"""What each runner must do: functions of a `RunnerCase`."""
