"""A search of a program's design space in batches: an Optuna study whose sampler proposes by a model."""

from collections.abc import Sequence
from typing import Any

import optuna
from optuna.trial import TrialState
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import SpaceExhaustedError
from costmodel.integrations.tvm._database import latency_of
from costmodel.integrations.tvm._program import announce
from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Platform
from costmodel.search._drift_watch import DriftWatch
from costmodel.search._study import add_known, quiet_optuna
from costmodel.search.samplers._model import ModelSampler
from costmodel.search.spaces._kernel import KernelSpace


class ScheduledSpace(KernelSpace):
    """The space of an operator, whose configs schedule somebody's program of it.

    Args:
        space: Space of the operator.
        platform: Where the kernels would run.
        program: The program, as ``MetaKernelSpace.other_program`` gives it.
    """

    def __init__(self, space: Any, platform: Platform, program: Any) -> None:
        super().__init__(space, platform)
        self._program = program
        self._schedules: dict[str, Any] = {}

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config of which a schedule of the program comes.

        Raises:
            InvalidConfigError: None does.
        """
        if config.config_id not in self._schedules:
            self._schedules[config.config_id] = self._program.schedule(config)
        return Candidate(self.space.workload, self.space.name, config)

    def take_schedule(self, config: Config) -> Any:
        """The schedule of a candidate, which is forgotten."""
        self.candidate(config)
        return self._schedules.pop(config.config_id)


class BatchSearch:
    """A study in batches.

    Args:
        sampler: Proposes configs of a ``ScheduledSpace``.
        context: MetaSchedule's, of the program.
        trials: Candidates in all, but for those that are measured again.
        batch: Candidates at once.

    Attributes:
        trials_left: Candidates that are still to be asked for.
    """

    def __init__(self, sampler: ModelSampler, context: Any, trials: int, batch: int) -> None:
        self._space = sampler.space
        self.trials_left, self._batch, self._restored = trials, batch, 0
        self._arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
        self._task = str(context.task_name)
        with quiet_optuna():
            self._study = optuna.create_study(sampler=sampler)
        self._watch = DriftWatch(self._study, sampler.space)
        self._pending: list[optuna.Trial] = []
        self._repeated: list[int] = []

    def restore(self, space: Any, records: Sequence[Any]) -> int:
        """Take in records of earlier searches, the latest of each config; how many configs that were.

        Args:
            space: Space of the operator.
            records: Of the program, MetaSchedule's.
        """
        known: dict[str, tuple[Config, float]] = {}
        for record in records:
            config = space.config_like(record.trace)
            if config is not None:
                known[config.config_id] = config, latency_of(record.run_secs)
        for config, latency_s in known.values():
            add_known(self._study, self._space, config, latency_s)
        self._restored = len(known)
        return self._restored

    def ask(self) -> list[Any] | None:
        """Candidates of MetaSchedule; None where no trial, or no config of a small space, is left."""
        self._pending = []
        try:
            for _ in range(min(self._batch, self.trials_left)):
                self._pending.append(self._study.ask())
        except SpaceExhaustedError:
            self.trials_left = len(self._pending)
        assert isinstance(self._space, ScheduledSpace)
        configs = [self._space.suggest(trial) for trial in self._pending]
        again = self._watch.to_repeat() if configs else {}
        self._repeated = list(again)
        schedules = [self._space.take_schedule(config) for config in (*configs, *again.values())]
        self.trials_left -= len(self._pending)
        return [ms.MeasureCandidate(schedule, self._arguments) for schedule in schedules] or None

    def tell(self, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Take in the results of the candidates that were asked for."""
        latencies_s = [latency_of(result.run_secs) for result in results]
        asked, told = len(self._pending), len(self._watch.drifts)
        for trial, latency_s in zip(self._pending, latencies_s[:asked], strict=True):
            failed = latency_s == float("inf")
            self._study.tell(trial, None if failed else latency_s, state=TrialState.FAIL if failed else None)
            self._watch.told(trial.number)
        for number, latency_s in zip(self._repeated, latencies_s[asked:], strict=True):
            self._watch.repeated(number, latency_s)
        for drift in self._watch.drifts[told:]:
            since = drift.since - self._restored
            what = f"measured times drift by x{drift.ratio:.2f} from candidate {since} of this search on"
            announce(self._task, f"saw {what}: earlier ones are multiplied by that")
        self._pending, self._repeated = [], []

    def close(self) -> None:
        """End the search, which holds nothing open."""
