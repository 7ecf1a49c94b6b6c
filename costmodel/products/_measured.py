"""What was measured of products: tables as ``products-sm-budgets`` has them, and kernels of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.products._columns import kernel_columns
from costmodel.products._core import Rates, time_terms
from costmodel.products._cublaslt_tiles import describe_algorithm
from costmodel.products._product import Kernel, Product

_SHAPE = [*Product._fields]
_CHOSEN = [*Kernel._fields[2:9], "per_sm"]
_LIBRARY = ("id", "tile", "stages", "splits", "custom", "cluster")
_LISTED = ["backend", "kind", "position", *(f"lt_{name}" for name in _LIBRARY)]
_SHORTEST_S = 1e-3


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows of one device, those of a task (a product on some SMs) beside one another.

    Attributes:
        rows: The table, with the columns ``task`` and ``seconds``; warm L2, first visits.
        products: Product of each task.
        sms: SMs of each task.
        kernels: Kernel of each row.
        starts: Where the rows of each task begin, and the end.
    """

    rows: pd.DataFrame
    products: list[Product]
    sms: list[int]
    kernels: list[Kernel]
    starts: "np.ndarray[Any, Any]"

    def task(self, i: int) -> slice:
        """Rows of a task."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    def columns(
        self, rates: dict[str, Rates], whole: int, kernels: Sequence[Kernel] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what a learner sees of every row, and its analytic seconds.

        Args:
            rates: Of the device, by dtype.
            whole: Its SMs.
            kernels: Of the rows, as they are described; by default all that is known of them.
        """
        X, seconds = [], []
        described = self.kernels if kernels is None else kernels
        for i, (product, sms) in enumerate(zip(self.products, self.sms, strict=True)):
            kernels = described[self.task(i)]
            terms = time_terms(product, kernels, sms, rates[product.dtype], whole)
            X.append(kernel_columns(product, kernels, sms, terms))
            seconds.append(terms[:, 0])
        return np.concatenate(X), np.concatenate(seconds)


def read_measured(paths: Sequence[Path]) -> Measured:
    """Read the rows of several files, see ``read_timed``."""
    return gather(pd.concat([read_timed(path) for path in paths], ignore_index=True))


def read_timed(path: Path) -> pd.DataFrame:
    """Read what was timed with a warm L2; failures, and single runs that are short, are left out."""
    table = pd.read_parquet(path)
    table = table[(table.outcome == "ok") & (table.regime == "warm") & (table.visit == 0)]
    # The clock of a single run starts before its launch, which took up to 0.2 ms: no time of short ones.
    table = table[(table.one_run == 0) | (table.seconds >= _SHORTEST_S)]
    return table.fillna({"kind": "", "epilogue": ""})


def gather(table: pd.DataFrame) -> Measured:
    """Put the rows of each task together."""
    texts = ("dtype", "layout", "epilogue", "kind", "backend", "family")
    table = table.assign(**{name: table[name].astype(object) for name in texts})
    table = table[table.family == table.groupby(_SHAPE).family.transform("first")]  # a product of two models
    table = table.sort_values([*_SHAPE, "sms"], kind="stable").reset_index(drop=True)
    keys = table[[*_SHAPE, "sms"]].drop_duplicates()
    starts = np.append(keys.index.to_numpy(), len(table))
    table["task"] = np.repeat(np.arange(len(keys)), np.diff(starts))
    products = [Product(*(_plain(value) for value in row)) for row in keys[_SHAPE].itertuples(index=False)]
    kernels = [kernel_of(row) for row in table[[*_CHOSEN, *_LISTED, "dtype"]].to_dict("records")]
    return Measured(table, products, keys.sms.astype(int).tolist(), kernels, starts)


def kernel_of(row: Mapping[Any, Any]) -> Kernel:
    """Return the kernel of a row of a table of measurements."""
    if row["backend"] == "torch":
        return Kernel("torch")
    if row["backend"] == "triton":
        return Kernel("triton", row["kind"], *(int(row[name]) for name in _CHOSEN))
    config = {name: int(row[f"lt_{name}"]) for name in _LIBRARY}
    return describe_algorithm(Product(1, 1, 1, dtype=row["dtype"]), row["kind"], int(row["position"]), config)


def without_lists(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels as they are known without asking cuBLASLt what its algorithms are."""
    return [
        Kernel(*each[:2], position=each.position) if each.backend == "cublaslt" else each for each in kernels
    ]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else int(value)
