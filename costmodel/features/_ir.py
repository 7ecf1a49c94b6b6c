"""Features of what was read of a kernel's intermediate code, and analytic times made of it.

Group ``ir``, which no table has unless it is asked for. Counts are of a program, as ``ReadFacts`` has them;
times add up what the fullest SM does, one resource at a time, as in ``_times``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Tag
from costmodel.features._facts import distinct_objects
from costmodel.features._feature import Feature, columns_of, values_of
from costmodel.features._platform import Limits, platform_limits
from costmodel.features._table import FeatureTable
from costmodel.features._times import L2_BYTES_PER_CLOCK, Occupancy, occupancy_of
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts
from costmodel.records._platform import Platform

_SECTOR_BYTES, _WORD_BYTES = 32, 4
# Clocks of a load from device memory, of an atomic operation on an address that another one is at, and of a
# barrier (an idle Hopper, rounded; not fitted).
_LATENCY_CLOCKS, _ATOMIC_CLOCKS, _BARRIER_CLOCKS = 800, 4, 30
# Instructions that an SM starts in a clock, one for each scheduler, in lanes; and such functions as
# exponentials, a quarter of a warp for each (CUDA C++ Programming Guide, table of throughputs).
_LANES, _SPECIAL_LANES = 128, 16
# Share of the peak of schedulers, and of banks of shared memory: the power of two of 1/4 to 4 that ranks
# kernels of triton-sm-budgets best; none ranks them much worse.
_ISSUED_SHARE, _BANKS_SHARE = 0.5, 0.5
_LINES_PER_CLOCK = 1
_SPECIAL_INSTRUCTIONS = 4  # that a function takes beside the one of the special unit
_LEAST_S = 1e-12
_ALONE_SHARE = 0.6  # of the peak that warps reach which multiply alone on an SM made for groups
# Clocks between programs that start: on the whole device, on one SM, and there for each warp. Seen on an H100
# (experiments/kernels_at_large), where 16,384 programs that do nothing much take 10 us on all SMs.
_START_CLOCKS, _START_CLOCKS_OF_SM, _START_CLOCKS_OF_WARP = 1.2, 55, 12
# Registers of a thread: for addresses and the like, and for each word of tiles that are alive. Of products:
# for each of the numbers that they add up, and each word of shared memory. Fitted to what ptxas gave 13,586
# kernels (kernels-at-large and triton-sm-budgets; correlation .76 of kernels without products, .65 with).
_REGISTERS, _REGISTERS_OF_WORD = 22, 0.4
_REGISTERS_OF_PRODUCT, _REGISTERS_OF_SUM, _REGISTERS_OF_SHARED_WORD = 58, 1.07, 0.15
_REGISTER_UNIT = 8

_COUNTS: Mapping[str, str] = {  # facts whose logarithm is a feature, with their unit
    **dict.fromkeys(
        (
            *("load_bytes", "load_once_bytes", "loop_load_bytes", "front_load_bytes", "tile_bytes"),
            *("load_run_bytes", "store_bytes", "store_run_bytes", "live_bytes", "carried_bytes"),
            *("operand_bytes", "shared_bytes", "thread_load_bytes", "thread_copy_bytes"),
            *("thread_store_bytes", "access_bytes", "replicated_load_bytes"),
        ),
        "byte",
    ),
    "tensor_flops": "flop",
    "thread_tensor_flops": "flop",
    **dict.fromkeys(
        (
            *("programs", "threads", "loads", "load_requests", "stores", "store_requests", "atomics"),
            *("atomics_per_address", "products", "product_m", "product_n", "product_k", "float_ops"),
            *("special_ops", "convert_ops", "integer_ops", "scalar_ops", "reductions", "reduced_elements"),
            *("reduced_rows", "reduction_size", "scans", "scanned_elements", "rearranged_elements", "loops"),
            *("loop_steps", "inner_trips", "memory_waits", "thread_float_ops", "thread_special_ops"),
            *("thread_convert_ops", "thread_integer_ops", "thread_scalar_ops", "thread_loads"),
            *("thread_copies", "thread_stores", "thread_atomics", "shared_load_words", "shared_store_words"),
            *("conversions", "converted_elements", "barriers", "shuffles", "cross_warp_reductions"),
            "thread_live_words",
        ),
        "1",
    ),
}
_AS_THEY_ARE = (
    *("masked_share", "product_bits", "is_group_product", "pipeline_stages", "copies_ahead"),
    *("guessed_bounds", "guessed_branches", "guessed_accesses", "unknown_operations"),
)


@dataclass(frozen=True)
class ReadRows:
    """What the features of group ``ir`` are computed from.

    Attributes:
        facts: ``(n,)`` arrays, one for each field of ``ReadFacts``.
        limits: ``(n,)`` arrays of the row's platform, or ``(1,)`` of that of all rows.
    """

    facts: Mapping[str, FloatArray]
    limits: Limits

    def __getitem__(self, fact: str) -> FloatArray:
        """``(n,)`` values of a fact."""
        return self.facts[fact]

    @cached_property
    def occupancy(self) -> Occupancy:
        """How programs fill the granted SMs, by what was read of their shared memory and live tiles."""
        of_launch = {
            "blocks": self["programs"],
            "threads_per_block": self["threads"],
            "shared_bytes": np.nan_to_num(self["shared_bytes"]),
            "tensor_flops": self["tensor_flops"],
        }
        given = np.fmin(self.wanted_registers, self["register_limit"])
        units = np.ceil(np.where(np.isnan(given), _REGISTERS, given) / _REGISTER_UNIT)
        columns = {name: each[:, None] for name, each in of_launch.items()}
        return occupancy_of(columns, self.limits, _REGISTER_UNIT * units[:, None])

    @cached_property
    def wanted_registers(self) -> FloatArray:
        """``(n,)`` registers that a thread is likely to want."""
        sums = self["product_m"] * self["product_n"] / self["threads"]
        staged = np.nan_to_num(self["shared_bytes"]) / _WORD_BYTES / self["threads"]
        of_product = _REGISTERS_OF_PRODUCT + _REGISTERS_OF_SUM * sums + _REGISTERS_OF_SHARED_WORD * staged
        plain = _REGISTERS + _REGISTERS_OF_WORD * self["thread_live_words"]
        return np.where(self["tensor_flops"] > 0.0, of_product, plain)

    @cached_property
    def start_s(self) -> FloatArray:
        """``(n,)`` seconds in which the programs can be started, whatever they do."""
        of_sm = np.maximum(_START_CLOCKS_OF_SM, _START_CLOCKS_OF_WARP * self["threads"] / 32)
        clocks = np.maximum(_START_CLOCKS * self["programs"], of_sm * self.rounds)
        return np.asarray(clocks / self.limits.clock_hz)

    @cached_property
    def rounds(self) -> FloatArray:
        """``(n,)`` programs of the fullest SM."""
        return np.ceil(self["programs"] / self.limits.sms)

    @cached_property
    def waves(self) -> FloatArray:
        """``(n,)`` programs of the fullest SM that follow one another."""
        return self.occupancy.waves[:, 0]

    @cached_property
    def issue(self) -> FloatArray:
        """``(n,)`` share of its schedulers that the fullest SM keeps busy."""
        return np.minimum(1.0, self.occupancy.busy_warps[:, 0] / self.limits.schedulers)

    @cached_property
    def moved_sectors(self) -> FloatArray:
        """``(n,)`` sectors that a program moves, those once that its neighbouring loads share."""
        return self["load_distinct_sectors"] + self["store_sectors"] + 2 * self["atomic_sectors"]

    @cached_property
    def device_bytes(self) -> FloatArray:
        """``(n,)`` bytes of all programs from and to device memory: once, and again what the cache misses."""
        traffic = _SECTOR_BYTES * self.moved_sectors * self["programs"]
        arrays = self["read_array_bytes"] + self["written_array_bytes"]
        once = np.where(arrays > 0.0, np.minimum(traffic, arrays), traffic)
        missing = np.fmax(0.0, 1.0 - self.limits.l2_bytes / once)
        return once + missing * (traffic - once)

    @cached_property
    def seconds(self) -> Mapping[str, FloatArray]:
        """``(n,)`` seconds of each resource."""
        limits, threads = self.limits, self["threads"]
        clock, lanes = limits.clock_hz, self.rounds * threads
        plain = sum(
            self[f"thread_{name}"]
            for name in (
                *("float_ops", "convert_ops", "integer_ops", "scalar_ops", "loads", "copies", "stores"),
                "atomics",
            )
        )
        special = self["thread_special_ops"]
        issued = plain + _SPECIAL_INSTRUCTIONS * special + self["shuffles"] + self["converted_elements"]
        group_share = np.where(self["is_group_product"] > 0.0, 1.0, _ALONE_SHARE)
        peak = np.fmax(limits.tensor_flops_per_sm, limits.flops_per_sm)
        turns = self["bank_turns"] + 2 * self["converted_elements"]
        in_flight = np.clip(self["load_bytes"] / np.maximum(1.0, self["loop_steps"]) / threads, 4.0, 64.0)
        drawn = self.occupancy.busy_warps[:, 0] * limits.warp_threads * in_flight / _LATENCY_CLOCKS
        waits = self["memory_waits"] / np.maximum(1.0, self["copies_ahead"])
        return {
            "issue": lanes * issued / (_ISSUED_SHARE * _LANES * clock * self.issue),
            "special": lanes * special / (_SPECIAL_LANES * clock * self.issue),
            "tensor": lanes * self["thread_tensor_flops"] / (peak * group_share * self.issue),
            "shared": lanes * turns / (_BANKS_SHARE * limits.warp_threads * clock),
            "l1": self.rounds * self["request_lines"] / (_LINES_PER_CLOCK * clock),
            "l2": self.rounds
            * _SECTOR_BYTES
            * self.moved_sectors
            / (np.minimum(L2_BYTES_PER_CLOCK, drawn) * clock),
            "memory": self.device_bytes / limits.bandwidth,
            "latency": self.waves * waits * _LATENCY_CLOCKS / clock,
            "barriers": self.waves * self["barriers"] * _BARRIER_CLOCKS / clock,
            "atomics": self["atomics_per_address"] * _ATOMIC_CLOCKS / clock,
        }

    @cached_property
    def least_s(self) -> FloatArray:
        """``(n,)`` seconds that products of tiles take at the peak of the granted SMs; 0 without any."""
        of_width = self.limits.tensor_flops_per_sm * 16 / self["product_bits"]
        peak = np.fmax(of_width, self.limits.flops_per_sm) * self.limits.sms
        return np.nan_to_num(self["tensor_flops"] * self["programs"] / peak)

    @cached_property
    def total_s(self) -> FloatArray:
        """``(n,)`` sum of all times, as if nothing overlapped; in one order, however many rows there are."""
        return reduce(np.add, self.seconds.values())

    @cached_property
    def longest_s(self) -> FloatArray:
        """``(n,)`` longest of all times, as if everything overlapped."""
        return reduce(np.maximum, self.seconds.values())


def _log2(values: FloatArray) -> FloatArray:
    return np.log2(1.0 + values)


def _feature(
    name: str, unit: str, formula: Callable[[ReadRows], FloatArray], *tags: Tag
) -> Feature[ReadRows]:
    return Feature(f"ir/{name}", unit, "ir", formula, tags)


def _counted(fact: str, unit: str) -> Feature[ReadRows]:
    return _feature(f"log2_{fact}", f"log2({unit})", lambda k: _log2(k[fact]))


def _told(fact: str) -> Feature[ReadRows]:
    return _feature(fact, "1", lambda k: k[fact])


def _time(resource: str) -> Feature[ReadRows]:
    """The time of a resource, floored."""
    return _feature(f"log2_{resource}_s", "log2(s)", lambda k: np.log2(k.seconds[resource] + _LEAST_S))


def _share(resource: str) -> Feature[ReadRows]:
    """The time of a resource over the sum of all, floored: what bounds a kernel."""
    return _feature(
        f"log2_{resource}_share",
        "log2(1)",
        lambda k: np.log2(np.maximum(k.seconds[resource] / k.total_s, 1.0 / 1024)),
    )


_RESOURCES = (
    *("issue", "special", "tensor", "shared", "l1", "l2", "memory", "latency", "barriers", "atomics"),
)
READ_FEATURES: tuple[Feature[ReadRows], ...] = (
    *(_counted(fact, unit) for fact, unit in _COUNTS.items()),
    *map(_told, _AS_THEY_ARE),
    _feature(
        "log2_moved_bytes", "log2(byte)", lambda k: _log2(_SECTOR_BYTES * k.moved_sectors * k["programs"])
    ),
    _feature("log2_device_bytes", "log2(byte)", lambda k: _log2(k.device_bytes)),
    _feature("log2_all_tensor_flops", "log2(flop)", lambda k: _log2(k["tensor_flops"] * k["programs"])),
    _feature(
        "log2_all_thread_ops",
        "log2(1)",
        lambda k: _log2(k["programs"] * k["threads"] * (k["thread_float_ops"] + k["thread_integer_ops"])),
    ),
    _feature(
        "log2_sector_use",
        "log2(1)",
        lambda k: np.log2((1.0 + k["load_bytes"]) / (1.0 + _SECTOR_BYTES * k["load_sectors"])),
    ),
    _feature(
        "log2_neighbour_reuse",
        "log2(1)",
        lambda k: np.log2((1.0 + k["load_sectors"]) / (1.0 + k["load_distinct_sectors"])),
    ),
    _feature("log2_blocks_per_sm", "log2(1)", lambda k: np.log2(k.occupancy.blocks_per_sm[:, 0])),
    _feature("occupancy", "1", lambda k: k.occupancy.resident_share[:, 0]),
    _feature("log2_busy_warps_per_sm", "log2(1)", lambda k: np.log2(k.occupancy.busy_warps[:, 0])),
    _feature("log2_waves", "log2(1)", lambda k: np.log2(k.waves)),
    _feature("log2_fractional_waves", "log2(1)", lambda k: np.log2(k.occupancy.fractional_waves[:, 0])),
    _feature("log2_imbalance", "log2(1)", lambda k: np.log2(k.occupancy.imbalance[:, 0])),
    *map(_time, _RESOURCES),
    *map(_share, _RESOURCES),
    _feature("log2_total_s", "log2(s)", lambda k: np.log2(k.total_s)),
    _feature("log2_longest_s", "log2(s)", lambda k: np.log2(k.longest_s)),
    *(
        _counted(fact, "1")
        for fact in (
            *("load_request_sectors", "store_request_sectors", "request_lines", "bank_turns", "descriptors"),
        )
    ),
    _feature(
        "log2_request_excess",
        "log2(1)",
        lambda k: np.log2((1.0 + k["load_request_sectors"]) / (1.0 + k["load_distinct_sectors"])),
    ),
    _feature(
        "log2_bank_conflicts",
        "log2(1)",
        lambda k: np.log2((1.0 + k["bank_turns"]) / (1.0 + k["shared_load_words"] + k["shared_store_words"])),
    ),
    _feature(
        "log2_register_pressure", "log2(1)", lambda k: np.log2(k.wanted_registers / k["register_limit"])
    ),
    _feature("log2_start_s", "log2(s)", lambda k: np.log2(k.start_s)),
    _feature("log2_start_share", "log2(1)", lambda k: np.log2(k.start_s / k.total_s)),
)
READ_COLUMNS = columns_of(READ_FEATURES)


def extract_read(facts: Sequence[ReadFacts | None], platforms: Sequence[Platform]) -> FeatureTable:
    """Return the features of group ``ir`` of ``facts[i]`` on ``platforms[i]`` in row i.

    Args:
        facts: What was read of each kernel; None for one that was not read, whose features are NaN.
        platforms: Where it would run.

    Raises:
        ValueError: The sequences differ in length.
    """
    if len(facts) != len(platforms):
        raise ValueError(
            f"facts and platforms must have the same length, but got {len(facts)} and {len(platforms)}"
        )
    rows = _rows_of(facts, platforms)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [np.broadcast_to(each, (len(facts),)) for each in values_of(READ_FEATURES, rows)]
    X = np.column_stack(found) if len(facts) else np.empty((0, len(READ_COLUMNS)))
    known = np.isfinite(X) & ~np.isnan(rows["programs"])[:, None]
    return FeatureTable(np.where(known, X, np.nan), READ_COLUMNS)


def compute_least_seconds(facts: Sequence[ReadFacts | None], platform: Platform) -> FloatArray:
    """``(n,)`` seconds that kernels take at least on a platform, by the products that they compute."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _rows_of(facts, [platform] * len(facts)).least_s


def _rows_of(facts: Sequence[ReadFacts | None], platforms: Sequence[Platform]) -> ReadRows:
    distinct, row = distinct_objects([each or ReadFacts() for each in facts])
    values = np.array([[getattr(each, name) for name in READ_FACTS] for each in distinct])
    values = values.reshape(-1, len(READ_FACTS))[row]
    limits = platform_limits(*distinct_objects(platforms))
    return ReadRows(dict(zip(READ_FACTS, values.T, strict=True)), limits)
