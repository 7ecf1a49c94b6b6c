"""Helion's search algorithm: an Optuna study, with a model and what a record store knows."""

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import helion
import numpy as np
import optuna
from helion.autotuner.base_search import BaseSearch
from helion.autotuner.benchmark_provider import LocalBenchmarkProvider
from helion.exc import NoConfigFound
from optuna.trial import TrialState

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError, SpaceExhaustedError
from costmodel.integrations.helion._reading import expected_log_s
from costmodel.integrations.helion._records import (
    drop_repeated,
    find_fastest,
    helion_timings,
    make_helion_question,
    measurements_of,
    stay_on_stream,
)
from costmodel.integrations.helion._space import HelionSpace
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._shortlist import rank_by_neighbours
from costmodel.integrations.triton._timings import KernelTimings, open_store
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.search._study import add_known, quiet_optuna
from costmodel.search.samplers._model import ModelSampler
from costmodel.transfer.models._residual import FromScratch
from costmodel.tuning._knowledge import Knowledge, from_model

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model


# Shares of the shortlist: a model that ranks all configs is left most of it.
_WITH_MODEL, _WITHOUT = 1 / 3, 1 / 2
# Configs at random that are read for each that is measured, and at most: a fifth of a second each.
_READ, _MOST_READ = 2, 64
# Tells what is expected of configs, higher is better; None where nothing tells.
Scores = Callable[[Sequence[Config]], FloatArray | None]
# Configs to score for each that is measured, and at most, as the sampler draws anew after 16: Helion makes 64
# in a sixteenth of a second, and compiles and times one in about half a second.
_SCORED, _MOST_SCORED = 64, 1_000


def choose_beginning(
    starts: Sequence[Config],
    carried: Sequence[Config],
    drawn: Sequence[Config],
    count: int,
    scores: "Scores",
) -> list[Config]:
    """Choose among configs that Helion's own searches begin with, those that did best elsewhere, and others.

    The first of the former two are measured whatever is expected of them: what it follows from may be unlike
    what is asked. The others follow by what is expected of them, or take turns where nothing is.

    Args:
        starts: Helion's, that which it runs untuned first.
        carried: From other sizes, SMs and devices, best first.
        drawn: At random.
        count: Configs to choose.
        scores: Tells ``(n,)`` what is expected of configs, higher is better; None where nothing tells.
    """
    first = drop_repeated([*starts[:1], *carried[:1]])
    turns = [*chain.from_iterable(zip_longest(starts[1:], carried[1:])), *drawn]
    others = [each for each in drop_repeated(turns) if each not in first]
    told = scores(others) if others else None
    if told is not None:
        others = [others[i] for i in (-told).argsort(kind="stable")]
    return [*first, *others][:count]


