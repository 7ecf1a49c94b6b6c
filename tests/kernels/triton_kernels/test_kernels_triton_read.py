"""Facts read from Triton's IR, of recorded texts and of the installed Triton's."""

from pathlib import Path
from typing import Any

import pytest

from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.triton._lower import LoweredTexts
from costmodel.kernels.triton._read import read_texts
from costmodel.kernels.triton._read_cache import ReadCache
from costmodel.kernels.triton._values import Array, ReadLaunch

pytestmark = pytest.mark.white_box

TEXTS = Path(__file__).with_name("texts")
VERSIONS = ("3.6.0", "3.9.0")
FLOATS, HALVES = Array(1 << 20), Array(1 << 21)
LAUNCHES = {
    "grid_stride": ReadLaunch([FLOATS, FLOATS, 100_000], (16, 1, 1), 4),
    "neighbours": ReadLaunch([FLOATS, FLOATS, 1 << 18], (256, 1, 1), 4),
    "sparse_rows": ReadLaunch([Array(4004), Array(1 << 20), FLOATS, FLOATS, FLOATS, 1000], (1000, 1, 1), 4),
    "last_adds": ReadLaunch([HALVES, HALVES, HALVES, Array(1 << 24), Array(1024), 1024], (16, 4, 16), 4),
    "described": ReadLaunch([HALVES, HALVES, HALVES, 1024, 1024, 1024], (16, 16, 1), 4),
    "row_softmax": ReadLaunch([HALVES, HALVES, 1000], (512, 1, 1), 4),
}
PRODUCT = 2 * 64 * 64  # flops of a tile, for each of its depth
# What is known by hand, of one program, or of one of its 128 threads.
KNOWN: dict[str, dict[str, float]] = {
    "grid_stride": {
        # 100,000 elements in 391 blocks, of 16 programs: 25 of the third program, 24 of the others.
        "loop_steps": (25 + 24 + 24) / 3,
        "memory_waits": (25 + 24 + 24) / 3,
        "store_bytes": 1024,
        "thread_stores": 1,
        "guessed_bounds": 0,
    },
    "neighbours": {
        "loads": 3,
        "load_bytes": 3 * 4096,
        "load_sectors": 129 + 128 + 129,
        "load_distinct_sectors": 130,
        "load_run_bytes": 4096,
        "store_sectors": 128,
        "memory_waits": 1,
        "read_array_bytes": 1 << 20,
        "guessed_accesses": 0,
    },
    "sparse_rows": {
        "guessed_bounds": 1,
        "guessed_accesses": 3,
        "loop_steps": 1,  # 64 of a row, as is guessed, are less than a block
        "memory_waits": 1 + 2,  # a bound, and in each turn a place and what is there
    },
    "last_adds": {
        "tensor_flops": PRODUCT * 256,
        "product_k": 32,
        "descriptors": 0,
        "atomics": 1,
        "atomics_per_address": 4,
        # The last of four adds up four parts: a quarter of it is each program's.
        "loop_steps": 256 / 32 + 4 / 4,
        "store_bytes": 4 * 64 * 64 + 2 * 64 * 64 / 4,
        "guessed_branches": 0,
        "is_group_product": 1,
        "thread_tensor_flops": PRODUCT * 256 / 128,
    },
    "described": {
        "tensor_flops": PRODUCT * 1024,
        "loads": 2 * 16,
        "descriptors": 3,
        "load_bytes": 16 * 2 * 2 * 64 * 64,
        "load_once_bytes": 16 * 2 * 2 * 64 * 64,
        "load_run_bytes": 128,
        "read_array_bytes": 2 << 21,
        "guessed_accesses": 0,
    },
    "row_softmax": {
        "load_bytes": 2000,
        "masked_share": 1 - 1000 / 1024,
        "reductions": 2,
        "reduced_elements": 2048,
        "special_ops": 2 * 1024,  # a power and a quotient
        "thread_special_ops": 2 * 8,
        "shuffles": 2 * 5,
        "cross_warp_reductions": 2,
        "programs": 512,
        "threads": 128,
    },
}


def recorded(name: str, version: str) -> LoweredTexts:
    ttir, ttgir = (TEXTS / f"{name}-{version}.{stage}" for stage in ("ttir", "ttgir"))
    return LoweredTexts(ttir.read_text(), ttgir.read_text(), 512)


def assert_known(facts: ReadFacts, name: str) -> None:
    found = {fact: getattr(facts, fact) for fact in KNOWN[name]}
    assert found == pytest.approx(KNOWN[name])
    assert facts.unknown_operations == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", KNOWN)
def test_facts_of_recorded_texts_are_those_counted_by_hand(name: str, version: str) -> None:
    facts = read_texts(recorded(name, version), LAUNCHES[name])
    assert_known(facts, name)
    assert facts.shared_bytes == 512


def test_the_first_dialect_alone_tells_nothing_of_threads() -> None:
    texts = recorded("row_softmax", "3.6.0")
    facts = read_texts(LoweredTexts(texts.ttir), LAUNCHES["row_softmax"])
    assert facts.load_bytes == 2000
    assert facts.thread_loads != facts.thread_loads  # NaN
    assert facts.shared_bytes != facts.shared_bytes


