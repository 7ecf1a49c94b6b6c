"""What a warp's request touches, and how much of a tile a thread accesses at once."""

from pathlib import Path

import numpy as np
import pytest

from costmodel.kernels.triton._ir import Type
from costmodel.kernels.triton._layouts import Layouts
from costmodel.kernels.triton._lower import LoweredTexts
from costmodel.kernels.triton._read import read_texts
from costmodel.kernels.triton._values import Array, ReadLaunch, Value
from costmodel.kernels.triton.accesses._requests import bank_turns, lane_places, touched

pytestmark = pytest.mark.white_box

TEXTS = Path(__file__).with_name("texts")
BY_ROWS = (
    "ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"
)
BY_COLUMNS = (
    "ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]}>"
)
LAYOUTS = Layouts(
    {
        "#rows": BY_ROWS,
        "#columns": BY_COLUMNS,
        "#both": "ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>",
        "#linear": "ttg.linear<{register = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
        "warp = [[8, 0], [16, 0]], block = []}>",
        "#plain": "ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
        "#turned": "ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>",
        "#swizzled": "ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 32, order = [0, 1]}>",
    },
    warps=4,
)
ROWS, COLUMNS = np.arange(64)[:, None], np.arange(64)[None, :]


def tile(layout: str, element: str = "f32", shape: tuple[int, ...] = (64, 64)) -> Type:
    return Type(shape, element, layout)


def pointer(layout: str, offsets: np.ndarray) -> Value:
    return Value(tile(layout, "!tt.ptr<f32>"), offsets, 0)


@pytest.mark.parametrize(
    ("layout", "offsets", "sectors", "lines"),
    [
        ("#rows", 64 * ROWS + COLUMNS, 4, 1),  # side by side
        ("#columns", 64 * ROWS + COLUMNS, 32, 32),  # each in a row of its own
        ("#columns", ROWS + 64 * COLUMNS, 4, 1),
        ("#rows", 64 * ROWS + 2 * COLUMNS, 8, 2),  # every other element
        ("#rows", 64 * ROWS + COLUMNS + 1, 5, 2),  # across a border
        ("#rows", 64 * ROWS, 1, 1),  # all the same
    ],
)
def test_lanes_share_the_sectors_that_they_touch_together(
    layout: str, offsets: np.ndarray, sectors: float, lines: float
) -> None:
    found = touched(pointer(layout, offsets), None, tile(layout), 4, LAYOUTS)
    assert (found.sectors, found.lines) == (sectors, lines)


def test_masked_lanes_touch_nothing() -> None:
    mask = Value(tile("#rows", "i1"), COLUMNS < 8)
    found = touched(pointer("#rows", 64 * ROWS + COLUMNS), mask, tile("#rows"), 4, LAYOUTS)
    # Of the first request a sector; the one in the middle is of another row, masked alike.
    assert found.sectors == 1


def test_what_is_unknown_is_taken_to_be_side_by_side() -> None:
    found = touched(Value(tile("#rows", "!tt.ptr<f32>")), None, tile("#rows"), 4, LAYOUTS)
    assert (found.sectors, found.lines) == (4, 1)


def test_lanes_are_where_their_layout_says() -> None:
    assert lane_places(tile("#linear"), LAYOUTS)[[1, 2, 4, 31]].tolist() == [[0, 2], [0, 4], [1, 0], [7, 6]]
    assert lane_places(tile("#both"), LAYOUTS)[[1, 8, 31]].tolist() == [[0, 1], [2, 0], [6, 7]]
    assert lane_places(tile("#rows.s0", shape=(64,)), LAYOUTS)[:, 0].tolist() == list(range(32))
    assert lane_places(tile("#rows.s1", shape=(64,)), LAYOUTS)[:, 0].tolist() == [0] * 32
    assert lane_places(tile("#unheard"), LAYOUTS) is None


@pytest.mark.parametrize(
    ("memory", "turns"),
    [
        ("#plain", 1),
        ("#turned", 32),  # all lanes in one bank
        ("#swizzled", 1),
    ],
)
def test_lanes_in_one_bank_wait_for_one_another(memory: str, turns: float) -> None:
    of_thread = 64 * 64 / 128
    assert bank_turns(tile("#rows"), tile(memory), LAYOUTS) == turns * of_thread


@pytest.mark.parametrize("version", ["3.6.0", "3.9.0"])
@pytest.mark.parametrize(
    ("size", "of_thread", "sectors"),
    [
        (1 << 18, 2, 128),  # eight elements, four at once
        # No multiple of 16: where the mask ends is not known, and each is stored alone. Lanes are four apart.
        ((1 << 18) - 7, 8, 4 * 128),
    ],
)
def test_a_mask_that_may_end_anywhere_takes_accesses_apart(
    version: str, size: int, of_thread: float, sectors: float
) -> None:
    ttir, ttgir = ((TEXTS / f"neighbours-{version}.{stage}").read_text() for stage in ("ttir", "ttgir"))
    floats = Array(1 << 20)
    facts = read_texts(LoweredTexts(ttir, ttgir, 0), ReadLaunch([floats, floats, size], (256, 1, 1), 4))
    assert facts.thread_stores == of_thread
    assert facts.store_request_sectors == sectors
    # Neighbours on the left and on the right are never aligned.
    assert facts.thread_loads == 8 + 8 + of_thread


@pytest.mark.parametrize(
    ("warps", "told", "limit"),
    [(4, "", 255), (16, "", 128), (4, "ttg.maxnreg = 64 : i32, ", 64), (32, "ttg.maxnreg = 96 : i32, ", 64)],
)
def test_threads_have_what_their_number_or_author_allows(warps: int, told: str, limit: float) -> None:
    ttir, ttgir = ((TEXTS / f"row_softmax-3.6.0.{stage}").read_text() for stage in ("ttir", "ttgir"))
    ttgir = ttgir.replace("module attributes {", f"module attributes {{{told}")
    halves = Array(1 << 21)
    facts = read_texts(LoweredTexts(ttir, ttgir, 0), ReadLaunch([halves, halves, 1000], (512, 1, 1), warps))
    assert facts.register_limit == limit
