"""Arguments are checked before any work."""

import math

import numpy as np
import pytest

from costmodel.arguments import check_number, check_seed, check_whole
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize("value", [1, 16, np.int64(3)])
def test_whole_numbers_pass(value):
    assert check_whole("trials", value, 1) == value
    assert type(check_whole("trials", value)) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, 1.0, "32", None, True, 2**31, [1], "x" * 10_000])
def test_others_do_not(value):
    with pytest.raises(CostModelError, match="trials must be a whole number of at least 1") as caught:
        check_whole("trials", value, 1)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [-1, 1.5, 2**32, "0"])
def test_seeds_that_no_generator_takes(value):
    with pytest.raises(CostModelError, match="seed must be"):
        check_seed(value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "3", None, True, 10**40])
def test_numbers_that_are_none(value):
    with pytest.raises(CostModelError, match="gain must be a number from 0 to"):
        check_number("gain", value)
    assert check_number("gain", 2) == 2.0
