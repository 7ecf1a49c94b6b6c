"""Times kernels as models run them: in CUDA graphs on the current stream, with what L2 holds.

Inductor's own timer launches one kernel at a time behind a flush of L2, so that the host is on its clock. On
an H200 it gave PyTorch's call for a product of 1576x768x768 38 us, which takes 9.7 us in a graph, and a
Triton kernel 13.2 us, which takes 7.7 us. What it chooses is then slower on the whole GPU than such calls.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

RUNS = 10  # in a graph
_REPEATS = 5
_HOLD_CYCLES = 150_000  # some 0.1 ms, in which the host launches a graph


class NoGraphError(Exception):
    """No graph can be made of a candidate, so none of its product is timed in graphs."""


class _Here(threading.local):
    """How this thread times: in graphs or not, and whether what no graph can be made of is an error."""

    in_graphs = False
    strictly = False


_here = _Here()


@contextmanager
def graph_timer(*, strictly: bool = False) -> Iterator[None]:
    """Let what Inductor times on a GPU in this thread be timed in graphs.

    They run on a stream that has the SMs of the current one.

    Args:
        strictly: Raise ``NoGraphError`` for what no graph can be made of, so that nothing is compared with
            what another timer says; else Inductor's timer is asked.
    """
    from torch._inductor.runtime.benchmarking import benchmarker

    if "benchmark_gpu" not in vars(benchmarker):
        benchmarker.benchmark_gpu = partial(_milliseconds, benchmarker.benchmark_gpu)
    current = torch.cuda.current_stream()
    stream = current if current.cuda_stream else torch.cuda.Stream()  # the default one cannot be captured
    stream.wait_stream(current)
    before = _here.in_graphs, _here.strictly
    _here.in_graphs, _here.strictly = True, strictly
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        _here.in_graphs, _here.strictly = before
        current.wait_stream(stream)


class FirstInGraphs:
    """Runs compiled code, whose kernels other than products are tuned at its first call: by graphs here.

    Args:
        run: The code, of a list of inputs.
    """

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run, self._ran = run, False

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs."""
        if self._ran:
            return self._run(inputs)
        self._ran = True
        current = torch.cuda.current_stream()
        with graph_timer():
            outputs = self._run(inputs)
        for each in outputs:
            if isinstance(each, torch.Tensor) and each.is_cuda:
                each.record_stream(current)  # they may be of another stream
        return outputs


def _milliseconds(usual: Callable[..., float], run: Callable[[], Any], *others: Any, **named: Any) -> float:
    """Return the least of some replays, of one run; in other threads what Inductor's timer says.

    Raises:
        NoGraphError: No graph can be made of the run.
    """
    if not _here.in_graphs:
        return usual(run, *others, **named)
    try:
        return _in_graph_ms(run)
    except NoGraphError:
        if _here.strictly:
            raise
        return usual(run, *others, **named)


def _in_graph_ms(run: Callable[[], Any]) -> float:
    for _run in range(2):
        run()  # a candidate that cannot run fails here, as Inductor expects
    torch.cuda.synchronize()
    graph = capture(run, RUNS)
    graph.replay()
    return min(elapsed_ms(graph.replay) for _repeat in range(_REPEATS)) / RUNS


def capture(run: Callable[[], Any], runs: int) -> torch.cuda.CUDAGraph:
    """Return a graph of so many runs, which have run before, on the current stream.

    Raises:
        NoGraphError: None can be made.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        graph.capture_begin(capture_error_mode="relaxed")
        try:
            for _run in range(runs):
                run()
        finally:
            graph.capture_end()
    except Exception as error:
        raise NoGraphError(str(error)) from error
    return graph


def elapsed_ms(run: Callable[[], Any]) -> float:
    """Return the milliseconds of what a run launches on the current stream, without the time to launch it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_HOLD_CYCLES)
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))
