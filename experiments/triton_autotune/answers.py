"""What is measured of one kernel; needs a GPU, torch and Triton."""

import argparse
import json
import math
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from cases import CASES, Shape
from triton.testing import do_bench

from costmodel import train
from costmodel.collector import GreenContexts
from costmodel.dataset import read_files
from costmodel.integrations.triton import autotune

ROUNDS, ROUND_MS = 5, 8.0  # of the timings that compare answers, in turn
Cell = tuple[Shape, str]


def answer(options: argparse.Namespace) -> None:
    """Compile, then take the turns of a kernel: a line on standard input begins one, ``done`` ends it."""
    tried = KernelTrial(options.kernel, options)
    place = {"device": torch.cuda.get_device_name(), "triton": triton.__version__, "part_sms": tried.part_sms}
    say(kernel=options.kernel, **place, **tried.compile_here())
    for turn in (tried.answers, tried.slow_answers):
        line = sys.stdin.readline()
        end = time.monotonic() + float(line or 0.0)
        for row in turn():
            say(kernel=options.kernel, **row)
            if time.monotonic() > end:
                break
        print("done", flush=True)


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


class KernelTrial:
    """One kernel, on the whole GPU and a part.

    Args:
        name: Of the kernel.
        options: Settings.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.case, self.options = CASES[name], options
        self.asked, self.learner = self.case.shapes[:2], options.learner
        self.folder = options.work / name
        self.folder.mkdir()
        self.space = self.case.configs(options.configs)
        self.list = self.space[: len(self.case.listed)]
        (handle, *_), self.part_sms = GreenContexts().streams(options.part_sms)
        self.streams = {"whole": torch.cuda.Stream(), "part": torch.cuda.ExternalStream(handle)}
        self.operands = {shape: self.case.operands(shape, "cuda") for shape in self.case.shapes}
        self.timed = 0
        self.compiled_in("here")

    def compiled_in(self, name: str) -> None:
        """Take another folder for what Triton compiles."""
        triton.knobs.cache.dir = str(self.folder / f"compiled-{name}")

    def compile_here(self) -> dict[str, float]:
        """Seconds until all configs are compiled one after the other, as ``triton.autotune`` does it."""
        kernel, shape = self.kernel(), self.asked[0]
        start = time.perf_counter()
        seconds = []
        for config in self.space:
            kernel.warmup(*self.operands[shape], grid=self.grid(shape), **config.all_kwargs())
            seconds.append(time.perf_counter() - start)
        return {"compile_list_s": seconds[len(self.list) - 1], "compile_space_s": seconds[-1]}

    def answers(self) -> Iterator[dict[str, Any]]:
        """Answers of all tuners once all is compiled, then those of ours when nothing is."""
        known: dict[Cell, dict[Any, list[float]]] = {}
        stock: dict[Cell, dict[str, Any]] = {}
        for cell in [(shape, place) for shape in self.case.shapes for place in self.streams]:
            tuners = {name: self.stock(configs) for name, configs in self.stock_configs(cell[0]).items()}
            stock[cell] = {name: self.first_answer(tuner, cell) for name, tuner in tuners.items()}
            known[cell] = tuners["space"].configs_timings
        for shape in self.asked:
            yield self.learn({cell: timings for cell, timings in known.items() if cell[0] != shape}, shape)
            for place in self.streams:
                cell = shape, place
                found = stock[cell] | {
                    name: self.first_answer(self.ours(f"{_name(cell)}-{name}", settings), cell)
                    for name, settings in self.settings(shape).items()
                }
                best = min(known[cell], key=lambda config: known[cell][config][0])
                yield from self.compared(found, best, cell)
        for name, settings in self.settings(self.asked[0]).items():
            if name != "store":
                yield self.cold(name, self.ours(f"cold-{name}", settings))

    def slow_answers(self) -> Iterator[dict[str, Any]]:
        """Answers that take longer: the whole space is compiled by ours, the list by ``triton.autotune``."""
        yield self.cold("all", self.ours("cold-all", {}))
        yield self.cold("list", self.stock(self.list))

    def stock_configs(self, shape: Shape) -> dict[str, Sequence[Any]]:
        both = {"list": self.list, "space": self.space}
        return both if shape in self.asked else {"space": self.space}

    def settings(self, shape: Shape) -> dict[str, dict[str, Any]]:
        """How ours is asked for a shape, in order; what ``store`` takes is what ``shortlist`` kept."""
        model = {"model": self.folder / f"{_name(shape)}.costmodel"}
        few = {"shortlist": self.options.shortlist}
        return {
            "neighbours": {"knows": self.folder / f"{_name(shape)}-others.jsonl", **few},
            "shortlist": {**model, **few},
            "store": {**model, **few, "as": "shortlist"},
            "model": {**model, "mode": "model"},
        }

    def kernel(self) -> Any:
        """The kernel as a process has it that just began."""
        return triton.jit(self.case.kernel.fn)

    def grid(self, shape: Shape) -> Callable[[Any], tuple[int, ...]]:
        return partial(self.case.grid, shape)

    def stock(self, configs: Sequence[Any]) -> Any:
        return triton.autotune(list(configs), list(self.case.key), do_bench=self.bench)(self.kernel())

    def ours(self, store: str, settings: dict[str, Any]) -> Any:
        """A tuner of ours with a store of its own."""
        path = self.folder / f"{store}.jsonl"
        own = dict(settings)
        if "knows" in own:
            shutil.copy(own.pop("knows"), path)
        if "as" in own:
            path = self.folder / f"{store.removesuffix('store')}{own.pop('as')}.jsonl"
        decorate = autotune(self.space, list(self.case.key), do_bench=self.bench, store=path, **own)
        return decorate(self.kernel())

    def bench(self, kernel_call: Callable[[], Any], quantiles: Sequence[float]) -> Any:
        """The timer of all tuners: Triton's own, with one number of repeats."""
        self.timed += 1
        return do_bench(
            kernel_call, warmup=self.options.warmup_ms, rep=self.options.rep_ms, quantiles=quantiles
        )

    def first_answer(self, tuner: Any, cell: Cell) -> dict[str, Any]:
        """The config that a tuner takes, and how long its first call takes."""
        shape, place = cell
        operands = self.operands[shape]
        *inputs, result = [each for each in operands if isinstance(each, torch.Tensor)]
        result.fill_(math.nan)
        self.timed = 0
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.cuda.stream(self.streams[place]):
            tuner[self.grid(shape)](*operands)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        expected = self.case.expected(*inputs).float()
        error = float((result.float() - expected).norm() / expected.norm())
        told = {"first_s": seconds, "timed": self.timed, "error": error if error < math.inf else 1e9}
        return {"config": tuner.best_config, **told}

    def cold(self, name: str, tuner: Any) -> dict[str, Any]:
        """The first answer when nothing is compiled."""
        self.compiled_in(name)
        found = self.first_answer(tuner, (self.asked[0], "whole"))
        self.compiled_in("here")
        return {"what": "cold", "tuner": name, **found, "config": str(found["config"])}

    def learn(self, known: dict[Cell, dict[Any, list[float]]], shape: Shape) -> dict[str, Any]:
        """Keep what was timed of other shapes, and train a model on it."""
        store = self.folder / f"{_name(shape)}-others.jsonl"
        for cell, timings in known.items():
            self.first_answer(self.recalling(timings, store), cell)
        start = time.perf_counter()
        model = train(read_files([store]), self.learner)
        model.save(self.folder / f"{_name(shape)}.costmodel")
        return {"what": "trained", "shape": shape, "train_s": time.perf_counter() - start}

    def recalling(self, timings: dict[Any, list[float]], store: Path) -> Any:
        """A tuner of ours that keeps what another timed."""
        now: dict[str, Any] = {}

        def hook(arguments: dict[str, Any], reset_only: bool = False) -> None:
            now.update(arguments)

        def recall(kernel_call: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
            kernel_call()
            return next(ms for config, ms in timings.items() if config.all_kwargs().items() <= now.items())

        key = list(self.case.key)
        decorate = autotune(self.space, key, do_bench=recall, pre_hook=hook, store=store, compile_workers=0)
        return decorate(self.kernel())

    def compared(self, found: dict[str, dict[str, Any]], best: Any, cell: Cell) -> Iterator[dict[str, Any]]:
        """Answers with their latencies, measured in turn."""
        configs = list(dict.fromkeys([*(each["config"] for each in found.values()), best]))
        us = self.microseconds(configs, cell)
        for tuner, each in found.items():
            config = each["config"]
            told = {"us": us[config], "best_us": min(us.values()), "config": str(config)}
            yield {"what": "answer", "tuner": tuner, "shape": cell[0], "place": cell[1], **each, **told}

    def microseconds(self, configs: Sequence[Any], cell: Cell) -> dict[Any, float]:
        """Latency of configs: the median of rounds, each in an order of its own."""
        shape, place = cell
        kernel, operands = self.kernel(), self.operands[shape]
        measured: dict[Any, list[float]] = {config: [] for config in configs}
        with torch.cuda.stream(self.streams[place]):
            for turn in range(ROUNDS):
                for config in random.Random(turn).sample(list(configs), len(configs)):
                    launch = partial(kernel[self.grid(shape)], *operands, **config.all_kwargs())
                    ms = do_bench(launch, warmup=1, rep=ROUND_MS, return_mode="median")
                    measured[config].append(1e3 * ms)
        return {config: statistics.median(each) for config, each in measured.items()}


def _name(of: Shape | Cell) -> str:
    shape = of[0] if isinstance(of[0], tuple) else of
    place = [of[1]] if isinstance(of[0], tuple) else []
    return "-".join(map(str, (*shape, *place)))
