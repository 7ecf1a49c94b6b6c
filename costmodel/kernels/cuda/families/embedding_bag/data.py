"""Lookups by the histogram of the dims, and what is expected of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.lookups import Bags, Histogram, Lookups, missed_rows, random_table, row_bytes


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The table, and what is looked up in it."""
    lookups = Lookups.draw(dims, rng)
    table = random_table(dims["r"], dims["d"], rng)
    return {"table": table, "indices": lookups.indices, "offsets": lookups.offsets}


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Rows that are met and missed, bytes that a row takes, and how far bags are from the mean."""
    bags, histogram = Bags.of_dims(dims), Histogram.of_dims(dims)
    return {
        "row_bytes": row_bytes(dims["d"]),
        "distinct_rows": histogram.distinct_rows(bags.lookups),
        "missed_rows": missed_rows(histogram, bags.lookups, dims["d"]),
        "longest_bag": int(bags.lengths.max()),
        "excess_lookups": bags.excess,
    }
