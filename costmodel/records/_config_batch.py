"""Many configs of one workload as columns: one array a decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._workload import Workload

SKETCH = "sketch"  # name of the decision that picks a space's sketch


@dataclass(frozen=True)
class ConfigBatch:
    """Configs of one workload that decide the same: those of one sketch of a space.

    Attributes:
        workload: What they compute.
        size: Number of configs, n.
        decisions: Value of each decision: ``(n, parts)`` int64 for the factors of a tiled loop, ``(n,)`` for
            a number or a category; in the order of the space.

    Example:
        >>> configs = [Config({"tile.C.i": (2, 2)})]
        >>> batch = ConfigBatch.from_configs(Workload.parse("matmul-m4-n4-k4"), configs)
        >>> batch.decisions["tile.C.i"].shape
        (1, 2)
    """

    workload: Workload
    size: int
    decisions: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        """Check that every decision has n rows."""
        lengths = {name: len(values) for name, values in self.decisions.items()}
        if any(length != self.size for length in lengths.values()):
            raise ValueError(f"each decision must have {self.size} rows, but got {lengths}")

    @classmethod
    def from_configs(cls, workload: Workload, configs: Sequence[Config]) -> "ConfigBatch":
        """The columns of these configs, which must decide the same.

        Raises:
            ValueError: Their decisions differ in name, or in the number of factors.
        """
        names = list(configs[0].decisions) if configs else []
        if any(config.decisions.keys() != set(names) for config in configs):
            raise ValueError(f"all configs must decide {sorted(names)}, as the first of them does")
        rows = {name: [config.decisions[name] for config in configs] for name in names}
        return cls(workload, len(configs), {name: np.array(values) for name, values in rows.items()})

    def configs(self, rows: Sequence[int] | NDArray[np.intp] | None = None) -> list[Config]:
        """The configs of these rows, or of all."""
        rows = range(self.size) if rows is None else rows
        lists = {name: values[rows].tolist() for name, values in self.decisions.items()}
        return [
            Config({name: _decision(values[i]) for name, values in lists.items()}) for i in range(len(rows))
        ]

    def take(self, rows: NDArray[Any]) -> "ConfigBatch":
        """The configs of these rows (positions, or a mask) as columns."""
        chosen = {name: values[rows] for name, values in self.decisions.items()}
        return ConfigBatch(self.workload, len(np.arange(self.size)[rows]), chosen)

    def named(self, prefix: str) -> list[NDArray[Any]]:
        """Columns of the decisions whose name starts so, in order."""
        return [values for name, values in self.decisions.items() if name.startswith(prefix)]


def config_batches(candidates: Sequence[Candidate]) -> list[tuple[NDArray[np.intp], ConfigBatch]]:
    """Candidates by workload and sketch: the positions of each group, and its columns."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, candidate in enumerate(candidates):
        decisions = candidate.config.decisions
        shape = tuple((name, _shape(value)) for name, value in decisions.items())
        key = (candidate.workload.name, decisions.get(SKETCH), shape)
        groups.setdefault(key, []).append(position)
    return [
        (
            np.array(positions, dtype=np.intp),
            ConfigBatch.from_configs(
                candidates[positions[0]].workload, [candidates[i].config for i in positions]
            ),
        )
        for positions in groups.values()
    ]


def _shape(value: Decision) -> int | str:
    """What must agree between the values of a column: the number of factors, else the type."""
    return len(value) if isinstance(value, tuple) else type(value).__name__


def _decision(value: Any) -> Decision:
    """A value of a column as a config has it."""
    return tuple(value) if isinstance(value, list) else value