class CostModelSearch(BaseSearch):  # type: ignore[misc]
    """A search for ``@helion.kernel(autotuner_fn=...)``; see ``costmodel_autotuner``, which makes it.

    Args:
        kernel: The bound kernel.
        args: Its arguments.
        store: See ``costmodel_autotuner``.
        model: See ``costmodel_autotuner``.
        shortlist: See ``costmodel_autotuner``.
        batch: See ``costmodel_autotuner``.
        platform: See ``costmodel_autotuner``.
        seed: See ``costmodel_autotuner``.
        screened: Number of random configs that are scored at once; Helion makes about a thousand per second.
            Default: 64 per config of the shortlist, at most 1,000.
        benchmark_provider_cls: Measures configs. Default: Helion's own provider.

    Raises:
        CostModelError: If a setting is out of range, or the model or the store cannot be read.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        kernel: Any,
        args: Sequence[object],
        *,
        store: Path | str | None = None,
        model: "Model | Path | str | None" = None,
        shortlist: int = 32,
        batch: int = 4,
        platform: Platform | Callable[[], Platform] | None = None,
        seed: int = 0,
        screened: int | None = None,
        benchmark_provider_cls: Callable[..., Any] = LocalBenchmarkProvider,
    ) -> None:
        super().__init__(kernel, args, benchmark_provider_cls=benchmark_provider_cls)
        if shortlist < 1 or batch < 1:
            raise CostModelError(f"shortlist and batch must be at least 1, but got {shortlist} and {batch}.")
        self._store = open_store(store)
        self._shortlist, self._batch = shortlist, batch
        self._seed = seed
        self._screened = screened or min(_SCORED * shortlist, _MOST_SCORED)
        self._platform = platform() if callable(platform) else platform or current_platform()
        stay_on_stream(self, self._platform)
        self._asked = make_helion_question(kernel, args)
        self._knowledge = _knowledge(model, self._asked.family)

    def autotune(self, *, skip_cache: bool = False) -> helion.Config:
        """Return the best config: from the store if it has enough timings, else after timing.

        Of processes that share the store one times; the others take over what it finds.

        Args:
            skip_cache: Whether to time again, as ``kernel.autotune(args)`` requests, but a call of a kernel
                does not.

        Raises:
            NoConfigFound: If no config runs. If Helion knows the reason, its error is raised instead.
        """
        timings = self._timings()
        is_alone = skip_cache or self.kernel.env.process_group_name is not None  # its ranks time together
        with nullcontext() if is_alone else timings.turn(lambda: self._is_known(timings), waits=True):
            if not skip_cache and self._is_known(timings) and (best := find_fastest(timings)) is not None:
                space = self._space()
                found = space.recall(best.candidate.config)
                if found is not None:
                    return space.helion_config(found)
            return super().autotune(skip_cache=skip_cache)

    def _is_known(self, timings: KernelTimings) -> bool:
        """Whether enough was timed, by whatever process."""
        return len(timings.known) >= self._shortlist and find_fastest(timings) is not None

    def _autotune(self) -> helion.Config:
        space = self._space()
        timings = self._timings(anew=self._skip_cache)
        with suppress(SpaceExhaustedError), quiet_optuna():
            study = self._study(space, timings)
            while len(timings.known) < self._shortlist and not self._autotune_budget_exceeded():
                self._measure(study, space, timings)
        best = find_fastest(timings)
        found = None if best is None else space.recall(best.candidate.config)
        if found is None:
            raise self.benchmark_provider.take_no_viable_config_error() or NoConfigFound()
        return space.helion_config(found)

    def _timings(self, *, anew: bool = False) -> KernelTimings:
        return helion_timings(self._store, self._asked, self._platform, anew=anew)

    def _measure(self, study: optuna.Study, space: HelionSpace, timings: KernelTimings) -> None:
        """Measure a batch, keep it, and let the sampler learn from it."""
        trials = [study.ask() for _ in range(min(self._batch, self._shortlist - len(timings.known)))]
        configs = [space.suggest(trial) for trial in trials]
        results = self.benchmark_batch(
            [space.helion_config(config) for config in configs], raise_if_no_viable_config=False
        )
        told = measurements_of(timings, self._candidates(configs), results, self._autotune_budget_exceeded())
        for trial, measured in zip(trials, told, strict=True):
            if measured is None:
                study.tell(trial, state=TrialState.FAIL)
                continue
            timings.keep([measured])
            study.tell(trial, **_told(measured))

    def _study(self, space: HelionSpace, timings: KernelTimings) -> optuna.Study:
        """Return a study that knows what was timed, and begins with what is known without a model."""
        known = self._knowledge
        model = known.model or FromScratch().scaled_by(space.typical[:, 0])
        sampler = ModelSampler(space, model, knowledge=known.facts, seed=self._seed)
        study = optuna.create_study(sampler=sampler)
        tried = set()
        for measured in timings.known.values():
            config = space.recall(measured.candidate.config)
            if config is not None:
                tried.add(config.config_id)
                ran = measured.outcome is Outcome.OK
                add_known(study, space, config, measured.latency_s if ran else math.inf)
        first = [each for each in self._first(space, timings) if each.config_id not in tried]
        for config in first[: max(0, self._shortlist - len(timings.known))]:
            study.enqueue_trial(space.params(config))
        return study

    def _first(self, space: HelionSpace, timings: KernelTimings) -> list[Config]:
        """Configs to measure before any other: those that the user names, then see ``choose_beginning``."""
        named = _passed(space, [space.repaired(config) for config in self._autotune_seed_configs()])
        starts, carried = _passed(space, space.starts), _passed(space, self._carried(space, timings))
        model = self._knowledge.model
        if model is not None:

            def told(configs: Sequence[Config]) -> FloatArray:
                return model.predict(space.features(configs)[:, 0]).score

            chosen = choose_beginning(starts, carried, [], self._share(_WITH_MODEL), told)
        else:
            drawn = space.draw(min(_READ * self._shortlist, _MOST_READ), np.random.default_rng(self._seed))
            others, read = _passed(space, drawn.configs), partial(self._read, space)
            chosen = choose_beginning(starts, carried, others, self._share(_WITHOUT), read)
        return drop_repeated([*named, *chosen])

    def _share(self, share: float) -> int:
        return max(1, round(share * self._shortlist))

    def _read(self, space: HelionSpace, configs: Sequence[Config]) -> FloatArray | None:
        """Tell what is expected of configs by what is read of them, those that cannot be read last."""
        if self._platform.device.kind != "cuda":
            return None
        found = [space.helion_config(each) for each in configs]
        log_s = expected_log_s(self.kernel, self.args, found, self._platform)
        return None if np.isnan(log_s).all() else np.where(np.isnan(log_s), -np.inf, -log_s)

    def _carried(self, space: HelionSpace, timings: KernelTimings) -> list[Config | None]:
        """Return configs that did best elsewhere, best first: as many as are measured at most."""
        measured = timings.elsewhere
        ran = drop_repeated(each.candidate.config for each in measured if each.outcome is Outcome.OK)
        candidates = self._candidates(ran)
        order = rank_by_neighbours(candidates, self._platform, measured) if candidates else []
        return [space.recall(candidates[i].config) for i in order[: self._shortlist]]

    def _candidates(self, configs: Sequence[Config]) -> list[Candidate]:
        return [Candidate(self._asked.workload, self._asked.space, config) for config in configs]

    def _space(self) -> HelionSpace:
        generation = self.config_spec.create_config_generation(
            overrides=self.settings.autotune_config_overrides or None,
            advanced_controls_files=self.settings.autotune_search_acf or None,
            process_group_name=self.kernel.env.process_group_name,
        )
        return HelionSpace(
            self._asked,
            generation,
            self._platform,
            config_filter=self.settings.autotune_config_filter,
            columns=self._knowledge.columns,
            most_drawn=self._screened,
        )


def costmodel_autotuner(  # noqa: PLR0913 (settings, all with defaults)
    *,
    store: Path | str | None = None,
    model: "Model | Path | str | None" = None,
    shortlist: int = 32,
    batch: int = 4,
    platform: Platform | Callable[[], Platform] | None = None,
    seed: int = 0,
) -> Callable[..., CostModelSearch]:
    """Make a search for ``@helion.kernel(autotuner_fn=...)`` that uses a model and a store.

    It proposes configs of Helion's own space as ``costmodel tune`` does (``costmodel.search.ModelSampler``),
    and Helion compiles, checks and times them. Timings are written to a record store at once, which replaces
    Helion's cache: another process with the same kernel and the same number of SMs gets an answer without
    timing, a killed search continues, and searches for other sizes, SMs and devices begin with the best
    configs found here.

    Args:
        store: Path of the store, ``.jsonl``. Default: that of ``costmodel.integrations.triton``.
        model: A model that learned from this kernel (such as from a store), or its file. It ranks configs
            that were never timed.
        shortlist: Maximum number of configs to time.
        batch: Number of configs that Helion compiles at once. A process that is killed loses at most one
            batch.
        platform: Platform that kernels run on, or a function that returns it, if it cannot be detected.
            Default: see ``costmodel.integrations.triton.current_platform``.
        seed: Seed of all random choices.

    Returns:
        A function that Helion calls with a bound kernel and its arguments.

    Example:
        >>> @helion.kernel(autotuner_fn=costmodel_autotuner(shortlist=32))
        ... def matmul(x, y): ...  # doctest: +SKIP
    """

    def make(kernel: Any, args: Sequence[object], **_: object) -> CostModelSearch:
        return CostModelSearch(
            kernel,
            args,
            store=store,
            model=model,
            shortlist=shortlist,
            batch=batch,
            platform=platform,
            seed=seed,
        )

    return make


def _passed(space: HelionSpace, configs: Sequence[Config | None]) -> list[Config]:
    """Return configs as the filter lets them through, each once."""
    passed = []
    for config in configs:
        with suppress(InvalidConfigError):
            if config is not None:
                passed.append(space.candidate(config).config)
    return drop_repeated(passed)


def _knowledge(model: "Model | Path | str | None", family: str) -> Knowledge:
    """Tell what a model knows of a kernel; nothing, with a warning, where it never saw it."""
    if model is None:
        return Knowledge()
    found = from_model(model, family, None)
    if found.model is None:
        warnings.warn(
            f"The model must have learned from {family} to rank its configs, but has not. The search starts "
            "with what is read of them. Train a model on a store that has this kernel.",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def _told(measured: Measurement) -> dict[str, Any]:
    """Tell what a study is told of a measurement."""
    ran = measured.outcome is Outcome.OK
    return {"values": measured.latency_s} if ran else {"state": TrialState.FAIL}
