"""Features of what a compiler made of a kernel: its registers, and the instructions that it issues.

Group ``compiled``, which no table has unless it is asked for. Counts do not know how often a loop turns; the
arithmetic of a launch does: if its multiplications are those of the hot loop, the loop's other instructions
come in proportion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.features._feature import Feature, columns_of, values_of
from costmodel.features._launch import LaunchFacts, log2_ratio
from costmodel.features._times import Occupancy, occupancy_of
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode

# Operations of a thread: its part of a product of a warp on Tensor Cores (m16n8k16), and a multiplication.
_TENSOR_FLOPS, _MULTIPLY_ADD_FLOPS = 128.0, 2.0
_REGISTER_UNIT = 8  # in which a thread gets registers
_LANES = 128  # that an SM starts in a clock, one warp for each scheduler


@dataclass(frozen=True)
class CompiledRows:
    """What the features of group ``compiled`` are computed from.

    Attributes:
        code: ``(n,)`` arrays, one for each field of ``MachineCode``; NaN where nothing was compiled.
        launched: What is known of the launches without compiling.
    """

    code: Mapping[str, FloatArray]
    launched: LaunchFacts

    def __getitem__(self, fact: str) -> FloatArray:
        """``(n,)`` values of a fact."""
        return self.code[fact]

    @cached_property
    def occupancy(self) -> Occupancy:
        """How blocks fill the granted SMs, by the registers that they have."""
        launches, limits = self.launched.launches, self.launched.limits
        given = _REGISTER_UNIT * np.ceil(self["registers"] / _REGISTER_UNIT)
        registers = np.broadcast_to(given[:, None], launches["blocks"].shape)
        return occupancy_of(launches, limits, registers)

    def dominant(self, values: FloatArray) -> FloatArray:
        """``(n,)`` of ``(n, l)`` values: those of the launch that takes longest, as decisions tell."""
        return np.broadcast_to(values, self.launched["blocks"].shape)[self.launched.dominant]

    @cached_property
    def hot_flops(self) -> FloatArray:
        """``(n,)`` operations of a thread in one turn of the hot loop, at least one."""
        tensor, plain = self["hot_tensor"], self["hot_multiply_add"]
        return np.maximum(1.0, _TENSOR_FLOPS * tensor + _MULTIPLY_ADD_FLOPS * plain + self["hot_floating"])

    @cached_property
    def turns(self) -> FloatArray:
        """``(n,)`` turns of the hot loop that a thread's operations take, at least one."""
        threads = self.dominant(self.launched["blocks"] * self.launched["threads_per_block"])
        flops = self.dominant(self.launched["flops"])
        return np.maximum(1.0, flops / threads / self.hot_flops)

    @cached_property
    def issue_s(self) -> FloatArray:
        """``(n,)`` seconds in which the fullest SM starts all instructions."""
        limits = self.launched.limits
        threads = self.dominant(self.launched["threads_per_block"] * self.rounds)
        issued = self["instructions"] + (self.turns - 1.0) * self["hot_instructions"]
        busy = np.minimum(1.0, self.dominant(self.occupancy.busy_warps) / limits.schedulers)
        return threads * issued / (_LANES * limits.clock_hz * busy)

    @cached_property
    def rounds(self) -> FloatArray:
        """``(n, l)`` blocks of the fullest SM."""
        return np.ceil(self.launched["blocks"] / self.launched.limits.sms[:, None])

    def per_hot_flop(self, fact: str) -> FloatArray:
        """``(n,)`` log2 of a count of the hot loop for each of its operations."""
        return log2_ratio(self[f"hot_{fact}"], self.hot_flops)


def _feature(name: str, unit: str, formula: Callable[[CompiledRows], FloatArray]) -> Feature[CompiledRows]:
    return Feature(f"compiled/{name}", unit, "compiled", formula)


def _counted(fact: str) -> Feature[CompiledRows]:
    unit = "byte" if fact.endswith("bytes") else "1"
    return _feature(f"log2_{fact}", f"log2({unit})", lambda k: np.log2(1.0 + k[fact]))


def _per_flop(fact: str) -> Feature[CompiledRows]:
    unit = "byte/flop" if fact.endswith("bytes") else "1/flop"
    return _feature(f"log2_{fact}_per_flop", f"log2({unit})", lambda k: k.per_hot_flop(fact))


def _width(access: str) -> Feature[CompiledRows]:
    return _feature(f"log2_{access}_width", "log2(byte)", lambda k: np.log2(k[f"{access}_bytes"] / k[access]))


COMPILED_FEATURES: tuple[Feature[CompiledRows], ...] = (
    *map(_counted, MACHINE_CODE_FACTS),
    *map(
        _per_flop,
        ("instructions", "other", "load", "load_bytes", "copy", "shared_load", "shared_load_bytes"),
    ),
    *map(_width, ("load", "store", "shared_load", "shared_store", "hot_load", "hot_shared_load")),
    _feature("log2_turns", "log2(1)", lambda k: np.log2(k.turns)),
    _feature("log2_blocks_per_sm", "log2(1)", lambda k: np.log2(k.dominant(k.occupancy.blocks_per_sm))),
    _feature("occupancy", "1", lambda k: k.dominant(k.occupancy.resident_share)),
    _feature("log2_busy_warps_per_sm", "log2(1)", lambda k: np.log2(k.dominant(k.occupancy.busy_warps))),
    _feature("log2_waves", "log2(1)", lambda k: np.log2(k.dominant(k.occupancy.waves))),
    _feature(
        "idle_share",
        "1",
        lambda k: 1.0 - k.dominant(k.occupancy.fractional_waves / k.occupancy.waves),
    ),
    _feature("log2_issue_s", "log2(s)", lambda k: np.log2(k.issue_s)),
    _feature("log2_issue_over_roofline", "log2(1)", lambda k: k.launched.over_bound(k.issue_s)),
)
COMPILED_COLUMNS = columns_of(COMPILED_FEATURES)


def compiled_features(
    code: Sequence[MachineCode | None], launched: LaunchFacts
) -> tuple[tuple[Column, ...], FloatArray]:
    """Return the columns of group ``compiled``, and their ``(n, d)`` values.

    Args:
        code: What was made of each row's kernels; None where nothing was, whose features are NaN.
        launched: What is known of the row's launches.
    """
    unknown = (np.nan,) * len(MACHINE_CODE_FACTS)
    facts = np.array(
        [unknown if each is None else [getattr(each, name) for name in MACHINE_CODE_FACTS] for each in code]
    )
    columns = facts.reshape(-1, len(MACHINE_CODE_FACTS)).T
    rows = CompiledRows(dict(zip(MACHINE_CODE_FACTS, columns, strict=True)), launched)
    with np.errstate(divide="ignore", invalid="ignore"):
        X = np.column_stack(
            [np.broadcast_to(each, (len(code),)) for each in values_of(COMPILED_FEATURES, rows)]
        )
    known = np.isfinite(X) & ~np.isnan(rows["instructions"])[:, None]
    return COMPILED_COLUMNS, np.where(known, X, np.nan)
