"""A stand-in for a GPU, with which the script runs anywhere and times nothing."""

import random
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from candidates import Variant, tiles_of
from cublaslt import Algorithm

from costmodel.products._product import Kernel, Product


class _Operands:
    def __init__(self, shape: Product) -> None:
        self.shape, self.c = shape, torch.empty(0)

    def poison(self) -> None:
        pass

    def is_right(self, found: torch.Tensor) -> bool:
        return True


class _Product:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def algorithms(self, told: int, most: int) -> list[Algorithm]:
        names = ("id", "tile", "splits", "reduction", "swizzle", "custom", "stages", "inner", "cluster")
        return [
            Algorithm(i, told, 1.0, dict.fromkeys(names, i), lambda _: self._seconds) for i in range(most)
        ]

    def close(self) -> None:
        pass


class FakeGpu:
    """Seconds are the operations over a rate, times how full the waves are, and some noise."""

    def __init__(self, budgets: tuple[int, ...]) -> None:
        self.streams = {sms: sms for sms in budgets}
        self.whole = max(budgets)
        self._draw = random.Random(0)

    def facts(self) -> dict[str, str]:
        return {"device": "made up"}

    def operands(self, shape: Product) -> _Operands:
        return _Operands(shape)

    def on(self, sms: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait(self) -> None:
        pass

    clear = wait

    def product(self, operands: _Operands) -> _Product:
        return _Product(operands.shape.flops / 4e12)

    def call(self, operands: _Operands) -> Any:
        return lambda _: operands.shape.flops / 4e12

    def kernel(self, operands: _Operands, kernel: Kernel, variant: Variant, compiled: Any, sms: int) -> Any:
        shape = operands.shape
        waves = -(-tiles_of(shape, kernel) * kernel.splits // sms)
        work = 2 * kernel.block_m * kernel.block_n * shape.k / kernel.splits
        return lambda _: waves * sms * work / 3.5e12

    def time(self, launch: Any, stream: int, best_s: float) -> tuple[float, int]:
        return 3e-6 + launch(stream) / stream * self._draw.lognormvariate(0, 0.02), 3

    def time_cold(self, launch: Any, stream: int) -> tuple[float, int]:
        return 1.3 * self.time(launch, stream, 0.0)[0], 5
