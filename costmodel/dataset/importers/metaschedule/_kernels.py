"""What the traces of one program of a MetaSchedule database stand for: configs of our space, or foreign ones.

Decisions are read from the trace. ``applied`` replays it with TVM, which takes a hundred times as long.
"""

from importlib.util import find_spec
from typing import Any

from costmodel.dataset.importers.metaschedule._trace import config_of_trace
from costmodel.dataset.importers.metaschedule._trace_worker import TraceWorker
from costmodel.errors import InvalidConfigError
from costmodel.kernels.metaschedule._sample import open_space
from costmodel.records._candidate import SKETCH, Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


class OurKernels:
    """Kernels of a workload of ours.

    Args:
        workload: The workload that the program is.
        kind: Kind of device.
        worker: The process that applies traces.
    """

    def __init__(self, workload: Workload, kind: TargetKind, worker: TraceWorker) -> None:
        self._space, self._kind, self._worker = open_space(workload, kind), kind, worker
        self._foreign_sketches: set[Decision] = set()

    def read(self, trace: Any, sketch: Decision) -> Config | None:
        """The config of a trace in our space; None where it was drawn from another.

        What is not written as our sketches are is replayed, and once for a sketch that is none of ours.

        Args:
            trace: The trace in JSON.
            sketch: What traces of the same instructions have in common.
        """
        if sketch in self._foreign_sketches:
            return None
        config = self._space.read_config(trace) or self.applied(trace)
        if config is None:
            self._foreign_sketches.add(sketch)
        return config

    def applied(self, trace: Any) -> Config | None:
        """The config that TVM applies; None where it cannot, or where it is of no sketch of ours."""
        return self._worker.read(self._space.workload, self._kind, trace)

    def candidate(self, config: Config, *, lower: bool) -> Candidate:
        """The candidate of a config, lowered for its launches where that is asked for and can be done."""
        if lower:
            try:
                return self._space.candidate(config)
            except InvalidConfigError:  # made for a device with other limits
                pass
        return Candidate(self._space.workload, self._space.name, config)


class ForeignKernels:
    """Kernels of a program that is none of ours, or that were drawn from another space than ours.

    Args:
        structural_hash: First column of the program's row.
        text: Second column.
        worker: The process that applies traces.
    """

    def __init__(self, structural_hash: str, text: str, worker: TraceWorker) -> None:
        self._workload = Workload(f"metaschedule.p{content_id(text)}", {}, "")
        self._program, self._worker = (structural_hash, text), worker

    def applied(self, trace: Any, config: Config) -> Config:
        """The config that TVM applies; ``config``, which was read, where it cannot replay the trace."""
        replayed = self._worker.replay(self._program, trace) if find_spec("tvm") else None
        if replayed is None:
            return config
        # Versions of TVM write the same instructions differently.
        return Config({**config_of_trace(replayed).decisions, SKETCH: config.decisions[SKETCH]})

    def candidate(self, config: Config, trace: Any, *, lower: bool) -> Candidate:
        """The candidate of a config, lowered for its launches where that is asked for and can be done."""
        launches = self._worker.lower(self._program, trace) if lower else ()
        return Candidate(self._workload, "metaschedule-trace", config, launches)
