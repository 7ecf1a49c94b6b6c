"""Features of kernels whose work depends on their data: gathers, sparse products, spikes.

Only tables in which a launch says any of ``DATA_FACTS`` have them, NaN in rows that say none, so that all
other tables stay as they are. Their names begin with ``data/``, see ``_in_columns``.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Column, Tag
from costmodel.features._feature import Feature, columns_of, values_of
from costmodel.features._launch import LaunchFacts, log2_ratio, sum_of
from costmodel.records._candidate import DATA_FACTS


def data_features(facts: LaunchFacts) -> tuple[tuple[Column, ...], FloatArray]:
    """Columns of what data decide, by name, and their ``(n, d)`` values; none if no launch says any of it."""
    says = _says(facts)
    if not says.any():
        return (), np.empty((len(says), 0))
    values = np.column_stack(values_of(_FEATURES, facts))
    return DATA_COLUMNS, np.where(says[:, None], values, np.nan)


def _says(facts: LaunchFacts) -> NDArray[np.bool_]:
    """``(n,)`` whether a launch of the row says any of ``DATA_FACTS``."""
    said: NDArray[np.bool_] = np.any([facts[name] > 0.0 for name in DATA_FACTS], axis=(0, 2))
    return said


def _is_call(facts: LaunchFacts) -> FloatArray:
    """``(n,)`` whether no block is known: a library's call, of which models are wrong in their own way."""
    return np.where(np.isnan(facts["blocks"]).all(axis=1), 1.0, 0.0)


def _per_address(facts: LaunchFacts) -> FloatArray:
    """``(n,)`` atomic operations on an address; 1 where there are none, NaN where addresses are not said."""
    atomics, addresses = sum_of(facts["atomics"]), sum_of(facts["atomic_addresses"])
    known = np.where(addresses > 0.0, addresses, np.nan)
    return np.where(atomics > 0.0, atomics / known, 1.0)


def _block_imbalance(facts: LaunchFacts) -> FloatArray:
    """``(n,)`` bytes of the dominant launch's busiest block over those of a mean one; NaN where not said."""
    traffic = facts["global_load_bytes"] + facts["global_store_bytes"]
    imbalance = facts["busiest_block_bytes"] * facts["blocks"] / np.where(traffic > 0.0, traffic, np.nan)
    found = imbalance[facts.dominant]
    return np.where(found > 0.0, found, np.nan)


def _feature(
    name: str, unit: str, formula: Callable[[LaunchFacts], FloatArray], *tags: Tag
) -> Feature[LaunchFacts]:
    return Feature(f"data/{name}", unit, "launch", formula, tags)


_FEATURES: tuple[Feature[LaunchFacts], ...] = (
    _feature("is_call", "1", _is_call, "interval"),
    _feature("log2_atomics", "log2(1)", lambda k: np.log2(1.0 + sum_of(k["atomics"])), "kernel", "any_sms"),
    _feature(
        "log2_atomics_over_roofline",
        "log2(1)",
        lambda k: k.over_bound(sum_of(k.times.atomics)),
        "component_time",
    ),
    _feature("log2_atomics_per_address", "log2(1)", lambda k: np.log2(_per_address(k)), "kernel", "any_sms"),
    _feature("log2_block_imbalance", "log2(1)", lambda k: np.log2(_block_imbalance(k)), "kernel", "any_sms"),
    _feature(
        "log2_chain", "log2(1)", lambda k: np.log2(1.0 + sum_of(k["longest_chain"])), "kernel", "any_sms"
    ),
    _feature("log2_device_bytes", "log2(byte)", lambda k: np.log2(k.work.device_bytes), "kernel", "any_sms"),
    _feature(
        "log2_reuse",
        "log2(1)",
        lambda k: log2_ratio(k.global_bytes, k.work.device_bytes),
        "kernel",
        "any_sms",
    ),
)
DATA_COLUMNS = columns_of(_FEATURES)
