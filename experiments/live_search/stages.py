"""Search at equal time with and without the stage of compiled kernels, and with TVM's tuner. See README.md.

All searches of a GPU run in this process, one after another, with builders that have begun before the clock
starts. What each had found when is measured again side by side.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from report import best_at, geometric, noise
from results import TRACE, Found, Results, Row
from searches import BATCH, BUILD_TIMEOUT_S, EARLY_WARM_UP, Case, Log, design_rules
from side_by_side import latencies_of

import costmodel
from costmodel.collector._builders import start_build_workers
from costmodel.collector.runners._base import CannotGoOnError
from costmodel.collector.runners._device_runner import DeviceRunner
from costmodel.collector.runners._devices import CpuRunner, CudaRunner
from costmodel.files import write_json
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Workload
from costmodel.search import Trial
from costmodel.transfer import load_model
from costmodel.tuning import Prior, SearchSettings

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded, say
from options import parse_options

STAGED, PLAIN, STOCK = "4 compiled for each measured", "decisions alone", "MetaSchedule, early model"
SEARCHES = (STAGED, PLAIN, STOCK)
PER_TRIAL = {STAGED: 4, PLAIN: 1}
ENDLESS = 4096  # trials that no search makes in its time
MARK_S = 5.0  # what a search had found is measured again at every so many seconds
COMPARING_S = 12.0  # kept for that, of each case, with the builds that a search leaves behind


def main(argv: Sequence[str] | None = None) -> None:
    """Search and compare case by case while there is time, or print what the files of several runs hold."""
    args = parse(argv)
    if args.found:
        rows = [row for file in args.found for row in json.loads(file.read_text())]
    else:
        rows = search_all(args)
    if args.json:
        write_json(args.json, rounded(rows, 9))
    print(as_markdown(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--found", type=Path, nargs="+", help="print what --json of earlier runs wrote")
    parser.add_argument("--out", type=Path, help="JSON, kept as it goes, with the kernels")
    parser.add_argument("--json", type=Path, help="what was compared")
    parser.add_argument("--models", type=Path, help="folder of the models that `costmodel train` makes")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--workload", action="append", help="name; again for more")
    parser.add_argument("--sms", type=int, action="append", help="0: all; again for more")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--search", action="append", choices=SEARCHES, help="again for more")
    parser.add_argument("--shard", help="I/N: each Nth case from I on")
    parser.add_argument("--least", type=float, help="s that a search has at least: fewer cases if need be")
    parser.add_argument("--most", type=float, help="s that a search has at most")
    parser.add_argument("--time-limit", type=float, help="s in which all ends")
    parser.add_argument("--population", type=int, help="of stock's evolution")
    parser.add_argument("--generations", type=int, help="of stock's evolution")
    return parse_options(parser, __file__, argv)


def search_all(args: argparse.Namespace) -> list[Row]:
    """Make all searches of all cases that there is time for; each case turns their order by one."""
    end = time.monotonic() + args.time_limit
    index, shards = map(int, args.shard.split("/"))
    cases = [Case(name, sms, seed) for seed, sms, name in product(args.seed, args.sms, args.workload)]
    cases, count = cases[index::shards], len(args.search)
    results = Results(args.out)
    with bench(args) as searched:
        left_s = end - time.monotonic()
        seconds = seconds_of_each(left_s, len(cases), count, args.least, args.most)
        say(f"{len(cases)} cases, {seconds:.0f} s a search; {left_s:.0f} s are left")
        for turn, case in enumerate(cases):
            if time.monotonic() + count * seconds + COMPARING_S > end:
                say(f"{case.workload} on {case.sms or 'all'} SMs: no time left")
                break
            first = turn % count
            for name in (*args.search[first:], *args.search[:first]):
                found = searched.search(name, case, seconds)
                results.add(case, name, found)
                say(f"{case.workload} on {case.sms or 'all'}: {name}: {found['measured']} trials")
            results.judge(
                case.workload, case.sms, searched.latencies(case, results.steps(case.workload, case.sms))
            )
    return results.judged()


def seconds_of_each(left_s: float, cases: int, searches: int, least_s: float, most_s: float) -> float:
    """Seconds that each search has, where all cases have as long."""
    return min(most_s, max(least_s, (left_s / cases - COMPARING_S) / searches))


class Bench:
    """What all searches share: builders that have begun, a device, and models.

    Args:
        args: Options.
        runner: Measures for ``tune``.
        settle: Waits until builders have nothing left to do.
    """

    def __init__(self, args: argparse.Namespace, runner: DeviceRunner, settle: Callable[[], None]) -> None:
        from costmodel.integrations import tvm as ours

        self._args, self._runner, self._settle = args, runner, settle
        self._threads = len(os.sched_getaffinity(0))
        self._prior = Prior(
            model=load_model(args.models / "sm-budgets.costmodel"),
            compiled=load_model(args.models / "sm-budgets-compiled.costmodel"),
        )
        self._builder = ours.Builder(max_workers=max(1, self._threads - 1), timeout_s=BUILD_TIMEOUT_S)
        self._timer = cache(lambda sms: ours.Runner(sms or None, kind=args.runner, build_workers=1))

    def warm(self, case: Case) -> None:
        """Have all processes begin, and one kernel of each way to build it run."""
        from costmodel.kernels import sample_candidates

        workload = Workload.parse(case.workload)
        self._settle()
        (candidate,) = self._runner.draw(sample_candidates, workload, 1, 0).result()
        self._runner.measure([candidate], self._runner.platform(case.sms or None))
        trace = trace_of(open_space(workload, self._args.runner).schedule(candidate.config))
        self.latencies(case, [{TRACE: trace}] * self._threads)

    def search(self, name: str, case: Case, seconds: float) -> Found:
        """What a search has found when its time is up."""
        parts: list[Any] = []
        self._runner.start_over()
        begun = time.monotonic()
        (self._stock if name == STOCK else self._ours)(parts.append, name, case, begun + seconds)
        elapsed_s = time.monotonic() - begun
        self._settle()
        steps = [step for part in parts for step in part["improvements"] if step["elapsed_s"] <= seconds]
        kept = {int(step["elapsed_s"] // MARK_S): step for step in steps}
        counts = [part for part in parts if part["elapsed_s"] <= seconds]
        return {
            "seconds": min(seconds, elapsed_s),
            "measured": counts[-1]["measured"],
            "failed": counts[-1]["failed"],
            "improvements": list(kept.values()),
        }

    def latencies(self, case: Case, steps: Sequence[Any]) -> list[tuple[float, float] | None]:
        """Latency and repeat of kernels, measured in turn."""
        timer = self._timer(case.sms)
        return latencies_of(case.workload, steps, self._builder, timer, self._args.runner)

    def _ours(self, send: Callable[[Any], None], name: str, case: Case, end: float) -> None:
        """``tune`` as users call it."""
        space = open_space(Workload.parse(case.workload), self._args.runner)
        log = Log(send)

        def told(trial: Trial) -> None:
            log.tell(trial.latency_s[0], lambda: space.schedule(trial.candidate.config))
            log.send()
            if time.monotonic() > end:
                raise CannotGoOnError("the time is up")

        costmodel.tune(
            case.workload,
            sms=case.sms or None,
            trials=ENDLESS,
            on=self._runner,
            prior=self._prior,
            search=SearchSettings(seed=case.seed, compiled_per_trial=PER_TRIAL[name]),
            on_trial=told,
        )

    def _stock(self, send: Callable[[Any], None], _name: str, case: Case, end: float) -> None:
        """MetaSchedule with its own model and evolution, which predicts from the second batch on."""
        from tvm.s_tir import meta_schedule as ms

        space = open_space(Workload.parse(case.workload), self._args.runner)
        log = Log(send)
        with tempfile.TemporaryDirectory() as folder:
            ms.tune_tir(
                space.module,
                space.target,
                folder,
                ENDLESS,
                space=design_rules(ms, case, self._args.runner),
                measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), log.callback()],
                num_tuning_cores=self._threads,
                seed=case.seed,
                builder=self._builder,
                runner=self._timer(case.sms),
                num_trials_per_iter=BATCH,
                cost_model=ms.cost_model.XGBModel(
                    num_warmup_samples=EARLY_WARM_UP, num_tuning_cores=self._threads
                ),
                strategy=evolution_until(end, self._args.population, self._args.generations),
            )


@contextmanager
def bench(args: argparse.Namespace) -> Iterator[Bench]:
    """Open what all searches share."""
    register_tensor_intrinsics()
    count = max(1, len(os.sched_getaffinity(0)) - 1)
    kind, architecture = (CudaRunner, "sm_90") if args.runner == "cuda" else (CpuRunner, "")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        sources = (MetaSchedule(),)
        engine = start_build_workers(sources, args.runner, architecture, count, scratch)
        stack.callback(engine.close)

        def settle() -> None:
            wait([engine.submit(time.sleep, 0.5) for _ in range(count)])

        runner = stack.enter_context(kind(sources=sources, engine=engine))
        opened = Bench(args, runner, settle)
        opened.warm(Case(args.workload[0], args.sms[0], 0))
        yield opened


def evolution_until(end: float, population: int, generations: int) -> Any:
    """Stock's strategy, which proposes nothing more once the time is up."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    @derived_object
    class Evolution(ms.search_strategy.PySearchStrategy):
        def __init__(self) -> None:
            super().__init__()
            self._stock = ms.search_strategy.EvolutionarySearch(
                population_size=population, genetic_num_iters=generations
            )

        def _initialize_with_tune_context(self, context: Any) -> None:
            self._stock._initialize_with_tune_context(context)

        def pre_tuning(self, *arguments: Any) -> None:
            self._stock.pre_tuning(*arguments)

        def post_tuning(self) -> None:
            self._stock.post_tuning()

        def generate_measure_candidates(self) -> Any:
            return None if time.monotonic() > end else self._stock.generate_measure_candidates()

        def notify_runner_results(self, candidates: Any, results: Any) -> None:
            self._stock.notify_runner_results(candidates, results)

        def clone(self) -> Any:
            return evolution_until(end, population, generations)

    return Evolution()


