"""MetaSchedule's search strategy: a search by the model, or stock's evolution where there is none."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.integrations.tvm._model_file import AnyModel, open_model
from costmodel.integrations.tvm._platform import drop_host, platform_for, refuse_other_sms, target_json
from costmodel.integrations.tvm._program import TunedProgram, announce, program_key
from costmodel.integrations.tvm._search import BatchSearch, ScheduledSpace
from costmodel.records._platform import Platform
from costmodel.search.samplers._model import ModelSampler


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
    ) -> None:
        super().__init__()
        refuse_other_sms(sms, platform)
        self._pretrained, _ = open_model(model)
        self._sms, self._platform = sms, platform
        self._found = platform
        self._screened, self._seed, self._batch = screened, seed, batch
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
        sampler = ModelSampler(
            ScheduledSpace(space, self._found, same),
            self._pretrained.model if self._pretrained else None,
            screened=self._screened,
            seed=self._seed,
        )
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
