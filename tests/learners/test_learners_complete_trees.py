import numpy as np
import pytest

from costmodel.learners._complete_trees import are_trees

pytestmark = pytest.mark.white_box

SPLITS = np.array([[0, 1, 2], [2, 2, 0]], np.uint8)
THRESHOLDS = np.zeros((2, 3), np.float16)
LEAVES = np.ones((2, 4), np.float32)


def test_complete_trees_of_finite_numbers_are_trees() -> None:
    assert are_trees(SPLITS, THRESHOLDS, LEAVES, 3)
    assert are_trees(SPLITS[:0], THRESHOLDS[:0], LEAVES[:0], 0)
    assert are_trees(SPLITS[:, :0], THRESHOLDS[:, :0], LEAVES[:, :1], 0)


@pytest.mark.parametrize(
    ("splits", "thresholds", "leaves", "columns"),
    [
        (SPLITS, THRESHOLDS, LEAVES, 2),
        (SPLITS.astype(np.int8), THRESHOLDS, LEAVES, 3),
        (SPLITS[0], THRESHOLDS[0], LEAVES[0], 3),
        (SPLITS[:, :2], THRESHOLDS[:, :2], LEAVES[:, :3], 3),
        (SPLITS, THRESHOLDS[:1], LEAVES, 3),
        (SPLITS, THRESHOLDS, LEAVES[:, :3], 3),
        (SPLITS, THRESHOLDS * np.float16("nan"), LEAVES, 3),
        (SPLITS, THRESHOLDS, LEAVES * np.float32("inf"), 3),
        (SPLITS, THRESHOLDS.astype(str), LEAVES, 3),
    ],
)
def test_others_are_none(splits, thresholds, leaves, columns) -> None:
    assert not are_trees(splits, thresholds, leaves, columns)
