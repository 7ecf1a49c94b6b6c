"""What a device worker needs of a runtime: loading kernels, arrays, streams, threads and a timer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

# Launches a kernel with arrays of its runtime. What it gives back, if anything, is its output in place of the
# last argument.
Kernel = Callable[..., Any]


class Runtime(ABC):
    """Loads and launches kernels of one kind of artifact on the first device that this process sees."""

    @property
    @abstractmethod
    def software(self) -> Mapping[str, str]:
        """Versions that can change a latency, by name."""

    @abstractmethod
    def load(self, artifact: Path) -> Kernel:
        """The kernel of an artifact."""

    @abstractmethod
    def copies(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """Copies of arrays on the device; those without axes stay values where kernels take them so."""

    @abstractmethod
    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy values into an array on the device."""

    @abstractmethod
    def read(self, array: Any) -> NDArray[Any]:
        """A copy of an array on the device."""

    def use_stream(self, stream: int) -> None:
        """Launch what follows in this thread on a CUDA stream, given by its handle."""
        raise NotImplementedError

    def use_threads(self, threads: int) -> None:
        """Run what follows on so many threads of a CPU."""
        raise NotImplementedError

    def time(self, kernel: Kernel, arguments: Sequence[Any], runs: int) -> float:
        """Seconds of one run on a CPU, the mean of ``runs`` back-to-back runs after one that is not timed."""
        raise NotImplementedError
