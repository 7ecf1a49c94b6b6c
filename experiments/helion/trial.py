"""What is measured of one kernel; needs a GPU, torch, Triton and Helion."""

import argparse
import fcntl
import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

import helion
import torch
import triton
from helion.autotuner import LFBOTreeSearch, RandomSearch, base_search
from helion.autotuner.benchmark_provider import LocalBenchmarkProvider
from helion.autotuner.effort_profile import get_effort_profile
from kernels import CASES
from triton.testing import do_bench

from costmodel import CostModelError, train
from costmodel.collector import GreenContexts
from costmodel.dataset import read_files
from costmodel.integrations.helion import keep_timings
from costmodel.integrations.helion._search import CostModelSearch

ROUNDS, ROUND_MS = 7, 10.0  # of the timings that compare answers, in turn
KNOWN, SEARCHED = "known", "searched"  # what ours knows of a shape: a search of its own, or Helion's
Shape = tuple[int, ...]
Cell = tuple[Shape, str]


class Turns:
    """One process times at a time, while others compile; counts what Helion times.

    Args:
        path: Of a file that all processes lock.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self.timed = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """While this process has the GPU."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
            torch.cuda.synchronize()
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def rule_helion(self) -> None:
        """Let Helion time in turn only, in this process and its streams."""
        time_one = LocalBenchmarkProvider._benchmark_function
        time_several = base_search.interleaved_bench

        @wraps(time_one)
        def time_one_in_turn(*args: Any, **settings: Any) -> float:
            self.timed += 1
            with self.taken():
                return time_one(*args, **settings)

        @wraps(time_several)
        def time_several_in_turn(*args: Any, **settings: Any) -> list[float]:
            with self.taken():
                return time_several(*args, **settings)

        LocalBenchmarkProvider._benchmark_function = time_one_in_turn
        base_search.interleaved_bench = time_several_in_turn


