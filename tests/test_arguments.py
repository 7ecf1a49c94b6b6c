"""Arguments are checked before any work."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from costmodel.arguments import check_number, check_path, check_seed, check_whole
from costmodel.databases import parse_database
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.table._files import find_dataset
from costmodel.errors import CostModelError
from costmodel.files import check_writable

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize("value", [1, 16, np.int64(3)])
def test_whole_numbers_pass(value):
    assert check_whole("trials", value, 1) == value
    assert type(check_whole("trials", value)) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, 1.0, "32", None, True, [1], "x" * 10_000])
def test_others_do_not(value):
    with pytest.raises(CostModelError, match="trials must be a whole number of at least 1") as caught:
        check_whole("trials", value, 1)
    assert len(str(caught.value)) < 300


def test_of_a_number_that_is_too_large_the_most_is_said():
    with pytest.raises(CostModelError, match="from 1 to 2,147,483,647, but got 2147483648"):
        check_whole("trials", 2**31, 1)


@pytest.mark.parametrize("value", [-1, 1.5, 2**32, "0"])
def test_seeds_that_no_generator_takes(value):
    with pytest.raises(CostModelError, match="seed must be"):
        check_seed(value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "3", None, True, 10**40])
def test_numbers_that_are_none(value):
    with pytest.raises(CostModelError, match="gain must be a number from 0 to"):
        check_number("gain", value)
    assert check_number("gain", 2) == 2.0


@pytest.mark.parametrize("path", [b"pla\xffce.csv", b"\xe9/data.parquet"])
def test_a_path_that_is_no_text_is_refused_before_arrow_or_a_database_fails_on_it(path: bytes) -> None:
    name = os.fsdecode(path)
    for check in (
        lambda: check_path("files", name),
        lambda: check_writable(Path(name)),
        lambda: read_source(Path(name)),
        lambda: find_dataset(name),
    ):
        with pytest.raises(CostModelError, match=r"must be a path in UTF-8 .* but got .*: rename it"):
            check()
    with pytest.raises(CostModelError, match="the place of a database must be a text"):
        parse_database(f"{name}.db", "A study")
    assert check_path("files", "日本 ü.csv") == Path("日本 ü.csv")
