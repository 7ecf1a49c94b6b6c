"""From a workload to the kernel to run: learn from history, search, compare."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.collector import RecordedRunner, Runner
from costmodel.dataset import DatasetLike
from costmodel.engines import Engine
from costmodel.errors import CostModelError
from costmodel.progress import Progress
from costmodel.records import Candidate, Workload
from costmodel.search import (
    BudgetRange,
    ModelSampler,
    Search,
    SearchResult,
    Trial,
    open_study,
    quiet_optuna,
    tune_together,
)
from costmodel.shadow import ServiceWatch, WatchedRunner, WatchedService
from costmodel.spaces import SearchSpace
from costmodel.transfer import Model
from costmodel.tuning._beside import as_far_as_it_may, watched
from costmodel.tuning._finalists import with_finalists_alone
from costmodel.tuning._history import GivenHistory, open_history
from costmodel.tuning._measuring import REPLAY, opened_runner
from costmodel.tuning._prior_knowledge import PriorKnowledge
from costmodel.tuning._request import TuneRequest
from costmodel.tuning._result import TuneResult
from costmodel.tuning._subject import subject_of
from costmodel.tuning.report import (
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
)

_LIBRARY = "library"  # the source that every other is compared with
# SM budgets to measure for a picture of one that was tuned for, as far as a device grants them.
_CURVE_BUDGETS = (1, 2, 4, 8, 16, 32, 64)


def tune(  # noqa: PLR0913 (settings, all but the first with defaults)
    workload: Workload | Path | str,
    *,
    dims: Mapping[str, int] | None = None,
    source: str | Sequence[str] | None = None,
    sms: int | Sequence[int] | None = None,
    trials: int = 16,
    learn_from: DatasetLike | None = None,
    start_from: DatasetLike | None = None,
    replay: DatasetLike | None = None,
    runner: Runner | str | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    kernels: Path | str | None = None,
    lanes: bool = False,
    model: Model | Path | str | None = None,
    learner: str | None = None,
    keep_twins_apart: bool = False,
    objective: str | None = None,
    weights: Sequence[float] = (),
    portfolio: int | None = None,
    free_sms: float | None = None,
    screened: int = 50_000,
    study: str | None = None,
    study_name: str = "tune",
    records: Path | str | None = None,
    stop_gain: float | None = None,
    seed: int = 0,
    measure_curves: bool = False,
    beside: ServiceWatch | Path | str | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> TuneResult:
    """Find the kernel to run for the SMs that it will have, measuring only a shortlist.

    A model that learned from other kernels and other devices ranks all candidates, and each measurement
    sharpens it. On a device it learns from everything in the history. A replay leaves out this workload, and
    others of its shape, on this device and, where the history has it too, on its near-twins: they all but
    tell what is to be found.

    Args:
        workload: What to tune: a workload, its name, or the folder of a CUDA family, see
            ``costmodel.kernels.cuda``.
        dims: Sizes of the family's dims, such as ``{"m": 1024}``; its description has the others.
        source: Where kernels come from: ``"metaschedule"``, ``"cuda"``, ``"triton"``, ``"library"`` (what
            PyTorch runs), several of them or ``"all"``, which are searched in turn and compared; unless
            given, the first that makes the workload, and in a replay all that were recorded.
        sms: SMs that the kernel will have, threads on a CPU; the whole device unless given. Several for one
            kernel that is good on all of them.
        trials: Candidates to measure of each source, where it has as many.
        learn_from: The history: a dataset, its name or its path, or ``"nothing"``. Unless given, what is
            replayed; on a GPU the dataset that ships of the kernels' family, or the model of it that
            ``pretrain`` made, where it has not measured the workload itself; on a CPU nothing.
        start_from: On a device, the dataset whose fastest kernels of this workload there are measured before
            any others; the history unless given.
        replay: What to search in place of a device: recorded measurements, as for ``learn_from``; unless
            given, the dataset that ships.
        runner: What measures instead: ``"cuda"`` for this GPU, ``"cpu"``, or a runner.
        device: Device to replay, or a part of its name, where the records hold several; the first by name
            unless given.
        engine: Where kernels are built for this GPU or CPU, see ``costmodel.engines``; in processes here
            unless given. A replay builds none, and a runner that is given has its own.
        kernels: Folder that keeps the kernels built for this GPU or CPU, so that no other search has to build
            them again, in whatever process; it can be deleted at any time between searches. Unless given,
            none are kept.
        lanes: On this GPU, measure on as many SMs as the kernel will have, while other processes measure on
            the others, and the best kernels alone in the end. It takes an MPS daemon. Unless given, processes
            take turns, and no measurement disturbs another.
        model: Trained model, or its file, to use instead of learning from a history.
        learner: What learns from the history, see ``costmodel.transfer.make_model``. Unless given,
            ``kernel-ridge`` of MetaSchedule's kernels, ``stack`` of those of other sources, and
            ``source-mixture`` of another suite's: all that tells of these is how they ran elsewhere. Where
            the history has kernels of this workload, on other SMs or devices, ``known-elsewhere``; of other
            sources than MetaSchedule where it has half of them.
        keep_twins_apart: In a replay, learn this workload from near-twins of the device too.
        objective: What one kernel for several SM budgets is chosen by, its latency over the best at each:
            ``"worst-regret"`` unless given, ``"mean"`` or ``"weighted"``.
        weights: Weight of each SM budget in the objective ``"weighted"``.
        portfolio: Choose at most so many kernels, and the ranges of SMs in which each should run; without
            ``sms`` for all SM budgets that were recorded, or some that the device grants.
        free_sms: Find the fewest SMs that cost at most this share more than the whole device, such as 0.04.
        screened: Configs to score at a time, without building any. A replay scores all that it holds.
        study: Keep the search here, and go on with it where it stopped; see ``costmodel.search.open_study``.
        study_name: What the names of studies begin with: searches of one name, space and goal are one.
        records: Record store (``.jsonl``) that each measurement on a device goes to, and that is asked before
            anything is measured; what is replayed is not stored.
        stop_gain: Stop when the next measurement is expected to gain less than this share, such as 0.01.
        seed: Seed of all random choices.
        measure_curves: On a device, measure the chosen kernel at other SM budgets too, and search the whole
            device for the kernel to compare it with; a replay knows both.
        beside: Watch of a service that runs on the other SMs meanwhile, or the file to which it appends
            latencies: kernels are measured one by one, the search pauses where the service's p99 rises by
            more than it may, and ends with what it has where it cannot go on. See
            ``costmodel.shadow.ServiceWatch``.
        on_trial: Called after each candidate was measured.

    Raises:
        CostModelError: The options do not go together, a dataset or the workload cannot be found, a device
            cannot be opened, every kernel failed, or a service beside it does not tell its latencies.
        EngineLostError: The engine was lost.

    Example:
        >>> result = tune("matmul-m16-n1024-k1024", sms=32, trials=4)
        >>> len(result.trials), result.best.latency_s[0] < 1e-4
        (4, True)
    """
    budgets = () if sms is None else (sms,) if isinstance(sms, int) else tuple(sms)
    subject = subject_of(workload, dims, source)
    request = TuneRequest(
        subject.name, budgets, objective, tuple(weights), portfolio, free_sms, trials, stop_gain
    )
    if model is not None and learn_from is not None:
        raise CostModelError("A model or a history must be given, but got both. Leave one of them out.")
    with (
        watched(beside, request, measure_curves=measure_curves, lanes=lanes) as service,
        opened_runner(
            runner or REPLAY,
            subject,
            replay,
            device,
            engine,
            kernels=None if kernels is None else Path(kernels),
            lanes=lanes,
        ) as usual,
    ):
        measuring = WatchedRunner(usual, service) if service else usual
        replayed = measuring.known_latencies(subject.workload) is not None
        stored = records is not None and not replayed
        opened = RecordedRunner(measuring, Path(str(records))) if stored else measuring
        platforms, asked = request.platforms(opened), subject.workload
        on = platforms[0].device
        names = subject.among(opened.sources(asked), replayed=replayed)
        spaces = {name: opened.space(asked, platforms, source=name) for name in names}
        history = (
            open_history(learn_from, replay, asked, on, replayed=replayed)
            if model is None
            else GivenHistory()
        )
        known = PriorKnowledge(
            asked, on, replayed, model, history, learner, seed, keep_twins_apart, start_from
        )

        def sampler_of(space: SearchSpace) -> ModelSampler:
            """What proposes the kernels of one source."""
            prior = known.known_of(space, is_only=len(names) == 1)
            return ModelSampler(
                space.in_columns(prior.columns),
                prior.model,
                objective=request.objective_for(platforms),
                goal=request.goal,
                knowledge=prior.facts,
                screened=screened,
                seed=seed,
            )

        samplers = {name: sampler_of(space) for name, space in spaces.items()}
        known_best = known.best_recorded(spaces.values(), platforms)
        kept = partial(_kept_study, study, study_name)
        searches = _searched(opened, list(samplers.values()), request, kept, on_trial, known_best, service)
        found = {name: search.result for name, search in zip(names, searches, strict=True)}
        joined = SearchResult.joined(found) if len(found) > 1 else found[names[0]]
        result = with_finalists_alone(opened, joined, request.most(len(platforms)))
        ranges = result.portfolio(request.most(len(platforms)))
        recorded = opened.known_latencies(asked, sources=names)
        if recorded is not None:
            library = None if _LIBRARY in names else opened.known_latencies(asked, sources=[_LIBRARY])
            curves = recorded_curves(recorded, platforms[-1].device.sms, _choice(result, ranges), library)
        elif len(platforms) > 1:
            curves = searched_curves(result, ranges)
        else:
            sampler = samplers[result.best.candidate.source]
            curves = _measured_curves(opened, sampler, result, request) if measure_curves else []
        free = None if free_sms is None else result.free_sms(free_sms)
        is_ours = not replayed and not isinstance(runner, Runner)
        left_out = subject.left_out("cpu" if on.kind == "cpu" else "cuda") if is_ours else {}
        most, lost = request.most(len(platforms)), service.report if service else None
        return TuneResult(result, ranges, most, free, curves, left_out, lost, searches)


def _searched(  # noqa: PLR0913, PLR0917 (searches, where they are kept, and whom to tell)
    runner: Runner,
    samplers: Sequence[ModelSampler],
    request: TuneRequest,
    study_of: Callable[[str], Any],
    on_trial: Callable[[Trial], None] | None,
    known_best: Sequence[Candidate] = (),
    service: WatchedService | None = None,
) -> tuple[Search, ...]:
    """Search in turn, with a progress bar, in studies by name.

    What is known to be good of a space is measured before anything else of it.
    """

    def told(trial: Trial) -> None:
        progress.advance()
        if on_trial:
            on_trial(trial)

    def search_of(sampler: ModelSampler) -> Search:
        space, goal = sampler.space, f"{sampler.goal.name}-{sampler.objective.name}".lower()
        return Search(
            runner,
            sampler,
            request.trials,
            study=study_of(f"{space.space_id}-{goal}"),
            first=[*space.starts, *(each.config for each in known_best if space.holds(each))],
            stop_gain=request.stop_gain,
            on_trial=told,
        )

    budgets = ", ".join(str(platform.sms_granted) for platform in samplers[0].space.platforms)
    with quiet_optuna():
        searches = tuple(search_of(sampler) for sampler in samplers)
        progress = Progress(f"measuring on {budgets}", sum(each.left for each in searches))
        with progress, as_far_as_it_may(service, progress.show):
            tune_together(searches)
    return searches


def _kept_study(place: str | None, prefix: str, name: str) -> Any:
    """A study at a place; a new one in memory where there is none."""
    return open_study(place, f"{prefix}-{name}")


def _choice(result: SearchResult, ranges: Sequence[BudgetRange]) -> Callable[[int], Candidate]:
    """The kernel that was chosen for so many SMs; the only one at every number, also where none is known."""
    only = {part.kernel for part in ranges}
    if len(only) == 1:
        return lambda _: result.trials[ranges[0].kernel].candidate
    return result.dispatch_table(ranges).kernel_for


def _measured_curves(
    runner: Runner, sampler: ModelSampler, result: SearchResult, request: TuneRequest
) -> list[BudgetCurve]:
    """Latency over SM budgets as the device measures it.

    The whole-device choice is what the same search finds there.
    """
    (here,), whole = result.platforms, runner.platform()
    again = ModelSampler(sampler.space.on(whole), sampler.model, screened=sampler.screened, seed=sampler.seed)
    platforms = {whole.sms_granted: whole, here.sms_granted: here}
    for sms in _CURVE_BUDGETS:
        with suppress(CostModelError):  # a budget that cannot be granted here
            platform = runner.platform(sms)
            platforms.setdefault(platform.sms_granted, platform)
    (search,) = _searched(runner, [again], request, partial(open_study, None), None)
    chosen = {WHOLE_CHOICE: search.result.best.candidate, CHOSEN: result.best.candidate}
    return [measured_curve(runner, label, c, list(platforms.values())) for label, c in chosen.items()]