def trace_of(schedule: Any) -> str:
    """The trace of a schedule, as ``side_by_side`` reads it."""
    return json.dumps(schedule.trace.as_json(), default=lambda number: number.value)


def as_markdown(rows: Sequence[Row]) -> str:
    """A table of all searches, and one of the geometric means of their ratios at equal times."""
    made = [name for name in SEARCHES if all(name in row["searches"] for row in rows)]
    header = ["workload", "SMs", *(f"{name}: best, us; trials" for name in made)]
    cells = [
        [
            row["workload"],
            str(row["sms"] or "whole"),
            *(
                f"{_best_us(found)}; {found['measured']}"
                for found in (row["searches"][name] for name in made)
            ),
        ]
        for row in rows
    ]
    last = min((found["seconds"] for row in rows for found in row["searches"].values()), default=0.0)
    marks = [s for s in (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0) if s < last] + [last]
    ratios = [
        [f"{name} / {other}", *(geometric(_ratios(rows, name, other, s)) for s in marks)]
        for name, other in combinations(made, 2)
    ]
    heads = ["latency, geometric mean", *(f"after {s:.0f} s" for s in marks)]
    return "\n\n".join([markdown_table(header, cells), markdown_table(heads, ratios), *noise(rows)])


def _best_us(found: Found) -> str:
    """Latency of the best that a search found."""
    return f"{best_at(found, np.inf) * 1e6:.2f}" if found["improvements"] else "none"


def _ratios(rows: Sequence[Row], name: str, other: str, seconds: float) -> list[float]:
    """Latency that a search had reached by then over that of another, of each case."""
    return [
        best_at(row["searches"][name], seconds) / best_at(row["searches"][other], seconds) for row in rows
    ]


if __name__ == "__main__":
    main()
