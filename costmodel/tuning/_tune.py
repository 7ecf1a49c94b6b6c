"""``tune``: learn from a history, search, and compare the result with other choices."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.arguments import check_kind, check_whole
from costmodel.collector.runners._base import CannotGoOnError, Runner
from costmodel.dataset.table._read import DatasetLike
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.report._progress import Progress
from costmodel.search._portfolio import BudgetRange
from costmodel.search._result import SearchResult
from costmodel.search._search import Search
from costmodel.search._study import open_study, quiet_optuna
from costmodel.search._trial import Trial
from costmodel.search._tune import tune_together
from costmodel.search.samplers._model import ModelSampler
from costmodel.search.samplers._staged import StagedSampler, compiled_per_trial
from costmodel.search.spaces._base import SearchSpace
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._findings import (
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
    with_finalists_alone,
)
from costmodel.tuning._former import translate_keywords
from costmodel.tuning._history import PriorKnowledge, open_history
from costmodel.tuning._knowledge import Knowledge
from costmodel.tuning._measured_first import MeasuredFirst, expect_first, read_first, source_to_read
from costmodel.tuning._places import Place, PlaceName, find_place, open_place, replayed_dataset
from costmodel.tuning._request import Goal, Prior, SearchSettings
from costmodel.tuning._result import TuneResult
from costmodel.tuning._subject import Subject, subject_of

# One in so many trials is of a kernel that was measured on the whole device.
_ON_WHOLE = 4

_LIBRARY = "library"  # the source that all others are compared with
# Further SM budgets to measure for the latency curve of a single budget, as far as a device grants them.
_CURVE_BUDGETS = (1, 2, 4, 8, 16, 32, 64)
_SEARCH = SearchSettings()


def tune(  # noqa: PLR0913 (settings, all but the first with defaults)
    workload: Workload | Path | str,
    *,
    sms: int | Sequence[int] | Goal | None = None,
    trials: int = 16,
    sources: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    on: Place | PlaceName = "replay",
    prior: Prior | Model | DatasetLike | None = "default",
    search: SearchSettings = _SEARCH,
    on_trial: Callable[[Trial], None] | None = None,
    **former: Any,
) -> TuneResult:
    """Find the fastest kernel for a given number of SMs, measuring only a shortlist of candidates.

    A model trained on other kernels and other devices ranks all candidates, and is updated with each
    measurement. A search on a device learns from everything in the history. A replay does not learn from
    this workload, or from others of its shape, on the same device and, if the history has them, on its
    near-twins: those measurements would give the answer away.

    Args:
        workload: What to tune: a workload, its name, the folder of a CUDA or Triton family (see
            ``costmodel.kernels``), or a tensor program in a file.
        sms: Number of SMs available to the kernel (threads on a CPU), or several such numbers for one kernel
            that is good on all of them; a ``Goal`` for a portfolio of kernels, another objective, or the
            fewest SMs that are enough. Default: the whole device.
        trials: Number of candidates to measure per source, as far as the source has that many.
        sources: Where kernels come from: ``"metaschedule"``, ``"cuda"``, ``"triton"``, ``"library"`` (the
            kernels that PyTorch runs), several of these, or ``"all"``. Several sources are searched in turn
            and compared. Default: the first source that makes the workload; in a replay, all recorded ones.
        dims: Sizes of the family's dims, such as ``{"m": 1024}``. Default: the sizes in its description.
        on: Where to measure: ``"replay"`` of the shipped dataset, ``"cuda"`` for this GPU, ``"cpu"``, a place
            with settings (``Replay``, ``Gpu``, ``Cpu``, ``Beside``), or a runner, which stays open.
        prior: What is known: a model or its file, a dataset to learn from, a ``Prior`` with more to say, or
            None for nothing. Default: what ships for kernels of this kind.
        search: How the search proceeds: its study, seed, and when it stops.
        on_trial: Called after each candidate is measured.
        **former: Keywords of 0.3, which warn and go in the next release.

    Raises:
        CostModelError: Options contradict each other, a dataset or the workload cannot be found, a device
            cannot be opened, every kernel failed, or a watched service does not report its latencies.
        EngineLostError: The engine was lost.

    Example:
        >>> result = tune("matmul-m16-n1024-k1024", sms=32, trials=4)
        >>> len(result.trials), result.best.latency_s[0] < 1e-4
        (4, True)
    """
    check_kind("search", search, SearchSettings, "a SearchSettings")
    if former:
        current = translate_keywords(former, sms=sms, on=on, prior=prior, search=search, sources=sources)
        return tune(workload, trials=trials, dims=dims, on_trial=on_trial, **current)
    check_whole("trials", trials, 1)
    request = _Request(
        subject_of(workload, dims, sources),
        Goal.of(sms),
        trials,
        find_place(on),
        Prior.of(prior),
        search,
        on_trial,
    )
    with open_place(request.place, request.subject, request.goal, request.settings) as runner:
        return _search_and_compare(request, runner)


@dataclass(frozen=True)
class _Request:
    """What ``tune`` was asked for, each part checked."""

    subject: Subject
    goal: Goal
    trials: int
    place: Place
    prior: Prior
    settings: SearchSettings
    on_trial: Callable[[Trial], None] | None


@dataclass(frozen=True)
class _Source:
    """The kernels of a source, and what is known of them."""

    space: SearchSpace
    known: Knowledge


def _search_and_compare(request: _Request, runner: Runner) -> TuneResult:
    """Search with an open runner, and compare what was found with other choices."""
    subject, goal = request.subject, request.goal
    platforms, asked = goal.platforms(runner), subject.workload
    replayed = runner.known_latencies(asked) is not None
    names = subject.among(runner.sources(asked), replayed=replayed)
    spaces = {name: runner.space(asked, platforms, source=name) for name in names}
    prior = _open_prior(request, runner, platforms, replayed=replayed)
    is_only, is_staged = len(names) == 1, _per_trial(request, runner) > 1
    sources = {
        name: _Source(space, prior.known_of(space, is_only=is_only, is_staged=is_staged))
        for name, space in spaces.items()
    }
    samplers = [_make_sampler(request, runner, source) for source in sources.values()]
    first = _choose_first(request, prior, sources, platforms)
    searches = _run_searches(request, runner, samplers, first)
    found = {name: search.result for name, search in zip(names, searches, strict=True)}
    joined = SearchResult.joined(found) if len(found) > 1 else found[names[0]]
    most = goal.max_kernels(len(platforms))
    result = with_finalists_alone(runner, joined, most)
    ranges = result.portfolio(most)
    curves = _find_curves(request, runner, sources, result, ranges)
    free = None if goal.free_sms is None else result.free_sms(goal.free_sms)
    is_ours = not replayed and not isinstance(request.place, Runner)
    left_out = subject.left_out("cpu" if platforms[0].device.kind == "cpu" else "cuda") if is_ours else {}
    remarks = *runner.remarks, *first.remarks
    return TuneResult(result, ranges, most, free, curves, left_out, remarks, searches)


def _open_prior(
    request: _Request, runner: Runner, platforms: Sequence[Platform], *, replayed: bool
) -> PriorKnowledge:
    """Open what is known before the search: models, a history, and what the whole device ran."""
    asked, on = request.subject.workload, platforms[0].device
    history = open_history(request.prior, replayed_dataset(request.place), asked, on, replayed=replayed)
    on_whole = _on_whole(runner, asked, platforms)
    return PriorKnowledge(request.prior, asked, on, replayed, history, request.settings.seed, on_whole)


def _choose_first(
    request: _Request, prior: PriorKnowledge, sources: Mapping[str, _Source], platforms: Sequence[Platform]
) -> MeasuredFirst:
    """Choose what is measured before a model proposes anything; in a replay nothing is read or expected."""
    spaces = {name: source.space for name, source in sources.items()}
    known_best = prior.best_recorded(spaces.values(), platforms)
    on_whole = [each for source in sources.values() for each in _best_on_whole(request, source)]
    if prior.replayed:
        return MeasuredFirst(known_best, on_whole)
    asked, drawn = request.subject.workload, (request.trials, request.settings.seed)
    known = {name: source.known for name, source in sources.items()}
    read = read_first(source_to_read(request.subject.family, asked, known), asked, platforms, *drawn)
    return MeasuredFirst(known_best, on_whole, read, expect_first(spaces, asked, platforms, *drawn))


def _find_curves(
    request: _Request,
    runner: Runner,
    sources: Mapping[str, _Source],
    result: SearchResult,
    ranges: Sequence[BudgetRange],
) -> Sequence[BudgetCurve]:
    """Find latency over SM budgets in what was recorded or searched, or measure it if that is asked for."""
    asked, platforms = request.subject.workload, result.platforms
    recorded = runner.known_latencies(asked, sources=[*sources])
    if recorded is not None:
        library = None if _LIBRARY in sources else runner.known_latencies(asked, sources=[_LIBRARY])
        return recorded_curves(recorded, platforms[-1].device.sms, _find_choice(result, ranges), library)
    if len(platforms) > 1:
        return searched_curves(result, ranges)
    if request.settings.measure_curves:
        return _measure_curves(request, runner, sources[result.best.candidate.source], result)
    return []


def _make_sampler(request: _Request, runner: Runner, source: _Source) -> ModelSampler:
    """Make the sampler of one source.

    Where a model of compiled kernels is known, it chooses from shortlists that are compiled, as far as the
    runner can tell what became of them.
    """
    space, known = source.space, source.known
    sampler = _sampler(request, space, known)
    per_trial = _per_trial(request, runner)
    if known.compiled is None or per_trial <= 1:
        return sampler
    compiled = CompiledSpace(space, runner.machine_code)
    facts = {**known.facts, "compiled_model": known.compiled.facts["model"]}
    make = partial(StagedSampler, screener=sampler, trials=request.trials, per_trial=per_trial)
    with Progress("compiling", 1):
        staged = _sampler(request, compiled, replace(known.compiled, facts=facts), make)
    return staged if compiled.built else sampler


def _per_trial(request: _Request, runner: Runner) -> int:
    """How many candidates are compiled for each that is measured."""
    return request.settings.compiled_per_trial or compiled_per_trial(runner.in_flight, request.trials)


def _on_whole(runner: Runner, workload: Workload, platforms: Sequence[Platform]) -> list[Measurement]:
    """What was measured of a workload on the whole device before, alone, of a search for parts of it."""
    if all(each.sms_granted == each.device.sms for each in platforms):
        return []
    return [
        each
        for each in runner.recorded(workload)
        if each.platform.isolation == "whole" and each.visit == 0 and not each.co_runners
    ]


def _best_on_whole(request: _Request, source: _Source) -> list[Candidate]:
    """The best of what was measured on the whole device, as a model that is told of it expects them here.

    They take a quarter of all trials, and the search goes on by the model alone, which is not misled where
    those kernels are no good ones (experiments/sampled_pool).
    """
    told = source.known
    space = source.space.in_columns(told.columns)
    model = told.told_of_whole(space)
    if model is None:
        return []
    ran = [each.candidate for each in told.on_whole if each.outcome is Outcome.OK]
    by_config = {each.config.config_id: each for each in ran if space.holds(each)}
    order = _sampler(request, space, replace(told, model=model)).best_first(
        [each.config for each in by_config.values()]
    )
    return [by_config[config.config_id] for config in order[: max(1, request.trials // _ON_WHOLE)]]


def _sampler(
    request: _Request,
    space: SearchSpace,
    told: Knowledge,
    make: Callable[..., ModelSampler] = ModelSampler,
) -> ModelSampler:
    return make(
        space.in_columns(told.columns),
        told.model,
        objective=request.goal.objective_for(space.platforms),
        goal=request.goal.kind,
        knowledge=told.facts,
        screened=request.settings.screened,
        seed=request.settings.seed,
    )


def _run_searches(
    request: _Request, runner: Runner, samplers: Sequence[ModelSampler], first: MeasuredFirst
) -> tuple[Search, ...]:
    """Search in turn, with a progress bar, each in its study."""
    settings = request.settings

    def told(trial: Trial) -> None:
        progress.advance()
        if request.on_trial:
            request.on_trial(trial)

    def search_of(sampler: ModelSampler) -> Search:
        space, goal = sampler.space, f"{sampler.goal.name}-{sampler.objective.name}".lower()
        name = f"{settings.study_name}-{space.space_id}-{goal}"
        search = Search(
            runner,
            sampler,
            request.trials,
            study=open_study(settings.study, name, shared=settings.shares_study),
            first=first.configs_of(space),
            stop_gain=settings.stop_gain,
            on_trial=told,
        )
        search.ask_for([each.config for each in request.prior.first if space.holds(each)])
        return search

    budgets = ", ".join(str(platform.sms_granted) for platform in samplers[0].space.platforms)
    with quiet_optuna():
        searches = tuple(search_of(sampler) for sampler in samplers)
        progress = Progress(f"measuring on {budgets}", sum(each.left for each in searches))
        runner.tell_waits(progress.show)
        with progress, suppress(CannotGoOnError):  # a runner may end a search, which loses no trial
            tune_together(searches)
    return searches


def _find_choice(result: SearchResult, ranges: Sequence[BudgetRange]) -> Callable[[int], Candidate]:
    """The kernel that was chosen for so many SMs; the only one at every number, also where none is known."""
    only = {part.kernel for part in ranges}
    if len(only) == 1:
        return lambda _: result.trials[ranges[0].kernel].candidate
    return result.dispatch_table(ranges).kernel_for


def _measure_curves(
    request: _Request, runner: Runner, source: _Source, result: SearchResult
) -> list[BudgetCurve]:
    """Measure latency over SM budgets on the device.

    The whole-device choice is the kernel that the same search finds on the whole device.
    """
    (here,), whole = result.platforms, runner.platform()
    platforms = {whole.sms_granted: whole, here.sms_granted: here}
    for sms in _CURVE_BUDGETS:
        with suppress(CostModelError):  # a budget that cannot be granted here
            platform = runner.platform(sms)
            platforms.setdefault(platform.sms_granted, platform)
    settings = replace(request.settings, study=None)
    unkept = replace(request, goal=Goal(), settings=settings, on_trial=None)
    again = _make_sampler(unkept, runner, replace(source, space=source.space.on(whole)))
    (search,) = _run_searches(unkept, runner, [again], MeasuredFirst())
    chosen = {WHOLE_CHOICE: search.result.best.candidate, CHOSEN: result.best.candidate}
    return [measured_curve(runner, label, c, list(platforms.values())) for label, c in chosen.items()]
