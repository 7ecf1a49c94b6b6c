"""Times a kernel by replaying a CUDA graph. Runs in the device worker.

A host that launches one kernel after another needs 3 to 4 us each, and much longer when other processes load
it: on the machine of the first campaign, with 16 build processes on 16 cores, 12 % of the kernels under 20 us
then differed by over 5 % between two visits. A graph holds all runs of a repeat and is launched once.
"""

from collections.abc import Callable
from typing import Any


def graph_evaluator(
    driver: Any, call: Callable[[Any], Any], stream: int, launch: Callable[[], None]
) -> Callable[[int, int], list[float]]:
    """Evaluator of what ``launch`` puts on ``stream``.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        stream: Handle of a stream that is not the default one; the graph keeps the SMs of its context.
        launch: Launches the kernels of one run on the stream, without waiting.

    Returns:
        ``evaluate(runs, repeats)``: seconds of one run, for each repeat.
    """

    def evaluate(runs: int, repeats: int) -> list[float]:
        call(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        for _ in range(runs):
            launch()
        graph = call(driver.cuStreamEndCapture(stream))
        executable = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphUpload(executable, stream))  # or the first replay would pay for it
        start, end = (call(driver.cuEventCreate(0)) for _ in range(2))
        seconds = []
        for _ in range(repeats):
            call(driver.cuEventRecord(start, stream))
            call(driver.cuGraphLaunch(executable, stream))
            call(driver.cuEventRecord(end, stream))
            call(driver.cuEventSynchronize(end))
            seconds.append(call(driver.cuEventElapsedTime(start, end)) * 1e-3 / runs)
        call(driver.cuEventDestroy(start))
        call(driver.cuEventDestroy(end))
        call(driver.cuGraphExecDestroy(executable))
        call(driver.cuGraphDestroy(graph))
        return seconds

    return evaluate
