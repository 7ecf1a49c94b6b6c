"""MetaSchedule's search strategy: a search by the model, or stock's evolution where there is none."""

from collections.abc import Callable, Sequence
from typing import Any

import optuna
from optuna.trial import TrialState
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError, SpaceExhaustedError
from costmodel.failures import last_line
from costmodel.integrations.tvm._compiled_stage import CompiledStage
from costmodel.integrations.tvm._database import latency_of
from costmodel.integrations.tvm._model_file import AnyModel, open_model
from costmodel.integrations.tvm._program import (
    ScheduledSpace,
    TunedProgram,
    announce,
    drop_host,
    platform_for,
    program_key,
    refuse_other_sms,
    target_json,
)
from costmodel.records._candidate import Config
from costmodel.records._platform import Platform
from costmodel.search._drift_watch import DriftWatch
from costmodel.search._study import add_known, quiet_optuna
from costmodel.search.samplers._model import ModelSampler


class BatchSearch:
    """A study in batches.

    Args:
        sampler: Proposes configs of a ``ScheduledSpace``, or of what was compiled of one.
        context: MetaSchedule's, of the program.
        trials: Candidates in all, but for those that are measured again.
        batch: Candidates at once.

    Attributes:
        trials_left: Candidates that are still to be asked for.
    """

    def __init__(self, sampler: ModelSampler, context: Any, trials: int, batch: int) -> None:
        self._space = sampler.space.whole
        self.trials_left, self._batch, self._restored = trials, batch, 0
        self._arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
        self._task = str(context.task_name)
        with quiet_optuna():
            self._study = optuna.create_study(sampler=sampler)
        self._watch = DriftWatch(self._study, self._space)
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


