"""Workloads drawn at random: varied, far from each other, and the same in every process."""

from collections import Counter
from itertools import combinations

import pytest

from costmodel.errors import CostModelError
from costmodel.records._operators import OPERATORS
from costmodel.records._workload import Shape
from costmodel.workloads import catalogue
from costmodel.workloads._sample import sample_workloads

pytestmark = pytest.mark.white_box

DRAWN = sample_workloads(200, seed=5)


def ratio(one: Shape, other: Shape) -> float:
    """The largest factor between two sizes, written anew."""
    if one.family != other.family:
        return float("inf")
    return max(max(a / b, b / a) for dim, a in one.dims.items() for b in [other.dims[dim]])


def test_no_two_are_near_twins() -> None:
    assert all(ratio(a.shape, b.shape) > 1.25 for a, b in combinations(DRAWN, 2))


def test_every_family_type_and_most_epilogues_come() -> None:
    families = Counter(each.shape.family for each in DRAWN)
    assert families.keys() == {operator.family for operator in OPERATORS.values()}
    assert min(families.values()) >= 5
    assert 80 < sum(each.dtype == "float16" for each in DRAWN) < 120
    assert len({each.operator.epilogue for each in DRAWN}) > 10
    images = [each for each in DRAWN if "conv2d" in each.kind]
    assert all(
        each.kind.startswith(("conv2d_nhwc", "depthwise_conv2d_nhwc"))
        for each in images
        if each.dtype == "float16"
    )


def test_shapes_are_those_of_networks_and_others_with_odd_sizes() -> None:
    known = {entry.workload.shape.name for entry in catalogue()}
    of_networks = [each for each in DRAWN if each.shape.name in known]
    assert 30 < len(of_networks) < 120
    odd = [each for each in DRAWN if any(size > 8 and size % 2 for size in each.dims.values())]
    assert len(odd) > 40


def test_none_takes_long_or_no_time() -> None:
    assert all(1 << 16 <= each.min_bytes <= 1 << 26 for each in DRAWN)
    assert max(each.flops for each in DRAWN) <= 12e9


def test_the_seed_decides_and_longer_lists_begin_with_shorter_ones() -> None:
    assert sample_workloads(20, seed=5) == DRAWN[:20]
    assert sample_workloads(20, seed=6) != DRAWN[:20]


def test_they_keep_apart_from_others() -> None:
    twins = [each.shape for each in DRAWN[:20]]
    others = sample_workloads(100, seed=5, apart_from=twins)
    assert all(ratio(each.shape, twin) > 1.25 for each in others for twin in twins)
    without = sample_workloads(50, seed=5, apart_from=[Shape.parse("matmul"), Shape.parse("conv2d-k3")])
    assert not [each for each in without if each.shape.family == "matmul"]
    assert not [each for each in without if each.shape.family == "conv2d" and each.dims["k"] == 3]


def test_where_there_are_no_more_it_says_so() -> None:
    everything = [Shape(operator.family, {}) for operator in OPERATORS.values()]
    with pytest.raises(CostModelError, match=r"There must be 3 workloads .* but 0 were found. Ask for fewer"):
        sample_workloads(3, seed=0, apart_from=everything)
