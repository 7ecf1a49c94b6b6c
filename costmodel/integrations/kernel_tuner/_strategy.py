"""Kernel Tuner's search strategy: an Optuna study, with a model of what other GPUs measured."""

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
from kernel_tuner.strategies.common import CostFunc, get_options
from kernel_tuner.util import StopCriterionReached
from optuna.trial import TrialState

from costmodel.dataset.importers._kernel_tuner_entries import TunedKernel, read_entry
from costmodel.errors import CostModelError, SpaceExhaustedError
from costmodel.integrations.kernel_tuner._knowledge import (
    KnowledgeSource,
    allowed_configs,
    gather_knowledge,
    list_sources,
    tuned_kernel,
)
from costmodel.integrations.kernel_tuner._space import LISTED_PLACE, ListedSpace
from costmodel.printable import make_printable
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Device
from costmodel.records._store import SharedRecordStore
from costmodel.search._study import quiet_optuna
from costmodel.search.samplers._model import ModelSampler

_PER_SECOND = 1e3  # Kernel Tuner tells milliseconds


class CostModelStrategy:
    """Strategy for ``tune_kernel(strategy=...)`` that learns from measurements on other devices.

    It proposes configs as ``costmodel tune`` does (``costmodel.search.ModelSampler``): first those that the
    model ranks best, then, after each measurement, those that the adapted model ranks best. Without anything
    to learn from, it fills the space and learns from its own measurements only. It measures only configs that
    meet the restrictions, each once. A config that fails is learned from as a failure.

    The contents of the session's cache file are read first, in order, and count as evaluations, as Kernel
    Tuner counts them. An interrupted session therefore continues as if it had not been interrupted.

    The kernel runs on the part of the device given by ``cuda_sm_percentage`` among ``tune_params``.
    Measurements on other parts are learned from as such. The objective is one positive number. Objectives
    other than time are searched in the same way, but what is known from other devices is about times.

    Args:
        learn_from: One or several of: Kernel Tuner cache files or T4 files of this kernel on other devices,
            and datasets or their names. Or one trained model or its file, alone.
        sms: Number of SMs available to the kernel. If ``cuda_sm_percentage`` is tuned, only configs with this
            number are measured; otherwise the SMs are restricted by other means, such as MPS. Default: all.
        device: The device or its name. Needed if the table of devices does not know Kernel Tuner's name for
            it.
        learner: Learner that is fitted to measurements; see ``costmodel.transfer.make_model``. Default:
            ``source-mixture``.
        seed: Seed of all random choices. Default: the seed of ``tune_kernel``, or 0.
        keep_twins_apart: In simulation mode, also learn this kernel from near-twins of the device.
            Measurements of this device itself are left out there, because they are what the search has to
            find.
        store: Record store that keeps every measurement as it is made, for others to learn from: a ``.jsonl``
            or ``.db`` file, or the URL of a database. Simulations are not kept.

    Raises:
        CostModelError: If a model is given together with other sources.

    Example:
        >>> strategy = CostModelStrategy(learn_from=["A4000.json", "A6000.json"], sms=32)  # doctest: +SKIP
        >>> tune_kernel(..., strategy=strategy, strategy_options={"max_fevals": 50})  # doctest: +SKIP
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        learn_from: KnowledgeSource | Sequence[KnowledgeSource] = (),
        *,
        sms: int | None = None,
        device: Device | str | None = None,
        learner: str | None = None,
        seed: int | None = None,
        keep_twins_apart: bool = False,
        store: Path | str | None = None,
    ) -> None:
        self.store = None if store is None else SharedRecordStore(store)
        self.learn_from = list_sources(learn_from)
        self.sms = sms
        self.device = device
        self.learner = learner
        self.seed = seed
        self.keep_twins_apart = keep_twins_apart

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """Run the search. Called by Kernel Tuner.

        Returns:
            Results of all evaluations, as Kernel Tuner's strategies return them.

        Raises:
            CostModelError: If a source cannot be read, the SMs cannot be granted, or there are several
                objectives.
            ValueError: If an option is not one of Kernel Tuner's ``max_fevals`` and ``time_limit``.
        """
        get_options(tuning_options.strategy_options, {}, unsupported=["x0"])
        if len(tuning_options.objective) > 1:
            raise CostModelError(
                f"There must be one objective, but got {', '.join(tuning_options.objective)}. Name one."
            )
        sampler = self.sampler(searchspace, runner, tuning_options)
        if tuning_options.verbose:
            print(make_printable(f"costmodel learned from {self._told(sampler, tuning_options)}"))
        cost = CostFunc(searchspace, tuning_options, runner, snap=False)
        space = sampler.space
        assert isinstance(space, ListedSpace)

        def keep() -> None:
            if self.store and not tuning_options.simulation_mode:
                self.store.add(_newest(space.kernel, cost.results))

        with suppress(StopCriterionReached, SpaceExhaustedError), quiet_optuna():
            study = optuna.create_study(sampler=sampler)
            for place in _measured_before(space, tuning_options):
                study.enqueue_trial({LISTED_PLACE: place})
            while True:
                trial = study.ask()
                latency_s = _evaluate(
                    cost, space.configs[trial.suggest_int(LISTED_PLACE, 0, len(space.configs) - 1)]
                )
                study.tell(trial, latency_s, state=TrialState.FAIL if latency_s is None else None)
                keep()
        keep()  # the result with which the evaluations were used up
        return list(cost.results)

    def _told(self, sampler: ModelSampler, tuning_options: Any) -> str:
        """Say what is learned from, and why that is nothing where sources were given."""
        known = sampler.knowledge
        if self.learn_from and tuning_options.simulation_mode and known["model"] == "scratch":
            return "nothing: a simulation leaves out this device and its near-twins"
        return known["trained_on"].replace("this one", "this kernel").removesuffix(" of in memory")

    def sampler(self, searchspace: Any, runner: Any, tuning_options: Any) -> ModelSampler:
        """Return the sampler that proposes the configs of a session, before any measurement."""
        seed = self.seed if self.seed is not None else tuning_options.seed or 0
        kernel = tuned_kernel(runner, tuning_options, self.device, self.sms)
        learned = gather_knowledge(
            self.learn_from,
            kernel,
            learner=self.learner,
            seed=seed,
            simulated=bool(tuning_options.simulation_mode),
            keep_twins_apart=self.keep_twins_apart,
        )
        configs = allowed_configs(kernel, searchspace.list, self.sms)
        space = ListedSpace(kernel, configs, learned.columns)
        return ModelSampler(space, learned.model, knowledge=learned.facts, seed=seed)


def _newest(kernel: TunedKernel, results: Sequence[Any]) -> list[Measurement]:
    """The last result as it is stored; none of an objective that is no time."""
    if not results or "time" not in results[-1]:
        return []
    entry = {"timestamp": datetime.now(UTC).isoformat(), **results[-1]}
    return [read_entry(kernel, ",".join(str(entry[name]) for name in kernel.parameters), entry)]


def _measured_before(space: ListedSpace, tuning_options: Any) -> list[int]:
    """Places of the configs that the cache file of the session holds, in its order; none of a simulation."""
    if tuning_options.simulation_mode or not tuning_options.cache:
        return []
    places = {",".join(map(str, values)): place for place, values in enumerate(space.configs)}
    return [places[key] for key in tuning_options.cache if key in places]


def _evaluate(cost: CostFunc, values: tuple[Any, ...]) -> float | None:
    """Tell what a config costs, as seconds where the objective is a time; None where it fails.

    Raises:
        StopCriterionReached: The evaluations or the time are used up.
        CostModelError: The objective is no positive number.
    """
    told: float = cost.eval(values, check_restrictions=False)
    if "__error__" in cost.results[-1]:
        return None
    value = abs(told)
    if told != (-value if cost.objective_higher_is_better[0] else value) or not 0 < value < math.inf:
        raise CostModelError(
            f"The objective {cost.objective[0]} must be positive, but got {told} of {values}. Choose another."
        )
    return 1.0 / value if cost.objective_higher_is_better[0] else value / _PER_SECOND
