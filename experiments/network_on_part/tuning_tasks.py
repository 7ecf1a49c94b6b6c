"""The kernels of a network, and which of them are tuned."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Tasks:
    """What ``tune_relax`` is given.

    Attributes:
        network: The Relax module.
        target: Of TVM.
        names: Kernels with one of these in their names are tuned. The others have TVM's default schedules,
            the same in every variant.
    """

    network: Any
    target: Any
    names: Sequence[str]

    @cached_property
    def module(self) -> Any:
        """The network fused as ``compile_relax`` fuses it; in what is not legalised, no tasks are found.

        The last pass leaves out those reshapes that no kernel is made for.
        """
        import tvm
        from tvm import relax

        passes = relax.transform
        return tvm.transform.Sequential(
            [
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FoldConstant(),
                passes.FuseOps(),
                passes.FuseTIR(),
                passes.RewriteDataflowReshape(),
            ]
        )(self.network)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """``task`` (name), ``launches``, ``workload`` (None if it is none) and ``tuned`` of each kernel."""
        from tvm.s_tir import meta_schedule as ms

        from costmodel.workloads._recognise import recognise

        rows = []
        for task in ms.relax_integration.extract_tasks(self.module, self.target):
            workload = recognise(self.module[task.task_name])
            rows.append(
                {
                    "task": task.task_name,
                    "launches": int(task.weight),
                    "workload": workload.name if workload else None,
                    "tuned": any(name in task.task_name for name in self.names),
                }
            )
        return sorted(rows, key=lambda row: (not row["tuned"], row["task"]))

    @property
    def tuned(self) -> int:
        """How many are tuned."""
        return sum(row["tuned"] for row in self.rows)

    def __str__(self) -> str:
        known = sum(row["tuned"] and row["workload"] is not None for row in self.rows)
        return (
            f"The network has {len(self.rows)} distinct kernels; {self.tuned} of them are tuned, "
            f"and of these {known} are workloads of ours."
        )
