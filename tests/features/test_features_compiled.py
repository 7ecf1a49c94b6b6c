"""Features of what a compiler made of kernels."""

import numpy as np
import pytest

from costmodel.arrays import FloatArray
from costmodel.features._compiled import COMPILED_COLUMNS
from costmodel.features._extract import COLUMNS, extract
from costmodel.features._table import FeatureTable
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode
from costmodel.records import Candidate, Config, Platform, Workload
from costmodel.records._candidate import KernelLaunch
from costmodel.testing import landscape_platform

pytestmark = pytest.mark.white_box

MATMUL = Workload.parse("matmul-m1024-n1024-k64")
LAUNCH = KernelLaunch(256, 128, flops=MATMUL.flops)


def kernel(name: str) -> Candidate:
    return Candidate(MATMUL, "test", Config({"which": name}), (LAUNCH,))


def code(**facts: float) -> MachineCode:
    """One turn of a loop of 40 instructions multiplies 32 times, in a kernel of 100."""
    usual = {"registers": 32.0, "instructions": 100.0, "hot_instructions": 40.0, "hot_multiply_add": 32.0}
    return MachineCode(**{**dict.fromkeys(MACHINE_CODE_FACTS, 0.0), **usual, **facts})


def table_of(*codes: MachineCode | None, platform: Platform | None = None) -> FeatureTable:
    candidates = [kernel(f"k{i}") for i in range(len(codes))]
    known = {c.candidate_id: found for c, found in zip(candidates, codes, strict=True) if found}
    return extract(candidates, [platform or landscape_platform(8)] * len(codes), compiled=known)


def column(table: FeatureTable, name: str) -> FloatArray:
    return table.values[:, table.index(f"compiled/{name}")]


def test_a_table_has_them_only_if_asked_and_for_what_was_compiled() -> None:
    table = table_of(code(), None)
    without = extract([kernel("k0"), kernel("k1")], [landscape_platform(8)] * 2)

    assert without.columns == COLUMNS
    assert set(table.columns) == {*COLUMNS, *COMPILED_COLUMNS}
    np.testing.assert_array_equal(table.values[:, : len(COLUMNS)], without.values)
    own = table.values[:, len(COLUMNS) :]
    assert np.isnan(own[1]).all()
    assert np.isfinite(own[0]).sum() > len(MACHINE_CODE_FACTS)


def test_registers_limit_the_blocks_of_an_sm() -> None:
    table = table_of(code(), code(registers=255.0))
    few, many = column(table, "log2_blocks_per_sm")

    assert few > many
    assert column(table, "log2_waves")[0] < column(table, "log2_waves")[1]


def test_turns_are_those_that_the_operations_take() -> None:
    flops_of_a_thread = MATMUL.flops / (LAUNCH.blocks * LAUNCH.threads_per_block)
    one, half = column(table_of(code(), code(hot_multiply_add=16.0)), "log2_turns")

    assert one == pytest.approx(np.log2(flops_of_a_thread / 64.0))
    assert half == pytest.approx(one + 1.0)


def test_time_grows_with_the_instructions_of_a_turn_and_falls_with_sms() -> None:
    lean, fat = column(table_of(code(), code(hot_instructions=80.0)), "log2_issue_s")
    (wide,) = column(table_of(code(), platform=landscape_platform(32)), "log2_issue_s")

    assert 0.5 < fat - lean < 1.0
    assert wide < lean
