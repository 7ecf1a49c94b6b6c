"""The data of a family's workloads, where kernels depend on what is in their arrays."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.kernels.family._module import load_module

Arrays = dict[str, NDArray[Any]]

_SEED = 20261


class FamilyData:
    """What ``data.py`` beside a description says: facts of the data of given dims, and arrays that have them.

    Its function ``facts(dims)`` gives the numbers that the description names, at once: it is asked of each
    workload that is ranked. ``arrays(dims, rng)`` makes arguments by name, the same for the same ``rng``.

    Args:
        file: The file; it need not exist where nothing is asked of it.
        names: The facts that formulas use.
    """

    def __init__(self, file: Path, names: tuple[str, ...] = ()) -> None:
        self._file = file
        self._names = names
        self._facts: dict[tuple[tuple[str, int], ...], dict[str, float]] = {}

    def facts(self, dims: Mapping[str, int]) -> dict[str, float]:
        """The facts of the data of these dims.

        Raises:
            CostModelError: The file fails, or says others than the description names.
        """
        if not self._names:
            return {}
        key = tuple(dims.items())
        if key not in self._facts:
            self._facts[key] = self._checked(self._call("facts", dims), dims)
        return self._facts[key]

    def arrays(self, dims: Mapping[str, int]) -> Arrays:
        """Arguments by name, the same in every process.

        Raises:
            CostModelError: The file fails.
        """
        found = self._call("arrays", dims, np.random.default_rng(_SEED))
        if not isinstance(found, Mapping):
            raise CostModelError(f"{self._file}: arrays must return a dict, but got {type(found).__name__}.")
        return {name: np.asarray(array) for name, array in found.items()}

    def _call(self, name: str, dims: Mapping[str, int], *arguments: Any) -> Any:
        function = function_of(self._file, name, "dims" if name == "facts" else "dims, rng")
        try:
            return function(dict(dims), *arguments)
        except CostModelError as error:
            raise CostModelError(f"There are no data of the dims {dict(dims)}: {error}") from None
        except Exception as error:
            raise CostModelError(f"{self._file}: {name} failed on {dict(dims)}: {error!r}.") from error

    def _checked(self, found: Any, dims: Mapping[str, int]) -> dict[str, float]:
        if not isinstance(found, Mapping) or not set(self._names) <= set(found):
            raise CostModelError(f"{self._file}: facts must return a dict that has {list(self._names)}.")
        facts = {name: found[name] for name in self._names}
        for name, value in facts.items():
            if not math.isfinite(value):
                raise CostModelError(f"{self._file}: {name} of {dict(dims)} must be finite, but got {value}.")
        return facts


def function_of(file: Path, name: str, takes: str) -> Callable[..., Any]:
    """A function of a file of Python beside a description.

    Args:
        file: The file, which is run once a process.
        name: The function's name.
        takes: What it takes, for a message.

    Raises:
        CostModelError: There is no such file or function, or the file fails.
    """
    function = getattr(load_module(file), name, None)
    if not callable(function):
        raise CostModelError(f"{file} must define {name}({takes}).")
    return function  # type: ignore[no-any-return]
