"""Configs as columns, and back."""

import numpy as np
import pytest

from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import ConfigBatch, config_batches

pytestmark = pytest.mark.white_box

MATMUL = Workload.parse("matmul-m4-n4-k4")
CONFIGS = [
    Config({"sketch": 1, "tile.i": (1, 4), "tile.j": (2, 2), "unroll": 16, "order": "ij"}),
    Config({"sketch": 1, "tile.i": (2, 2), "tile.j": (4, 1), "unroll": 64, "order": "ji"}),
    Config({"sketch": 1, "tile.i": (4, 1), "tile.j": (1, 4), "unroll": 0, "order": "ij"}),
]


@pytest.fixture
def batch() -> ConfigBatch:
    return ConfigBatch.from_configs(MATMUL, CONFIGS)


def test_columns_hold_each_config_in_its_row(batch: ConfigBatch) -> None:
    assert (batch.workload, batch.size) == (MATMUL, 3)
    assert list(batch.decisions) == list(CONFIGS[0].decisions)
    assert batch.decisions["tile.j"].tolist() == [[2, 2], [4, 1], [1, 4]]
    assert batch.decisions["unroll"].tolist() == [16, 64, 0]
    assert [column.tolist() for column in batch.named("tile.")] == [
        [[1, 4], [2, 2], [4, 1]],
        [[2, 2], [4, 1], [1, 4]],
    ]


def test_configs_are_read_back_as_they_were(batch: ConfigBatch) -> None:
    assert batch.configs() == CONFIGS
    assert batch.configs([2, 0]) == [CONFIGS[2], CONFIGS[0]]
    assert [config.config_id for config in batch.configs()] == [config.config_id for config in CONFIGS]


@pytest.mark.parametrize("rows", [[2, 1], [False, True, True], []])
def test_rows_are_taken_by_position_or_mask(batch: ConfigBatch, rows: list[int] | list[bool]) -> None:
    positions = np.array(rows, dtype=None if rows else np.intp)
    taken = batch.take(positions)
    assert taken.workload == MATMUL
    assert taken.size == len(np.arange(3)[positions])
    assert taken.configs() == batch.configs(np.arange(3)[positions])


def test_no_configs_are_an_empty_batch() -> None:
    batch = ConfigBatch.from_configs(MATMUL, [])
    assert (batch.size, batch.decisions, batch.configs()) == (0, {}, [])


def test_configs_that_decide_otherwise_are_refused() -> None:
    other = Config({"sketch": 1, "unroll": 16})
    with pytest.raises(
        ValueError, match=r"must decide \['order', 'sketch', 'tile\.i', 'tile\.j', 'unroll'\], as the first"
    ):
        ConfigBatch.from_configs(MATMUL, [CONFIGS[0], other])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have 2 rows, but got \{'a': 2, 'b': 3\}"):
        ConfigBatch(MATMUL, 2, {"a": np.zeros(2), "b": np.zeros(3)})


def test_candidates_are_grouped_where_their_columns_agree() -> None:
    other = Workload.parse("matmul-m4-n4-k8")
    groups = {
        "tiles": [(MATMUL, CONFIGS[0]), (MATMUL, CONFIGS[2])],
        "another workload": [(other, CONFIGS[1])],
        "another sketch": [(MATMUL, Config({**CONFIGS[0].decisions, "sketch": 2}))],
        "more factors": [(MATMUL, Config({**CONFIGS[0].decisions, "tile.i": (1, 2, 2)}))],
        "another type": [(MATMUL, Config({**CONFIGS[0].decisions, "unroll": "all"}))],
        "fewer decisions": [(MATMUL, Config({"unroll": 16})), (MATMUL, Config({"unroll": 64}))],
    }
    named = [(name, pair) for name, pairs in groups.items() for pair in pairs]
    mixed = named[::2] + named[1::2]
    candidates = [Candidate(workload, "space", config) for _, (workload, config) in mixed]
    found = config_batches(candidates)
    assert len(found) == len(groups)
    assert sorted(position for positions, _ in found for position in positions) == list(range(len(mixed)))
    for positions, batch in found:
        assert positions.dtype == np.intp
        assert len({mixed[position][0] for position in positions}) == 1
        assert batch.workload == candidates[positions[0]].workload
        assert batch.configs() == [candidates[position].config for position in positions]
