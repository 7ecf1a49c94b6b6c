"""Times Inductor's candidates on several parts of a GPU, in the place of its own timing."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from parts import GpuParts
from torch._inductor.select_algorithm import AlgorithmSelectorCache

from costmodel.integrations.inductor._timer import capture, elapsed_ms

_REPEAT_S, _MOST_RUNS, _REPEATS = 600e-6, 40, 4
_AGAIN = 4  # candidates that are timed twice: the best

Run = Callable[[], Any]


class Parts(Protocol):
    """Where kernels run."""

    @property
    def granted(self) -> Sequence[int]:
        """SMs of each part."""
        ...

    def enter(self, sms: int) -> AbstractContextManager[Any]:
        """Let what is launched run on a part."""
        ...

    def time(self, run: Run) -> list[float]:
        """Return seconds of a run on the part that was entered, a few times."""
        ...

    def wait(self) -> None:
        """Wait for what was launched; raise if nothing can run any more."""
        ...


class GpuTimer(GpuParts):
    """Times in CUDA graphs on the part that was entered, with whatever L2 holds (warm)."""

    def time(self, run: Run) -> list[float]:
        run()
        once = elapsed_ms(run) * 1e-3
        runs = min(_MOST_RUNS, max(1, math.ceil(_REPEAT_S / once)))
        graph = capture(run, runs)
        graph.replay()
        return [elapsed_ms(graph.replay) * 1e-3 / runs for _ in range(_REPEATS)]


class CpuTimer:
    """This CPU, as if it had two parts, to rehearse the experiment."""

    granted = (1, 2)

    def enter(self, sms: int) -> AbstractContextManager[Any]:
        return nullcontext(sms)  # Dynamo takes it ill if the number of threads changes while it traces

    def time(self, run: Run) -> list[float]:
        run()
        start = time.perf_counter()
        run()
        return [time.perf_counter() - start]

    def wait(self) -> None:
        """Everything is done when it returns."""


class Sweep:
    """What is found of the products that are compiled while it is installed.

    Args:
        parts: Where candidates are timed.
        cold_on: Parts on which Inductor's own timer is asked too, whose L2 is cold.
    """

    def __init__(self, parts: Parts, cold_on: Sequence[int] = ()) -> None:
        self._parts, self._cold_on = parts, cold_on
        self.found: list[dict[str, Any]] = []
        self.product: Any = None  # as Inductor has it

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let Inductor call this one where it would time candidates."""
        usual = AlgorithmSelectorCache.__dict__["benchmark_in_current_process"]

        def sweep(
            _: Any, choices: Any, input_nodes: Any, layout: Any, input_gen_fns: Any, **others: Any
        ) -> Any:
            usual_inputs = AlgorithmSelectorCache.get_inputs
            return self._time_all(choices, lambda: usual_inputs(choices, input_nodes, layout, input_gen_fns))

        AlgorithmSelectorCache.benchmark_in_current_process = classmethod(sweep)
        try:
            yield
        finally:
            AlgorithmSelectorCache.benchmark_in_current_process = usual

    def _time_all(self, choices: Sequence[Any], make_inputs: Callable[[], Any]) -> dict[Any, float]:
        inputs = make_inputs()
        warm: dict[int, dict[Any, list[float]]] = {}
        errors: dict[Any, str] = {}
        for sms in self._parts.granted:
            with self._parts.enter(sms):
                warm[sms] = self._on_part([each for each in choices if each not in errors], inputs, errors)
        cold: dict[int, dict[Any, float]] = {}
        for sms in set(self._cold_on) & set(self._parts.granted):
            with self._parts.enter(sms):
                cold[sms] = {each: _cold(each, inputs) for each in choices if each not in errors}
        for each in choices:
            self.found.append(
                {
                    "choice": each,
                    "warm_s": {sms: list(map(_rounded, times.get(each, []))) for sms, times in warm.items()},
                    "cold_s": {sms: _rounded(times[each]) for sms, times in cold.items() if each in times},
                    "error": errors.get(each, ""),
                }
            )
        on_most = warm[max(warm)]
        return {each: min(on_most.get(each, [math.inf])) * 1e3 for each in choices}

    def _on_part(self, choices: Sequence[Any], inputs: Any, errors: dict[Any, str]) -> dict[Any, list[float]]:
        times: dict[Any, list[float]] = {}
        runs: dict[Any, Run] = {}
        for each in choices:
            try:
                runs[each] = _make_run(each, inputs)
                times[each] = self._parts.time(runs[each])
            except Exception as error:  # noqa: BLE001 (whatever a candidate fails with is its outcome)
                self._parts.wait()
                errors[each] = f"{type(error).__name__}: {error}"[:80]
        best = sorted(times, key=lambda each: min(times[each]))[:_AGAIN]
        return times | {each: [*times[each], *self._parts.time(runs[each])] for each in best}


def _make_run(choice: Any, inputs: Any) -> Run:
    """Something that runs a candidate on the current stream."""
    tensors, out = inputs.get_benchmark_tensors(AlgorithmSelectorCache._is_extern(choice)).unpack()
    request = getattr(choice, "bmreq", None)
    if request is not None:
        made: Run = request.make_run_fn(*tensors, out=out)
        return made
    if choice._compiled_module is None:  # a graph of several kernels
        choice._compiled_module = choice._compile_for_benchmarking()
    return lambda: choice._compiled_module.call(list(tensors))


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def _cold(choice: Any, inputs: Any) -> float:
    tensors, out = inputs.get_benchmark_tensors(AlgorithmSelectorCache._is_extern(choice)).unpack()
    return float(choice.benchmark(*tensors, out=out)) * 1e-3


class Precompile(Sweep):
    """Times nothing, so that a process that does finds kernels compiled."""

    def __init__(self) -> None:
        super().__init__(parts=None)  # type: ignore[arg-type]

    def _time_all(self, choices: Sequence[Any], make_inputs: Callable[[], Any]) -> dict[Any, float]:
        return {each: 1.0 + i for i, each in enumerate(choices)}


def describe(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a candidate is, and its times, in plain values."""
    from costmodel.integrations.inductor._describe import read_choice

    choice = found["choice"]
    known = choice.annotations.get("ktc")
    kernel = None if known is None else read_choice(known)
    options = {} if known is None else known.params.to_kwargs()
    return {
        "template": "" if known is None else known.template.uid,
        "kernel": {} if kernel is None else kernel._asdict(),
        "programs": int(options.get("NUM_SMS", 0)),
        **{key: found[key] for key in ("warm_s", "cold_s", "error")},
    }
