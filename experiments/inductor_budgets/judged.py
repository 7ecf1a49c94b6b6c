"""A network, compiled in one way after another for parts of a GPU."""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from graphs import CpuGraphs, GpuGraphs, Graphs
from networks import JUDGED, Network
from ways import AGAIN, DEFAULT, EAGER, LISTS, OURS, PART, SHIPPED, UNTIMED, WHOLE

from costmodel.files import write_json
from costmodel.integrations.inductor import _install, report

STOCK = "max-autotune-no-cudagraphs"
ROUNDS = 9


def judge(name: str, args: argparse.Namespace) -> None:
    """Compile a network in every way, and time all that is there after each."""
    if args.device == "cuda":
        from torch._inductor.async_compile import AsyncCompile

        AsyncCompile.wait_pool_ready()  # the workers that compile; none has to wait for them
    graphs: Graphs = GpuGraphs(args.sms) if args.device == "cuda" else CpuGraphs(args.sms)
    judged = Judged(JUDGED[name], graphs, args)
    path = args.out / f"{name}.json"
    if args.shipped:
        found = json.loads(path.read_text(encoding="utf-8"))
        found["compile_s"][SHIPPED] = judged.compile_as_shipped()
        write_json(path, found)
        return
    found = {"network": name, "device": graphs.device, "sms": list(graphs.granted)}
    for _ in judged.compile_all():
        write_json(path, found | judged.result())


class Judged:
    """A network, in as many ways as it was compiled so far.

    Args:
        network: The network.
        graphs: Where it runs.
        args: What ``parse`` gives.
    """

    def __init__(self, network: Network, graphs: Graphs, args: argparse.Namespace) -> None:
        self._graphs, self._args = graphs, args
        self._module, self._inputs = network.module(args.device), network.inputs(args.device)
        self._replays: dict[int, dict[str, Callable[[], Any]]] = {sms: {} for sms in graphs.granted}
        self._latency_s: dict[int, dict[str, float]] = {}
        self._not_timed: set[int] = set()  # parts with a replay that was added since they were timed
        self._seconds: dict[str, dict[int, float]] = {}
        self._counts: dict[str, dict[int, dict[str, int]]] = {}
        self._errors: dict[str, float] = {}
        self._failed: dict[str, str] = {}
        with torch.no_grad():
            self._expected = self._module(*self._inputs).float()

    def compile_all(self) -> Iterator[str]:
        """Compile in one way after another; those that matter most come first."""
        *parts, whole = self._graphs.granted
        yield self._add(EAGER, whole, parts, lambda: self._module)
        yield self._add(DEFAULT, whole, parts, lambda: torch.compile(self._module, dynamic=False))
        first, *others = sorted(parts, key=lambda sms: abs(sms - 32)) or [whole]
        yield self._add_ours(UNTIMED, first)
        yield self._add_ours(OURS, first)
        yield self._add_ours(LISTS, first)
        yield self._add(WHOLE, whole, parts, self._stock)
        for sms in [whole] * bool(parts) + others:
            yield self._add_ours(OURS, sms)
            yield self._add_ours(UNTIMED, sms)
        if parts:
            yield self._add_ours(LISTS, whole)
        for sms in (first, *others):
            if sms != whole:
                yield self._add(PART, sms, [], self._stock)

    def compile_as_shipped(self) -> dict[int, float]:
        """Return the seconds of max-autotune on the whole GPU, in a process in which all is as shipped."""
        *_, whole = self._graphs.granted
        self._add(WHOLE, whole, [], self._stock)
        return self._seconds[WHOLE]

    def _add_ours(self, way: str, sms: int) -> str:
        from costmodel.integrations.inductor import compile as compile_for

        keep = 0 if way == UNTIMED else self._args.keep
        store = self._args.out / "caches" / f"{os.getpid()}-{way}.jsonl"
        options = {"sms": sms, "keep": keep, "store": store, "dynamic": False}

        def make() -> Callable[..., Any]:
            made = compile_for(self._module, **options)
            if way == LISTS:
                made._plan = replace(made._plan, blocks=None)
            return made.for_sms(sms)

        return self._add(way, sms, [], make)

    def _stock(self) -> Callable[..., Any]:
        made: Callable[..., Any] = torch.compile(self._module, mode=STOCK, dynamic=False)
        return made

    def _add(self, way: str, sms: int, also: Sequence[int], make: Callable[[], Callable[..., Any]]) -> str:
        """Compile in a way on a part, then make graphs of it there and on other parts."""
        try:
            with torch.no_grad(), self._graphs.enter(sms), self._caches(way, sms):
                torch._dynamo.reset()
                before = report()
                start = time.monotonic()
                compiled = make()
                made = compiled(*self._inputs).float()
                self._graphs.wait()
                self._seconds.setdefault(way, {})[sms] = round(time.monotonic() - start, 2)
                self._counts.setdefault(way, {})[sms] = {
                    what: times - before.get(what, 0)
                    for what, times in report().items()
                    if times > before.get(what, 0)
                }
                error = (made - self._expected).norm() / self._expected.norm()
                self._errors[way] = max(self._errors.get(way, 0.0), float(error))
                for each in (sms, *also):
                    self._replays[each][way] = self._graphs.capture(each, lambda: compiled(*self._inputs))
                    self._not_timed.add(each)
        except Exception as error:  # noqa: BLE001 (told, and the next way follows)
            self._failed[f"{way} on {sms}"] = f"{type(error).__name__}: {error}"[:300]
        return way

    @contextmanager
    def _caches(self, way: str, sms: int) -> Iterator[None]:
        """Keep what is compiled apart: nothing is known of other ways and parts, but a way's own kernels."""
        from torch._inductor.utils import clear_caches

        kept = "stock" if way in (PART, WHOLE) else "".join(filter(str.isalpha, way))
        folder = self._args.out / "caches" / f"{os.getpid()}-{kept}"
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / f"{way == PART}-{sms}")
        clear_caches()
        _install._timed.clear()
        yield

    def result(self) -> dict[str, Any]:
        """Return what is known so far: times of a part's graphs, in turns, one way twice."""
        for sms in self._not_timed:
            replays = self._replays[sms]
            again = {AGAIN: replays[LISTS]} if LISTS in replays else {}
            self._latency_s[sms] = self._graphs.time(sms, replays | again, ROUNDS)
        self._not_timed.clear()
        return {
            "latency_s": dict(sorted(self._latency_s.items())),
            "compile_s": self._seconds,
            "counts": self._counts,
            "largest_error": self._errors,
            "failed": self._failed,
        }
