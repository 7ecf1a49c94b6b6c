"""What may be chosen of a kernel without a list, and configs that are proposed by what is read of them."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.kernels._read_facts import ReadFacts, Reading
from costmodel.kernels.triton.proposing._open_space import OpenLaunch, OpenSpace
from costmodel.kernels.triton.proposing._propose import OpenConfig, Proposer
from costmodel.kernels.triton.proposing._uses import ParameterUses

pytestmark = pytest.mark.white_box

SPACE = OpenSpace(
    {"BLOCK": (64, 128, 256, 512, 1024), "UNROLL": (1, 2), "num_warps": (1, 2, 4, 8)}, ("BLOCK",)
)


def read(configs: Sequence[OpenConfig]) -> list[Reading]:
    """A tile must cover 200; how often it is unrolled changes nothing."""
    return [
        Reading(note="too small")
        if each["BLOCK"] < 200
        else Reading(ReadFacts(load_bytes=each["BLOCK"], threads=each["num_warps"]))
        for each in configs
    ]


def rank(facts: Sequence[ReadFacts]) -> np.ndarray:
    """The best have 512 elements and 4 warps."""
    return np.array([abs(np.log2(each.load_bytes / 512)) + abs(np.log2(each.threads / 4)) for each in facts])


def uses(**found: str) -> ParameterUses:
    told = ParameterUses()
    for name, use in found.items():
        told.found[name].add(use)  # type: ignore[arg-type]
    return told


def test_the_most_promising_that_can_be_right_come_first_and_each_kernel_once() -> None:
    found = Proposer(SPACE, "sm_90", read, rank).propose(5)
    assert found[0] == {"BLOCK": 512, "UNROLL": 2, "num_warps": 4}
    assert len(found) == 5
    assert {each["UNROLL"] for each in found} == {2}
    assert min(each["BLOCK"] for each in found) >= 256


def test_nothing_that_can_be_right_is_told_with_the_reason() -> None:
    proposer = Proposer(SPACE, "sm_90", lambda configs: [Reading(note="it is odd.")] * len(configs), rank)
    with pytest.raises(CostModelError, match=r"none of \d+ can be. The first: it is odd. Give configs"):
        proposer.propose(5)


@pytest.mark.parametrize(
    ("excess", "why"),
    [({"shared_bytes": 240_000.0}, "at most 232448 bytes"), ({"thread_live_words": 900.0}, "900 words")],
)
def test_what_the_device_lacks_is_left_out(excess: dict[str, float], why: str) -> None:
    def read_with_excess(configs: Sequence[OpenConfig]) -> list[Reading]:
        return [
            Reading(ReadFacts(load_bytes=each["BLOCK"], threads=each["num_warps"], **excess))
            if each["BLOCK"] > 256
            else reading
            for each, reading in zip(configs, read(configs), strict=True)
        ]

    proposer = Proposer(SPACE, "sm_90", read_with_excess, rank)
    assert {each["BLOCK"] for each in proposer.propose(99)} == {256}
    assert any(re.search(why, note) for note in proposer.notes)


def test_threads_have_neither_too_little_of_a_tile_nor_too_much() -> None:
    rng = np.random.default_rng(0)
    for each in SPACE.draw(1000, rng):
        assert 1 <= each["BLOCK"] / (32 * each["num_warps"]) <= 64
    product = OpenSpace({"M": (16, 256), "N": (16, 256), "num_warps": (1, 16)}, ("M", "N"), multiplies=True)
    drawn = {tuple(each.values()) for each in product.draw(99, rng)}
    assert drawn == {(16, 16, 1), (16, 256, 1), (256, 16, 1), (16, 256, 16), (256, 16, 16), (256, 256, 16)}


def test_a_space_too_large_to_list_is_drawn_from() -> None:
    sides = tuple(2**i for i in range(1, 17))
    space = OpenSpace(dict.fromkeys("ABCD", sides) | {"num_warps": (1, 2)}, ("A", "B", "C", "D"))
    drawn = space.draw(40, np.random.default_rng(0))
    assert len({tuple(each.values()) for each in drawn}) == 40
    assert all(map(space.fits, drawn))
    near = list(space.neighbours(drawn[0]))
    assert near
    assert all(
        sum(a != b for a, b in zip(each.values(), drawn[0].values(), strict=True)) == 1 for each in near
    )


def test_values_follow_from_the_use_and_the_grid() -> None:
    launch = OpenLaunch(
        uses(
            BLOCK="tile",
            WIDTH="tile",
            GROUP="count",
            ROWS="count",
            SPLITS="count",
            FAST="switch",
            DEPTH="stages",
        ),
        ["BLOCK", "WIDTH", "GROUP", "ROWS", "SPLITS", "FAST", "DEPTH"],
        lambda told: (-(-1000 // told["BLOCK"]), told["SPLITS"], -(-30 // told["ROWS"])),
        {"n": 1000, "m": 3000},
        32,
    )
    choices = launch.space().choices
    assert choices["BLOCK"] == tuple(2**i for i in range(11))  # all that there is to cover
    assert choices["WIDTH"][-1] == 4096  # the grid does not tell: the largest size
    assert choices["GROUP"] == (1, 2, 4, 8, 16)
    assert choices["ROWS"] == (1, 2, 4, 8, 16, 32)  # of 30
    assert choices["SPLITS"] == (1, 2)  # of 32 SMs with 480 programs already
    assert choices["FAST"] == (0, 1)
    assert choices["DEPTH"] == (1, 2, 3, 4)
    assert launch.space().tiles == ("BLOCK", "WIDTH")


def test_programs_that_stay_are_multiples_of_the_sms() -> None:
    launch = OpenLaunch(uses(PROGRAMS="count"), ["PROGRAMS"], lambda told: (told["PROGRAMS"],), {}, 16)
    assert launch.space().choices["PROGRAMS"] == (16, 32, 64, 128, 256, 512)


def test_what_is_compared_with_text_must_be_told() -> None:
    with pytest.raises(CostModelError, match="MODE is used as text"):
        OpenLaunch(uses(MODE="text"), ["MODE"], lambda _: (1,), {}, 16).space()


@pytest.mark.triton
def test_uses_are_read_from_the_source_and_from_what_it_calls() -> None:
    pytest.importorskip("triton")
    from costmodel.kernels.triton.proposing._uses import find_uses

    kernels = pytest.importorskip("open_kernels")
    found = find_uses(kernels.tiled)
    told = {name: found.use(name) for name in ("BM", "BN", "HALF", "GROUP", "STAGES", "FAST", "MODE")}
    assert told == {
        **{"BM": "tile", "BN": "tile", "HALF": "tile", "GROUP": "count", "STAGES": "stages"},
        **{"FAST": "switch", "MODE": "text"},
    }
    assert found.use("M") == "count"  # a size that a tile is cut from
    assert found.multiplies
    assert found.loops
    assert found.compared["FAST"] == {2}


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "block", "fault"),
    [
        ("rows", 1024, ""),
        ("rows", 512, "A tile ends before the bound"),
        ("rows", 1, "A tile ends before the bound"),
        ("rows_of_two_axes", 1024, ""),
        ("rows_of_two_axes", 512, "A tile ends before the bound"),
        ("rows_of_two_axes", 1, "A tile ends before the bound"),
        ("looped", 64, ""),
        ("unrolled", 256, ""),
        ("unmasked", 256, ""),
        ("unmasked", 1024, "Tiles leave the arrays"),
    ],
)
def test_what_cannot_be_right_is_told(name: str, block: int, fault: str, tmp_path: Path) -> None:
    """Rows have 1,000 elements, and 4 are unmasked."""
    pytest.importorskip("triton")
    from costmodel.kernels.triton._ir import parse_ir
    from costmodel.kernels.triton._lower import Lowering, Specialization, lower_kernel
    from costmodel.kernels.triton._reach import find_fault
    from costmodel.kernels.triton._values import Array, ReadLaunch

    kernels = pytest.importorskip("open_kernels")
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    told = Specialization(signature, {"BLOCK": block}, {}, {})
    texts = lower_kernel(Lowering(getattr(kernels, name), told, "sm_90", with_layouts=False))
    launch = ReadLaunch([Array(4 * 4000), Array(4 * 4000), 1000], (4, 1, 1), 4)
    assert find_fault(parse_ir(texts.ttir), launch).startswith(fault)
    assert bool(find_fault(parse_ir(texts.ttir), launch)) == bool(fault)


FAMILY = """
from pathlib import Path
import numpy as np
from costmodel import TritonFamily

