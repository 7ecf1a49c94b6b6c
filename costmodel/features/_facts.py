"""Facts of candidates whatever the platform: columns of configs, and facts of launches; each object once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.features._config import CONFIG_COLUMNS, config_values
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.records._candidate import Candidate, ConfigBatch, KernelLaunch, config_batches

Launches = Literal["estimated", "lowered"]

_FIELDS = KernelLaunch.__struct_fields__


@dataclass(frozen=True)
class ConfigFacts:
    """Facts of n configs.

    Attributes:
        config: ``(n, c)`` values of ``CONFIG_COLUMNS``.
        launches: Each field of ``KernelLaunch`` as ``(n, l)``; NaN behind a config's last launch, l >= 1.
    """

    config: FloatArray
    launches: Mapping[str, FloatArray]

    def take(self, rows: np.ndarray) -> "ConfigFacts":
        """The facts of these rows."""
        return ConfigFacts(self.config[rows], {name: facts[rows] for name, facts in self.launches.items()})


def batch_facts(batch: ConfigBatch, launches: Mapping[str, FloatArray] | None = None) -> ConfigFacts:
    """Facts of a batch, from its decisions; its launches too, unless they are given."""
    config = stacked(config_values(batch), batch.size)
    return ConfigFacts(config, estimate_launches(batch) if launches is None else launches)


def candidate_facts(candidates: Sequence[Candidate], launches: Launches) -> ConfigFacts:
    """Facts of candidates, taken together by workload and sketch."""
    config = np.full((len(candidates), len(CONFIG_COLUMNS)), np.nan)
    recorded = _recorded(candidates)
    facts = recorded if launches == "lowered" else np.full_like(recorded, np.nan)
    for rows, batch in config_batches(candidates):
        if batch.workload.is_opaque:
            continue
        config[rows] = stacked(config_values(batch), batch.size)
        if launches == "estimated":
            estimated = np.stack(list(estimate_launches(batch).values()), axis=-1)
            facts = _widened(facts, estimated.shape[1])
            facts[rows, : estimated.shape[1]] = estimated
    # Sketches whose decisions tell no launches, such as those of a CPU, keep what was recorded.
    unknown = np.isnan(facts[:, 0, 0])
    facts[unknown, : recorded.shape[1]] = recorded[unknown]
    return ConfigFacts(config, {field: facts[:, :, i] for i, field in enumerate(_FIELDS)})


def stacked(columns: Sequence[FloatArray | float], size: int) -> FloatArray:
    """Columns side by side as ``(size, d)``; a number stands for a column of it."""
    values = np.empty((size, len(columns)))
    for i, column in enumerate(columns):
        values[:, i] = column
    return values


def _recorded(candidates: Sequence[Candidate]) -> FloatArray:
    """``(n, l, fields)`` facts that came with the candidates; NaN where there are none.

    Of a library's call, which has no blocks that anyone knows, what is 0 is not known.
    """
    width = max((len(candidate.launches) for candidate in candidates), default=0) or 1
    facts = np.full((len(candidates), width, len(_FIELDS)), np.nan)
    for i, candidate in enumerate(candidates):
        for j, launch in enumerate(candidate.launches):
            facts[i, j] = [getattr(launch, field) for field in _FIELDS]
    is_call = facts[:, :, _FIELDS.index("blocks")] == 0.0
    facts[is_call] = np.where(facts[is_call] == 0.0, np.nan, facts[is_call])
    return facts


def _widened(facts: FloatArray, width: int) -> FloatArray:
    """``facts`` with room for ``width`` launches."""
    missing = max(0, width - facts.shape[1])
    return np.pad(facts, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)


T = TypeVar("T")


def distinct_objects(objects: Sequence[T]) -> tuple[list[T], NDArray[np.intp]]:
    """Return the distinct objects by identity, in order of appearance, and each row's position among them."""
    position: dict[int, int] = {}
    row = [position.setdefault(id(item), len(position)) for item in objects]
    first = dict(zip(reversed(row), reversed(objects), strict=True))
    return [first[i] for i in range(len(position))], np.array(row, dtype=np.intp)