class KernelTrial:
    """One kernel at two shapes, on the whole GPU and a part.

    Args:
        name: Of the kernel.
        options: Settings.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.case, self.options = CASES[name], options
        self.folder = options.work / name
        self.folder.mkdir()
        os.environ["HELION_CACHE_DIR"] = str(self.folder / "helion")
        triton.knobs.cache.dir = str(self.folder / "triton")
        (handle, *_), self.part_sms = GreenContexts().streams(options.part_sms)
        self.streams = {"whole": torch.cuda.Stream(), "part": torch.cuda.ExternalStream(handle)}
        self.inputs = {shape: self.case.inputs(shape, "cuda") for shape in self.case.shapes}
        self.cells = [(shape, place) for shape in self.case.shapes for place in self.streams]
        self.turns = Turns(options.work / "turn")
        self.turns.rule_helion()
        self._searched: dict[Cell, dict[str, Any]] = {}

    def rows(self) -> Iterator[dict[str, Any]]:
        """For each shape: what is found of the other and learned from, then what all find of this one."""
        for shape, other in zip(self.case.shapes, reversed(self.case.shapes), strict=True):
            for cell in [(other, place) for place in self.streams]:
                yield {"what": SEARCHED, **_place(cell), **self.searched(cell)}
                found = self.answer(cell, lambda cell=cell: self.unknowing(cell))
                yield {"what": KNOWN, **_place(cell), **found}
            yield from (self.learn(shape, what) for what in (KNOWN, SEARCHED))
            of_whole: dict[str, Any] = {}
            for cell in [(shape, place) for place in self.streams]:
                found = self.found(cell)
                yield from self.compared({**found, **of_whole}, cell)
                of_whole = {"helion-of-whole": found["helion"]}

    def found(self, cell: Cell) -> dict[str, dict[str, Any]]:
        """What each tuner finds in a cell."""
        own = self.searched(cell)
        few = max(2, round(self.options.share * own["timed"]))
        return {
            "helion": own,
            "ours": self.answer(cell, lambda: self.informed(cell, few, KNOWN)),
            "ours-of-search": self.answer(cell, lambda: self.informed(cell, few, SEARCHED)),
            "random": self.answer(cell, lambda: self.random(cell, few)),
        }

    def searched(self, cell: Cell) -> dict[str, Any]:
        """What Helion's search finds in a cell; it is asked once."""
        if cell not in self._searched:
            self._searched[cell] = self.answer(cell, lambda: self.helions(cell))
        return self._searched[cell]

    def answer(self, cell: Cell, search: Callable[[], Any]) -> dict[str, Any]:
        """The config that a search finds in a cell, how many it timed and how long it took."""
        before, start = self.turns.timed, time.perf_counter()
        told: dict[str, Any] = {}
        with torch.cuda.stream(self.streams[cell[1]]):
            try:
                told["config"] = search().autotune(skip_cache=True)
            except Exception as error:  # noqa: BLE001 (kept; others go on)
                told["failed"] = f"{type(error).__name__}: {error}"[:300]
            torch.cuda.synchronize()
        return told | {"timed": self.turns.timed - before, "search_s": time.perf_counter() - start}

    def bound(self, shape: Shape, **settings: Any) -> Any:
        """The kernel as a process has it that just began, with the settings of all tuners."""
        common = {
            "autotune_benchmark_subprocess": False,  # another process would time on the whole GPU
            "autotune_progress_bar": False,
            "autotune_log_level": 30,
            "autotune_ignore_errors": True,
            "autotune_random_seed": 0,
            "autotune_budget_seconds": self.options.search_s,
            "autotune_compile_timeout": self.options.compile_s,
            "autotune_precompile_jobs": self.options.jobs,
        }
        kernel = helion.kernel(self.case.kernel, static_shapes=True, **{**common, **settings})
        return kernel.bind(self.inputs[shape])

    def helions(self, cell: Cell) -> Any:
        """Helion's default search, whose timings are kept."""
        bound = self.bound(cell[0], autotune_effort=self.options.effort)
        profile = get_effort_profile(self.options.effort)
        settings = LFBOTreeSearch.get_kwargs_from_profile(profile, bound.settings)
        search = LFBOTreeSearch(bound, self.inputs[cell[0]], **settings)
        return keep_timings(search, store=self.store(cell, SEARCHED))

    def random(self, cell: Cell, count: int) -> Any:
        """Helion's default config and others drawn at random."""
        return RandomSearch(self.bound(cell[0]), self.inputs[cell[0]], count=count)

    def ours(self, cell: Cell, store: Path, **settings: Any) -> Any:
        return CostModelSearch(self.bound(cell[0]), self.inputs[cell[0]], store=store, **settings)

    def unknowing(self, cell: Cell) -> Any:
        """Ours without a model."""
        return self.ours(cell, self.store(cell, KNOWN), shortlist=self.options.known, batch=8)

    def informed(self, cell: Cell, few: int, what: str) -> Any:
        """Ours with what was timed of the other shape in such searches."""
        store = self.folder / f"{_name(cell)}-asked-{what}.jsonl"
        shutil.copy(self.others(cell[0], what), store)
        return self.ours(cell, store, model=self.model(cell[0], what), shortlist=few)

    def learn(self, shape: Shape, what: str) -> dict[str, Any]:
        """Put together what was timed of the other shape in such searches, and train a model on it."""
        start = time.perf_counter()
        stores = [self.store(cell, what) for cell in self.cells if cell[0] != shape]
        lines = [line for each in stores if each.exists() for line in each.read_text().splitlines(True)]
        self.others(shape, what).write_text("".join(lines))
        told: dict[str, Any] = {"what": "trained", "on": what, "shape": shape, "timings": len(lines)}
        try:
            train(read_files([self.others(shape, what)]), self.options.learner).save(self.model(shape, what))
        except CostModelError as error:
            told["failed"] = str(error)
        return told | {"train_s": time.perf_counter() - start}

    def store(self, cell: Cell, what: str) -> Path:
        return self.folder / f"{_name(cell)}-{what}.jsonl"

    def others(self, shape: Shape, what: str) -> Path:
        return self.folder / f"{'-'.join(map(str, shape))}-others-{what}.jsonl"

    def model(self, shape: Shape, what: str) -> Path:
        return self.others(shape, what).with_suffix(".costmodel")

    def compared(self, found: Mapping[str, dict[str, Any]], cell: Cell) -> Iterator[dict[str, Any]]:
        """Answers with their latencies, measured in turn; that of Helion's search twice."""
        bound, inputs = self.bound(cell[0]), self.inputs[cell[0]]
        configs = {name: each["config"] for name, each in found.items() if "config" in each}
        configs["default"] = bound.config_spec.default_config()
        if "helion" in configs:
            configs["helion-again"] = configs["helion"]
        calls = {name: bound.compile_config(config) for name, config in configs.items()}
        expected = self.case.expected(*inputs).float()
        with torch.cuda.stream(self.streams[cell[1]]):
            errors = {name: _error(call(*inputs), expected) for name, call in calls.items()}
            us = self.microseconds({name: lambda call=call: call(*inputs) for name, call in calls.items()})
        for name in {**found, **configs}:
            told = {**found.get(name, {}), "us": us.get(name), "error": errors.get(name)}
            yield {"what": "answer", "tuner": name, **_place(cell), **told, "config": str(configs.get(name))}

    def microseconds(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """Latency of calls: the median of rounds, each in an order of its own."""
        measured: dict[str, list[float]] = {name: [] for name in calls}
        with self.turns.taken():
            for turn in range(ROUNDS):
                for name in random.Random(turn).sample(list(calls), len(calls)):
                    ms = do_bench(calls[name], warmup=2, rep=ROUND_MS, return_mode="median")
                    measured[name].append(1e3 * ms)
        return {name: statistics.median(each) for name, each in measured.items()}


def answer(options: argparse.Namespace) -> None:
    """Say a row a line; what a kernel's process was asked to do is cut at the time limit."""
    end = time.monotonic() + options.time_limit
    tried = KernelTrial(options.kernel, options)
    say(
        kernel=options.kernel,
        what="place",
        device=torch.cuda.get_device_name(),
        part_sms=tried.part_sms,
        torch=torch.__version__,
        triton=triton.__version__,
        helion=version("helion"),
    )
    for row in tried.rows():
        say(kernel=options.kernel, **{**row, "config": str(row.get("config"))})
        if time.monotonic() > end:
            break


def say(**row: Any) -> None:
    print(json.dumps(row, default=str), flush=True)


def _error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result.float() - expected).norm() / expected.norm())


def _place(cell: Cell) -> dict[str, Any]:
    return {"shape": cell[0], "place": cell[1]}


def _name(cell: Cell) -> str:
    return "-".join(map(str, (*cell[0], cell[1])))
