"""All configs that meet the conditions, as rows of indices into each parameter's choices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.family._formula import Formula, all_hold

Rows = NDArray[np.uint16]  # (n, parameters)

_MOST_ROWS = 1 << 22  # while a space is listed; beyond, it is drawn from
_CHUNK = 1 << 16
_MOST_CHUNKS = 200


class ValidConfigs:
    """The configs of parameters that meet conditions.

    Args:
        choices: Choices of each parameter, in order.
        conditions: What must hold.
        fixed: What conditions may use beside the parameters.

    Raises:
        FormulaError: A condition uses something else.
    """

    def __init__(
        self, choices: Mapping[str, Sequence[Any]], conditions: Sequence[Formula], fixed: Mapping[str, Any]
    ) -> None:
        self._tables = {name: np.array(values) for name, values in choices.items()}
        self._conditions = conditions
        self._fixed = fixed
        for condition in conditions:
            condition.check_names({*choices, *fixed})

    def columns(self, rows: Rows) -> dict[str, NDArray[Any]]:
        """``(n,)`` values of each parameter."""
        return {name: table[rows[:, i]] for i, (name, table) in enumerate(self._tables.items())}

    def holds(self, columns: Mapping[str, Any], rows: int) -> NDArray[np.bool_]:
        """``(rows,)`` whether the conditions hold."""
        return all_hold(self._conditions, {**self._fixed, **columns}, rows)

    def all_rows(self) -> Rows | None:
        """Every config, the first parameter changing slowest; None where listing them takes too much.

        Parameters come in one after the other, and each condition is asked as soon as it can be, so that
        most combinations are never made.
        """
        rows = np.zeros((1, 0), dtype=np.uint16)
        open_, names = list(self._conditions), set(self._fixed)
        for name, table in self._tables.items():
            names.add(name)
            if len(rows) * len(table) > _MOST_ROWS * 16:
                return None
            ready = [condition for condition in open_ if names.issuperset(condition.names)]
            open_ = [condition for condition in open_ if condition not in ready]
            rows = self._with_parameter(rows, len(table), ready)
            if len(rows) > _MOST_ROWS:
                return None
        return rows

    def draw(self, size: int, rng: np.random.Generator) -> Rows:
        """Random configs, each equally likely, by rejection; fewer where hardly any combination is one."""
        kept = [np.zeros((0, len(self._tables)), dtype=np.uint16)]
        missing = size
        for _ in range(_MOST_CHUNKS):
            rows = np.stack(
                [rng.integers(len(table), size=_CHUNK, dtype=np.uint16) for table in self._tables.values()],
                axis=1,
            )
            kept.append(rows[self.holds(self.columns(rows), _CHUNK)][:missing])
            missing -= len(kept[-1])
            if not missing:
                break
        return np.concatenate(kept)

    def _with_parameter(self, rows: Rows, count: int, conditions: Sequence[Formula]) -> Rows:
        """Each row with each choice of the next parameter, where the conditions hold."""
        kept = []
        step = max(1, _CHUNK // count)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            choice = np.tile(np.arange(count, dtype=np.uint16), len(part))
            more = np.hstack([np.repeat(part, count, axis=0), choice[:, None]])
            columns = {
                name: table[more[:, i]]
                for i, (name, table) in enumerate(self._tables.items())
                if i < more.shape[1]
            }
            kept.append(more[all_hold(conditions, {**self._fixed, **columns}, len(more))])
        return np.concatenate(kept) if kept else np.zeros((0, rows.shape[1] + 1), dtype=np.uint16)
