"""What comes with the package to rank configs of any kernel by what was read of it."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from costmodel import CostModelError
from costmodel.features._ir import READ_COLUMNS
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts
from costmodel.records import find_device
from costmodel.records._platform import part_of
from costmodel.transfer import _read_ranker as module
from costmodel.transfer._read_ranker import (
    ExpectedTime,
    ReadRanker,
    doubt,
    expect_times,
    relative_columns,
    shipped_ranker,
)

pytestmark = pytest.mark.white_box

PLATFORM = part_of(find_device("NVIDIA H100 80GB HBM3"), 32)
PROGRAMS = "ir/log2_programs"


def facts(**told: float) -> ReadFacts:
    return ReadFacts(**{**dict.fromkeys(READ_FACTS, 1.0), **told})


def one_split() -> ReadRanker:
    """More programs than others are slower, fewer are faster."""
    return ReadRanker(
        np.array([PROGRAMS]),
        np.zeros((1, 1), np.uint8),
        np.zeros((1, 1), np.float16),
        np.array([[-1.0, 1.0]], np.float16),
    )


def test_configs_are_ranked_relative_to_one_another() -> None:
    few, many = facts(programs=1024), facts(programs=4096)
    more = facts(programs=65536)
    assert one_split().predict([few, many], PLATFORM).tolist() == [-1.0, 1.0]
    assert one_split().predict([more, many], PLATFORM).tolist() == [1.0, -1.0]


def test_what_was_not_read_has_no_rank_and_changes_none() -> None:
    read = [facts(programs=1024), facts(programs=4096)]
    told = shipped_ranker().predict([None, *read, ReadFacts()], PLATFORM)
    assert np.isnan(told[[0, 3]]).all()
    assert told[1:3].tolist() == shipped_ranker().predict(read, PLATFORM).tolist()


def test_columns_are_less_their_means_over_what_is_known() -> None:
    nan = np.nan
    X = np.array([[1.0, nan, 7.0], [3.0, 5.0, 7.0], [nan, nan, nan]])
    assert relative_columns(X)[:2].tolist() == [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert np.isnan(relative_columns(X)[2]).all()


def test_what_comes_with_the_package_knows_that_waste_is_slow() -> None:
    """Sixteen times the loads, sectors and turns for the same programs."""
    lean = facts(programs=4096, threads=128, load_bytes=8192, load_sectors=256, load_distinct_sectors=256)
    waste = replace(lean, load_bytes=131072, load_sectors=4096, load_distinct_sectors=4096, loop_steps=64)
    ranker = shipped_ranker()
    low, high = ranker.predict([lean, waste], PLATFORM)
    assert low < high
    assert set(ranker.columns.tolist()) <= {column.name for column in READ_COLUMNS}


NAN = float("nan")


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> list[ReadFacts | None]:
    """Configs of which the second should take e times as long as the first; the third is not read."""
    monkeypatch.setattr(module, "shipped_ranker", one_split)
    monkeypatch.setattr(ReadRanker, "predict", lambda *_: np.array([-0.5, 0.5, NAN]))
    return [facts(), facts(), None]


def test_times_are_relative_to_the_mean_until_one_is_known(three: list[ReadFacts | None]) -> None:
    first, second, third = expect_times(three, PLATFORM, np.full(3, NAN))
    assert first
    assert second
    assert third is None
    assert first.expected * second.expected == pytest.approx(1.0)
    assert second.expected / first.expected == pytest.approx(np.e)
    for each in (first, second):
        assert not each.in_seconds
        assert each.high / each.expected == pytest.approx(each.expected / each.low)
        assert np.log(each.high / each.expected) == pytest.approx(1.1 * (0.1 + 0.5**0.5))


def test_a_timing_tells_seconds_of_the_others(three: list[ReadFacts | None]) -> None:
    first, second, third = expect_times(three, PLATFORM, np.array([2e-3, NAN, NAN]))
    assert first == ExpectedTime(2e-3, 2e-3, 2e-3, True)
    assert second
    assert second.expected == pytest.approx(2e-3 * np.e)
    assert second.low < 2e-3 * np.e < second.high
    assert second.in_seconds
    assert third is None
    assert str(first) == "2e+03 us"


def test_seconds_follow_from_what_was_read_and_timed(three: list[ReadFacts | None]) -> None:
    found = expect_times(three, PLATFORM, np.array([NAN, NAN, 2e-3]))
    assert found == [None, None, ExpectedTime(2e-3, 2e-3, 2e-3, True)]


def test_no_time_is_below_what_products_take_at_the_peak(three: list[ReadFacts | None]) -> None:
    heavy = facts(programs=1e6, tensor_flops=1e9, product_bits=16)
    device = PLATFORM.device
    peak = PLATFORM.sms_granted * device.tensor_flops_per_sm_clock * device.clock_mhz * 1e6
    _, second, _ = expect_times([None, heavy, None], PLATFORM, np.array([1e-6, NAN, NAN]))
    assert second
    assert second.low == second.expected == second.high == pytest.approx(1e15 / peak)


def test_doubt_grows_with_what_predictions_are_spread_by() -> None:
    assert doubt(np.array([NAN, 0.3])) == doubt(np.zeros(5)) == 0.1
    assert doubt(np.array([-1.0, 1.0, NAN])) == pytest.approx(0.1 + 2**0.5)


def test_trees_are_walked_as_they_are_defined() -> None:
    rng = np.random.default_rng(0)
    names = np.array([column.name for column in READ_COLUMNS[:5]])
    splits = rng.integers(5, size=(7, 15)).astype(np.uint8)
    thresholds = rng.normal(size=(7, 15)).astype(np.float16)
    leaves = rng.normal(size=(7, 16)).astype(np.float16)
    X = rng.normal(size=(11, 5)).astype(np.float16)
    expected = np.zeros(11)
    for row, each in enumerate(X):
        for tree in range(7):
            node = 0
            while node < 15:
                is_above = each[splits[tree, node]] >= thresholds[tree, node]
                node = 2 * node + (2 if is_above else 1)
            expected[row] += leaves[tree, node - 15]
    found = ReadRanker(names, splits, thresholds, leaves).predict_relative(X)
    assert found == pytest.approx(expected, rel=1e-6)


def test_files_keep_a_ranker_and_the_same_gives_the_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        one_split().save(file)
    assert files[0].read_bytes() == files[1].read_bytes()
    again = ReadRanker.load(files[0])
    read = [facts(programs=1024), facts(programs=4096)]
    assert again.predict(read, PLATFORM).tolist() == one_split().predict(read, PLATFORM).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("splits", np.ones((1, 1), np.uint8)),
        ("splits", np.zeros((1, 2), np.uint8)),
        ("splits", np.zeros((1, 1), np.int8)),
        ("splits", np.zeros(3, np.uint8)),
        ("thresholds", np.zeros((1, 2), np.float16)),
        ("thresholds", np.full((1, 1), np.nan, np.float16)),
        ("leaves", np.zeros((1, 1), np.float16)),
        ("leaves", np.full((1, 2), np.inf, np.float16)),
        ("columns", np.array(["ir/of_another_version"])),
        ("columns", np.array([[PROGRAMS]])),
    ],
)
def test_arrays_that_are_no_trees_are_refused(name: str, value: np.ndarray, tmp_path: Path) -> None:
    arrays = {each: getattr(one_split(), each) for each in ("columns", "splits", "thresholds", "leaves")}
    np.savez(tmp_path / "altered.npz", **{**arrays, name: value})
    with pytest.raises(CostModelError, match="ranker"):
        ReadRanker.load(tmp_path / "altered.npz")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04N.", b"\x93NUMPY"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.npz").write_bytes(content)
    with pytest.raises(CostModelError, match="must be a ranker"):
        ReadRanker.load(tmp_path / "other.npz")
