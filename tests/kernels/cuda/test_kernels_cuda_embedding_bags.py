"""Kernels of embedding bags, run exactly on the CPU: every way to share the work, and facts of data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from emulator import Emulator
from test_kernels_cuda_families import FAMILIES

from costmodel.kernels.family import FamilySpace
from costmodel.records import Config, ConfigBatch

FORWARD, BACKWARD = FAMILIES["embedding_bag"], FAMILIES["embedding_bag_backward"]
SKEWED = {"h": 96, "w": 96, "x": 96, "y": 300, "z": 600}
ODD = {"r": 400, "d": 18, "b": 41, "l": 9, "v": 3, **SKEWED}  # with empty bags
MANY = {"r": 400, "d": 6, "b": 700, "l": 2, "v": 4, **SKEWED}  # for a grid that takes turns

FORWARD_KINDS: Mapping[str, Mapping[str, Any]] = {
    "a group a bag": {"row_groups": 1, "staged_lookups": 0},
    "groups of a warp": {"threads_per_row": 8, "row_groups": 4, "staged_lookups": 0},
    "groups beyond a warp": {"threads_per_row": 8, "row_groups": 8, "staged_lookups": 0},
    "rows beyond a warp": {"threads_per_row": 16, "row_groups": 16, "staged_lookups": 0},
    "staged": {"row_groups": 1, "staged_lookups": 128, "bags_per_block": 32},
    "staged, groups beyond a warp": {"row_groups": 8, "staged_lookups": 128, "bags_per_block": 8},
}
BACKWARD_KINDS: Mapping[str, Mapping[str, Any]] = {
    "by lookup": {"variant": "by_lookup"},
    "by run": {"variant": "by_run"},
    "by run, long": {"variant": "by_run", "lookups_per_group": 64},
    "by segment": {"variant": "by_segment"},
    "by segment, beyond what is one's own": {
        "variant": "by_segment",
        "lookups_per_group": 1,
        "in_flight": 8,
    },
}
CASES = [
    *((FORWARD, kind, settings, dims) for kind, settings in FORWARD_KINDS.items() for dims in (ODD,)),
    *((BACKWARD, kind, settings, dims) for kind, settings in BACKWARD_KINDS.items() for dims in (ODD,)),
    *(
        (FORWARD, f"turns, {each}", {"grid_blocks": 264, **settings}, MANY)
        for each, settings in {
            "alone": {"row_groups": 1, "staged_lookups": 0},
            "staged": {"staged_lookups": 128},
            "beyond a warp": {"threads_per_row": 8, "row_groups": 8},
        }.items()
        if settings.get("row_groups", 1) < 2 * MANY["l"]
    ),
]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator(tmp_path_factory.mktemp("emulator"))


def drawn(space: FamilySpace, settings: Mapping[str, Any], count: int) -> list[Config]:
    """Random configs with some parameters as given."""
    batch = space.draw(0, space.count or 0, np.random.default_rng(0))
    fits = np.logical_and.reduce([batch.decisions[name] == value for name, value in settings.items()])
    assert fits.sum() >= count, settings
    columns = {name: column[fits][:count] for name, column in batch.decisions.items()}
    return ConfigBatch(space.workload, count, columns).configs()
