"""Lookups by the histogram of the dims, in the order of bags and of rows, and what is expected of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.lookups import Bags, Histogram, Lookups, missed_rows, row_bytes


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Row, bag and weight of each lookup, twice."""
    lookups = Lookups.draw(dims, rng)
    by_bag = {
        "indices": lookups.indices,
        "bags": lookups.bags,
        "weights": rng.standard_normal(len(lookups.indices), dtype=np.float32),
    }
    order = lookups.by_row
    return {**by_bag, **{f"sorted_{name}": array[order] for name, array in by_bag.items()}}


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Rows that are met and missed, bytes that a row takes, and lookups of the hottest row."""
    bags, histogram = Bags.of_dims(dims), Histogram.of_dims(dims)
    return {
        "row_bytes": row_bytes(dims["d"]),
        "distinct_rows": histogram.distinct_rows(bags.lookups),
        "missed_rows": missed_rows(histogram, bags.lookups, dims["d"]),
        "most_lookups": histogram.most_lookups(bags.lookups),
    }
