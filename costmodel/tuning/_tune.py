"""``tune``: learn from a history, search, and compare the result with other choices."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._recorded import RecordedRunner
from costmodel.dataset.table._read import DatasetLike
from costmodel.engines._base import Engine
from costmodel.errors import CostModelError
from costmodel.progress import Progress
from costmodel.records._candidate import Candidate
from costmodel.records._workload import Workload
from costmodel.search._portfolio import BudgetRange
from costmodel.search._result import SearchResult
from costmodel.search._search import Search
from costmodel.search._study import open_study, quiet_optuna
from costmodel.search._trial import Trial
from costmodel.search._tune import tune_together
from costmodel.search.samplers._model import ModelSampler
from costmodel.search.spaces._base import SearchSpace
from costmodel.shadow._service_watch import ServiceWatch
from costmodel.shadow._watched_runner import WatchedRunner
from costmodel.shadow._watched_service import WatchedService
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._beside import ended_by_service, watched
from costmodel.tuning._finalists import with_finalists_alone
from costmodel.tuning._history import GivenHistory, open_history
from costmodel.tuning._measuring import REPLAY, opened_runner
from costmodel.tuning._prior_knowledge import PriorKnowledge
from costmodel.tuning._request import TuneRequest
from costmodel.tuning._result import TuneResult
from costmodel.tuning._subject import subject_of
from costmodel.tuning.report._curves import (
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
)

_LIBRARY = "library"  # the source that all others are compared with
# Further SM budgets to measure for the latency curve of a single budget, as far as a device grants them.
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
    """Find the fastest kernel for a given number of SMs, measuring only a shortlist of candidates.

    A model trained on other kernels and other devices ranks all candidates, and is updated with each
    measurement. A search on a device learns from everything in the history. A replay does not learn from
    this workload, or from others of its shape, on the same device and, if the history has them, on its
    near-twins: those measurements would give the answer away.

    Args:
        workload: What to tune: a workload, its name, or the folder of a CUDA family (see
            ``costmodel.kernels.cuda``).
        dims: Sizes of the family's dims, such as ``{"m": 1024}``. Default: the sizes in its description.
        source: Where kernels come from: ``"metaschedule"``, ``"cuda"``, ``"triton"``, ``"library"`` (the
            kernels that PyTorch runs), several of these, or ``"all"``. Several sources are searched in turn
            and compared. Default: the first source that makes the workload; in a replay, all recorded ones.
        sms: Number of SMs available to the kernel (threads on a CPU), or several such numbers for one kernel
            that is good on all of them. Default: the whole device.
        trials: Number of candidates to measure per source, as far as the source has that many.
        learn_from: The history: a dataset, its name or path, or ``"nothing"``. Default: in a replay, the
            replayed dataset. On a GPU, the shipped dataset of the kernels' family, or its model from
            ``pretrain`` if the dataset has no measurements of the workload itself. On a CPU, nothing.
        start_from: On a device, the dataset whose fastest kernels of this workload on that device are
            measured first. Default: the history.
        replay: Recorded measurements to search instead of a device: a dataset, its name or path. Default:
            the shipped dataset.
        runner: Where to measure instead of a replay: ``"cuda"`` for this GPU, ``"cpu"``, or a runner.
        device: Name of the device to replay, or a part of the name, if the records hold several. Default:
            the first by name.
        engine: Where kernels are built for this GPU or CPU (see ``costmodel.engines``). Default: in processes
            on this machine. A replay builds no kernels, and a runner passed as an object has its own engine.
        kernels: Folder that caches the kernels built for this GPU or CPU, so that no other search, in any
            process, builds them again. You can delete it at any time between searches. Default: no cache.
        lanes: On this GPU, measure on the given number of SMs while other processes measure on the rest, and
            measure the best kernels alone at the end. Needs an MPS daemon. Default: processes take turns, so
            that measurements do not disturb each other.
        model: Trained model, or its file, to use instead of learning from a history.
        learner: Name of the learner (see ``costmodel.transfer.make_model``). Default: ``kernel-ridge`` for
            MetaSchedule's kernels, ``stack`` for other sources, ``stack-above-analytic`` for families whose
            speed depends on their data, and ``source-mixture`` for kernels of another suite, of which only
            their latencies elsewhere are known. If the history has kernels of this
            workload on other SMs or devices, ``known-elsewhere``; for sources other than MetaSchedule, only
            if it has at least half of them.
        keep_twins_apart: In a replay, also learn this workload from near-twins of the device.
        objective: How one kernel is chosen for several SM budgets, by its latency over the best at each:
            ``"worst-regret"``, ``"mean"`` or ``"weighted"``. Default: ``"worst-regret"``.
        weights: Weight of each SM budget for the objective ``"weighted"``.
        portfolio: Maximum number of kernels to choose, each with the range of SMs in which it should run.
            Without ``sms``, for all recorded SM budgets, or for some that the device grants.
        free_sms: Find the fewest SMs on which latency is at most this share higher than on the whole device,
            such as 0.04.
        screened: Number of configs to score at a time, without building any. A replay scores all its configs.
        study: File or URL in which to keep the search and from which to resume it (see
            ``costmodel.search.open_study``).
        study_name: Prefix of the study names. Searches with the same name, space and goal share a study.
        records: Record store (``.jsonl``) for measurements on a device. It is searched before a candidate is
            measured. Replayed measurements are not stored.
        stop_gain: Stop when the expected gain of the next measurement is below this share, such as 0.01.
        seed: Seed of all random choices.
        measure_curves: On a device, also measure the chosen kernel at other SM budgets, and search the whole
            device for the kernel to compare it with. A replay has both without this option.
        beside: Watch of a service that runs on the other SMs meanwhile, or the file to which the service
            appends its latencies (see ``costmodel.shadow.ServiceWatch``). Kernels are measured one by one.
            The search pauses when the service's p99 rises by more than is allowed, and ends with the trials
            made so far if it cannot continue.
        on_trial: Called after each candidate is measured.

    Raises:
        CostModelError: Options contradict each other, a dataset or the workload cannot be found, a device
            cannot be opened, every kernel failed, or the watched service does not report its latencies.
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
            """Make the sampler of one source."""
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
        with progress, ended_by_service(service, progress.show):
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
    """Measure latency over SM budgets on the device.

    The whole-device choice is the kernel that the same search finds on the whole device.
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