def arrays(dims, rng):
    return {name: rng.standard_normal(4 * dims["n"]).astype(np.float32) for name in ("x", "y")}

FAMILY = TritonFamily(
    name="rows", kernel=Path(KERNELS), function="looped", dims={"n": 1000}, grid=("4 * PARTS",),
    parameters={"BLOCK": (), "PARTS": (), "num_warps": (), "num_stages": (1, 2)},
    scalars={"n": "n"}, arrays=arrays, outputs=("y",), defaults={"num_stages": 2},
)
"""


@pytest.mark.triton
def test_a_family_may_leave_choices_to_its_kernel(tmp_path: Path) -> None:
    kernels = pytest.importorskip("open_kernels")
    file = tmp_path / "family.py"
    file.write_text(FAMILY.replace("KERNELS", repr(kernels.__file__)))
    from costmodel.kernels.triton._source import load_families

    (family,) = load_families(str(tmp_path))
    assert family.choices["BLOCK"] == tuple(2**i for i in range(11))  # rows have 1,000 elements
    assert family.choices["PARTS"] == tuple(2**i for i in range(10))  # up to 32 programs of each of 64 SMs
    assert family.choices["num_stages"] == (1, 2)
    assert family.space().default.decisions["num_stages"] == 2
    assert {1, 8} < set(family.choices["num_warps"])
    for config in [family.space().sample(np.random.default_rng(i)) for i in range(20)]:
        assert 1 <= config.decisions["BLOCK"] / (32 * config.decisions["num_warps"]) <= 64