@derived_object
class SearchStrategy(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]
    """A search strategy for every entry point of MetaSchedule that takes ``strategy=``.

    A search goes on from the records that the database has of the program and target, failures included: it
    learns from them and proposes none again. ``Database`` shows those of its SM budget alone; one of stock
    does not tell SM budgets apart.

    A model scores tens of thousands of configs without lowering any, and only what is proposed is lowered
    (``costmodel.search.ModelSampler``); stock's evolution lowers thousands. Each batch is learned from before
    the next. For twenty candidates there is one that was measured before, beside the trials asked for: that
    tells when all measured times drifted (``costmodel.search.DriftWatch``). A program that cannot be read, or
    is scheduled by rules of one's own alone, is left to stock's evolution, guided by the cost model; so is
    one whose search fails, for the trials that are left. No program ends the tuning of the others.

    Args:
        model: A pretrained transfer model, the file of one, or ``"default"`` for that of what ships
            (``costmodel.tuning.pretrain``); learns from nothing without.
        sms: SMs that the kernels will have, threads on a CPU; all unless given. Not beside ``platform``.
        platform: Where the kernels will run; this machine's device with ``sms`` SMs unless given.
        screened: Configs that the model scores at first, and again after every 16 measurements.
        seed: Seed of all random choices.
        batch: Most candidates that it proposes at once, however many MetaSchedule asks for: it learns from
            each batch before the next. As many as MetaSchedule asks for (64 unless told) unless given.
        stage: Has shortlists compiled and chooses from them by their machine code, in a search with a model
            (``tuning_options`` makes one); without it, decisions choose.

    Raises:
        CostModelError: SMs are given beside a platform with others, or the file is no model.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        model: AnyModel | None = None,
        *,
        sms: int | None = None,
        platform: Platform | None = None,
        screened: int = 20_000,
        seed: int = 0,
        batch: int | None = None,
        stage: CompiledStage | None = None,
    ) -> None:
        super().__init__()
        refuse_other_sms(sms, platform)
        self._pretrained, _ = open_model(model)
        self._sms, self._platform = sms, platform
        self._found = platform
        self._screened, self._seed, self._batch, self._stage = screened, seed, batch, stage
        self._context: Any = None
        self._ways: list[tuple[str, Callable[[int], BatchSearch | _Evolution]]] = []
        self._way = ""
        self._search: BatchSearch | _Evolution | None = None

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search of so many trials, in batches; what the database knows does not count as trials."""
        context, batch = self._context, num_trials_per_iter
        program = TunedProgram(context.mod, context.target)
        announce(self._task, program.verdict)

        def evolve(trials: int) -> _Evolution:
            return _Evolution(context, trials, batch, design_spaces, database, cost_model)

        def screen(trials: int) -> BatchSearch:
            most = min(batch, self._batch or batch)
            return self._screen(program.space, trials, most, design_spaces, database)

        self._ways = [("TVM's evolution", evolve)]
        if program.space:
            self._found = self._found or platform_for(context.target, self._sms)
            self._ways.insert(0, ("the model's search", screen))
        self._open_next(max_trials)

    def post_tuning(self) -> None:
        """End the search."""
        if self._search:
            self._search.close()
        self._search = None

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch; None once all trials were made."""
        while self._search:
            try:
                return self._search.ask()
            except Exception as error:  # noqa: BLE001 (a tuning meets any program; TVM raises its own error types)
                self._give_up(error)
        return None

    def notify_runner_results(self, measure_candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn the results of a batch."""
        if self._search:
            try:
                self._search.tell(measure_candidates, results)
            except Exception as error:  # noqa: BLE001 (as above)
                self._give_up(error)

    def clone(self) -> Any:
        """A strategy with the same settings that has not begun."""
        other = SearchStrategy(
            self._pretrained,
            sms=self._sms,
            platform=self._platform,
            screened=self._screened,
            seed=self._seed,
            batch=self._batch,
            stage=self._stage,
        )
        other._found = self._found
        return other

    @property
    def _task(self) -> str:
        return str(self._context.task_name)

    def _open_next(self, trials: int) -> None:
        """Begin the first search of those left that the program allows."""
        self._search = None
        while self._ways and not self._search:
            name, open_search = self._ways.pop(0)
            try:
                self._search = open_search(trials)
            except Exception as error:  # noqa: BLE001 (as above)
                self._report(name, error)
            self._way = name

    def _give_up(self, error: Exception) -> None:
        """Leave the trials that are left to the next way of searching."""
        assert self._search
        self._report(self._way, error)
        self._open_next(self._search.trials_left)

    def _report(self, way: str, error: Exception) -> None:
        follows = f"{self._ways[0][0]} proposes" if self._ways else "it is left as it is"
        announce(self._task, f"cannot be tuned by {way} ({last_line(error)}): {follows}")

    def _screen(
        self, space: Any, trials: int, batch: int, design_spaces: Sequence[Any], database: Any
    ) -> BatchSearch:
        """A search of the program's space by the model.

        Raises:
            CostModelError: The rules of the tuning give none of the space's sketches.
        """
        context = self._context
        assert self._found
        same = space.other_program(context, design_spaces)
        if not same:
            raise CostModelError("its rules give none of the sketches that the model screens")
        scheduled = ScheduledSpace(space, self._found, same)
        model = self._pretrained.model if self._pretrained else None
        settings: dict[str, Any] = {"screened": self._screened, "seed": self._seed}
        sampler = ModelSampler(scheduled, model, **settings)
        if self._stage and model:
            sampler = self._stage.add_to(sampler, context.target, trials, **settings)
        search = BatchSearch(sampler, context, trials, batch)
        records = _records_of(context, database) if database is not None else []
        if known := search.restore(space, records):
            announce(self._task, f"goes on from {known} kernels that the database knows")
        return search


class _Evolution:
    """Stock's search of a program.

    Attributes:
        trials_left: Trials that another search could make in its place: it does not tell.
    """

    trials_left = 0

    def __init__(self, context: Any, *arguments: Any) -> None:
        self._stock = ms.search_strategy.EvolutionarySearch()
        self._stock._initialize_with_tune_context(context)
        self._stock.pre_tuning(*arguments)

    def ask(self) -> list[Any] | None:
        """Candidates of MetaSchedule; None once there are no more."""
        batch: list[Any] | None = self._stock.generate_measure_candidates()
        return batch

    def tell(self, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Take in the results of candidates that were asked for."""
        self._stock.notify_runner_results(candidates, results)

    def close(self) -> None:
        """End the search."""
        self._stock.post_tuning()


def _records_of(context: Any, database: Any) -> list[Any]:
    """The records of a context's program for its target, in the order in which they came."""
    program, device = program_key(context.mod), drop_host(target_json(context.target))
    workload = database.commit_workload(context.mod)

    def is_own(record: Any) -> bool:
        same = record.workload.same_as(workload) or program_key(record.workload.mod) == program
        return same and drop_host(target_json(record.target)) == device

    return [record for record in database.get_all_tuning_records() if is_own(record)]