def test_sizes_that_are_not_compiled_in_change_the_walk_alone() -> None:
    texts = recorded("grid_stride", "3.6.0")
    twice = ReadLaunch([FLOATS, FLOATS, 200_000], (16, 1, 1), 4)
    ratio = read_texts(texts, twice).loop_steps / read_texts(texts, LAUNCHES["grid_stride"]).loop_steps
    assert ratio == pytest.approx(2, rel=0.02)


def test_an_argument_that_nobody_tells_is_a_guess() -> None:
    facts = read_texts(recorded("grid_stride", "3.6.0"), ReadLaunch([FLOATS, FLOATS, None], (16, 1, 1), 4))
    assert facts.guessed_bounds == 1


def test_a_place_by_way_of_a_square_root_is_known() -> None:
    """Of 36 programs the one in the middle is 18: the root of twice that is 6."""
    text = """
    module {
      tt.func public @of_triangle(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
        %twice = arith.constant 2.000000e+00 : f32
        %first = tt.get_program_id x : i32
        %place = arith.sitofp %first : i32 to f32
        %square = arith.mulf %twice, %place : f32
        %root = math.sqrt %square : f32
        %row = arith.fptosi %root : f32 to i32
        %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
        %rows = tt.splat %row : i32 -> tensor<64xi32>
        %at = arith.muli %lanes, %rows : tensor<64xi32>
        %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
        %places = tt.addptr %xs, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
        %found = tt.load %places : tensor<64x!tt.ptr<f32>>
        tt.return
      }
    }
    """
    facts = read_texts(LoweredTexts(text), ReadLaunch([FLOATS, FLOATS], (36, 1, 1), 4))
    assert facts.guessed_accesses == 0
    assert facts.load_sectors == 64 * 6 * 4 / 32  # none is left out between elements that are six apart


def test_a_loop_that_data_may_end_early_is_taken_to_go_on() -> None:
    text = """
    module {
      tt.func public @until_found(%x: !tt.ptr<i32>, %n: i32) {
        %zero = arith.constant 0 : i32
        %step = arith.constant 16 : i32
        %end = scf.while (%at = %zero) : (i32) -> i32 {
          %goes_on = arith.cmpi slt, %at, %n : i32
          scf.condition(%goes_on) %at : i32
        } do {
        ^bb0(%at: i32):
          %place = tt.addptr %x, %at : !tt.ptr<i32>, i32
          %found = tt.load %place : !tt.ptr<i32>
          %is_found = arith.cmpi ne, %found, %zero : i32
          %further = arith.addi %at, %step : i32
          %next = arith.select %is_found, %n, %further : i32
          scf.yield %next : i32
        }
        tt.return
      }
    }
    """
    facts = read_texts(LoweredTexts(text), ReadLaunch([FLOATS, 100], (1, 1, 1), 4))
    assert facts.loop_steps == 7
    assert facts.guessed_branches > 0
    assert facts.guessed_bounds == 0


def test_layouts_are_unfolded_however_deep_they_are() -> None:
    """As in a sort, which cuts a tile along each power of two."""
    texts = recorded("row_softmax", "3.6.0")
    deep = "#blocked"
    for dim in range(7):
        deep = f"#ttg.slice<{{dim = {dim}, parent = {deep}}}>"
    assert "#blocked>" in texts.ttgir
    folded = LoweredTexts(texts.ttir, texts.ttgir.replace("#blocked>", f"{deep}>"))
    assert read_texts(folded, LAUNCHES["row_softmax"]).unknown_operations == 0


@pytest.mark.parametrize("text", ["", "module {\n}", "module {\n  tt.func private @f() {\n  }\n}"])
def test_a_text_without_a_kernel_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="public function"):
        read_texts(LoweredTexts(text), LAUNCHES["row_softmax"])


@pytest.mark.triton
@pytest.mark.parametrize("name", KNOWN)
def test_facts_of_this_triton_are_those_counted_by_hand(name: str, tmp_path: Path) -> None:
    """Twice: what is in the cache is read again."""
    pytest.importorskip("triton")
    from costmodel.kernels.triton._read import read_kernel

    kernels: Any = pytest.importorskip("read_kernels")
    for _ in range(2):
        reading = read_kernel(kernels.lowering_of(name), kernels.launch_of(name), ReadCache(tmp_path))
        assert reading.note == ""
        assert_known(reading.facts, name)
        assert [each.suffix for each in sorted(tmp_path.iterdir())] in ([".json", ".gz"], [".gz", ".json"])


@pytest.mark.triton
def test_a_kernel_that_cannot_be_lowered_gets_a_note() -> None:
    pytest.importorskip("triton")
    from dataclasses import replace

    from costmodel.kernels.triton._lower import Specialization
    from costmodel.kernels.triton._read import read_kernel

    kernels: Any = pytest.importorskip("read_kernels")
    lowering = replace(kernels.lowering_of("row_softmax"), specialization=Specialization({}, {}, {}, {}))
    reading = read_kernel(lowering, kernels.launch_of("row_softmax"))
    assert reading.note
    assert reading.facts.loads != reading.facts.loads
