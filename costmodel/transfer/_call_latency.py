"""How long a library's call takes on a GPU that nobody measured, or of which a few calls were measured.

Notations:
    n calls; g groups of calls (framework and types); r = 5 rates of a device, as logs of what is missing to
    the law: its start, arithmetic in 16 bits, bandwidth, and arithmetic in 8 and 4 bits beside that.
    log t = law(call, device, group) + J rates + trees(call) + Gaussian process(call), with J (n, r) the law's
    derivative by the rates.

The law is a roofline with waves: the longer of the time of the fullest SM, for the best of some tiles, and of
the traffic, beside a start. How much of its datasheet a group reaches is learned; what a device reaches
beside that is known of devices that were measured, and a normal variable of others. Trees learn what the law
misses in coordinates in which every GPU is alike (times over times, blocks over SMs). A few measurements
correct first the rates, then the rest: both are one linear Gaussian model (Rasmussen and Williams, Gaussian
Processes for Machine Learning, 2006, equations 2.25 and 2.26). Roofline: Williams, Waterman and Patterson,
CACM 52(4), 2009.
"""

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.files import write_arrays
from costmodel.learners._complete_trees import walk_trees
from costmodel.reading import read_arrays
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._library_calls import CALL_KINDS, CallWork, find_format
from costmodel.records._peak_rates import tensor_flops_with_float32_sums
from costmodel.records._platform import Device

SHIPPED = Path(__file__).with_name("call_latency.npz")
RATES = 5
COLUMNS = 13  # of the trees: those of ``coordinates``, and the group
# Rows and columns of the tiles that libraries choose from, and how small ones wait for their operands.
_TILES = ((16, 32), (16, 128), (64, 32), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
_TILE_WAIT = 24.0
_LEAST_DEPTH, _MOST_SPLITS = 256, 16  # of a sum, before several blocks share it
_L2_BYTES_PER_SM_CLOCK, _MOST_BYTES_PER_SM_CLOCK = 64, 128
# Of four bits some GPUs compute three times as many as of eight.
_FOUR_BITS, _MOST_OF_FOUR_BITS = 4, 1.5
_L2_SHARE = 0.6
# How sharply the longest of several times wins.
_OVERLAP, _START_OVERLAP = 1.5, 1.2
# Distances in the columns of ``coordinates`` at which calls tell nothing of each other.
_LENGTHS = np.array([1.5, 1.5, 2.0, 2.0, 2.0, 2.0])
# Standard deviations of what the law and the trees miss: of all calls, of a width of numbers, of a group,
# each whole and by call; and of a measurement.
_ALL, _WIDTH, _GROUP = 0.06, 0.05, 0.10
_ALL_CALLS, _WIDTH_CALLS, _GROUP_CALLS = 0.08, 0.08, 0.10
_NOISE = 0.12
_OWN_VARIANCE = sum(each**2 for each in (_ALL, _WIDTH, _GROUP, _ALL_CALLS, _WIDTH_CALLS, _GROUP_CALLS))


@dataclass(frozen=True)
class LibraryCalls:
    """n calls on one device.

    Attributes:
        groups: ``(n,)`` framework and types, as ``vllm|bfloat16``.
        work: What they do.
        device: Where.
    """

    groups: NDArray[Any]
    work: CallWork
    device: Device

    @property
    def bits(self) -> FloatArray:
        """``(n,)`` width of the numbers that are multiplied."""
        names, which = np.unique(self.groups, return_inverse=True)
        return np.array([float(find_format(name.split("|")[1]).multiplies) for name in names.tolist()])[which]


@dataclass(frozen=True)
class CallLatencies:
    """``(n,)`` seconds each: the median, and the ends of 90 % intervals."""

    latency_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray


def can_be_predicted(device: Device) -> bool:
    """Tell whether all is known of a device that the law asks for."""
    told = (device.sms, device.clock_mhz, device.bandwidth_gb_s, device.l2_bytes)
    return all(told) and bool(device.tensor_flops_per_sm_clock)


def spans_of(device: Device) -> tuple[float, float, float]:
    """What tells how far a device lies from others: SMs, GB/s, and 1e12 Tensor operations a second."""
    tensor = tensor_flops_with_float32_sums(device) * device.sms * device.clock_mhz * 1e6
    return float(device.sms), device.bandwidth_gb_s, tensor / 1e12


def computing_s(calls: LibraryCalls) -> FloatArray:
    """``(n,)`` seconds of the fullest SM at its peak, with the best tile."""
    work, device = calls.work, calls.device
    of_an_sm = tensor_flops_with_float32_sums(device) * device.clock_mhz * 1e6 * 16 / calls.bits
    best = np.full(len(calls.groups), np.inf)
    for rows, columns in _TILES:
        blocks = np.ceil(work.rows / rows) * np.ceil(work.columns / columns) * work.copies
        each_s = 2 * rows * columns * work.depth * (1 + _TILE_WAIT * (1 / rows + 1 / columns)) / of_an_sm
        most = np.clip(work.depth // _LEAST_DEPTH, 1, _MOST_SPLITS)
        splits = np.clip(device.sms // blocks, 1, most)
        best = np.minimum(best, np.ceil(blocks * splits / device.sms) * each_s / splits)
    # Masks and windows leave out a part of the product.
    return best * work.flops / (2 * work.rows * work.columns * work.depth * work.copies)


def moving_s(calls: LibraryCalls) -> FloatArray:
    """``(n,)`` seconds of the traffic at the bandwidth of the memory, or of the cache if that holds it."""
    device, moved = calls.device, calls.work.load_bytes + calls.work.store_bytes
    missed = 1 / (1 + (_L2_SHARE * device.l2_bytes / moved) ** 2)
    in_cache = moved / (device.sms * device.clock_mhz * 1e6 * _L2_BYTES_PER_SM_CLOCK)
    return np.maximum(missed * moved / (device.bandwidth_gb_s * 1e9), in_cache)


def least_s(calls: LibraryCalls) -> FloatArray:
    """``(n,)`` seconds below which no call can be, at the peaks, as ``least_latency_s`` says of workloads."""
    work, device, bits = calls.work, calls.device, calls.bits
    clocks_per_s = device.sms * device.clock_mhz * 1e6
    peak = clocks_per_s * device.tensor_flops_per_sm_clock * 16 / bits
    peak = np.where(bits == _FOUR_BITS, _MOST_OF_FOUR_BITS * peak, peak)
    moved = work.load_bytes + work.store_bytes
    in_cache = clocks_per_s * _MOST_BYTES_PER_SM_CLOCK
    moving = moved / np.where(moved > device.l2_bytes, device.bandwidth_gb_s * 1e9, in_cache)
    return np.maximum(work.flops / peak, moving)


def _longest(a: FloatArray, b: FloatArray, sharpness: float) -> FloatArray:
    return np.logaddexp(sharpness * a, sharpness * b) / sharpness


def law(law_of_group: FloatArray, rates: FloatArray, logs: FloatArray, bits: FloatArray) -> FloatArray:
    """``(n,)`` log seconds.

    Args:
        law_of_group: ``(3, n)`` log start, and logs of what arithmetic and traffic take beside their peaks.
        rates: ``(r,)``, or ``(r, n)``, of the device.
        logs: ``(2, n)`` logs of ``computing_s`` and ``moving_s``.
        bits: ``(n,)`` width of numbers.
    """
    computing = logs[0] + law_of_group[1] + rates[1] + (bits == 8) * rates[3] + (bits == 4) * rates[4]
    working = _longest(computing, logs[1] + law_of_group[2] + rates[2], _OVERLAP)
    return _longest(working, law_of_group[0] + rates[0], _START_OVERLAP)


def coordinates(
    calls: LibraryCalls, law_of_group: FloatArray, rates: FloatArray, logs: FloatArray
) -> FloatArray:
    """``(n, 12)`` of a call relative to its GPU, for trees; the first six also tell how alike calls are."""
    work, device, bits = calls.work, calls.device, calls.bits
    computing = logs[0] + law_of_group[1] + rates[1]
    moving, start = logs[1] + law_of_group[2] + rates[2], law_of_group[0] + rates[0]
    blocks = [
        np.ceil(work.rows / m) * np.ceil(work.columns / n) * work.copies / device.sms
        for m, n in ((64, 64), (128, 128), (128, 256))
    ]
    moved = work.load_bytes + work.store_bytes
    columns = [
        computing - moving,
        _longest(computing, moving, _OVERLAP) - start,
        *(np.log(each) for each in (work.rows, work.columns, work.depth, work.copies)),
        *map(np.log, blocks[:2]),
        blocks[2],
        np.log(moved / device.l2_bytes),
        bits,
        np.ceil(blocks[1]) / blocks[1],
    ]
    return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class _Known:
    """What law and trees say of n calls: log seconds, its derivative by rates, coordinates, group, width."""

    mean: FloatArray
    J: FloatArray
    X: FloatArray
    ids: NDArray[np.intp]
    bits: FloatArray


_NUMBERS = ("law", "rates", "rates_std", "spans", "thresholds", "leaves", "widths")
# Kinds of elements, as NumPy's.
_KINDS = {
    **{"groups": "U", "generations": "i", "devices": "U", "splits": "u", "measured": "i"},
    **dict.fromkeys(_NUMBERS, "f"),
}


@dataclass(frozen=True, eq=False)
class CallModel:
    """The law of a kind of calls, and trees for what it misses.

    Attributes:
        groups: ``(g,)`` names.
        generations: ``(g,)`` how many generations of GPUs were measured in each.
        law: ``(3, g)`` see ``law``.
        devices: ``(d,)`` names of the devices that were measured.
        rates: ``(r, d)`` theirs.
        rates_std: ``(r,)`` standard deviation of the rates of another device.
        spans: ``(3, 2)`` least and most of these devices, see ``spans_of``.
        splits: Of the trees, see ``walk_trees``; their columns are those of ``coordinates`` and the group.
        thresholds: Likewise.
        leaves: Likewise.
        measured: ``(w,)`` numbers of measurements, ascending.
        widths: ``(w,)`` half width of a 90 % interval after as many, in predicted standard deviations, so
            that devices of generations that were left out are covered.
    """

    groups: NDArray[Any]
    generations: NDArray[Any]
    law: FloatArray
    devices: NDArray[Any]
    rates: FloatArray
    rates_std: FloatArray
    spans: FloatArray
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]
    measured: NDArray[Any]
    widths: FloatArray

    def __post_init__(self) -> None:
        """Check that shapes fit and that numbers are finite.

        Raises:
            CostModelError: They do not.
        """
        trees, nodes = self.splits.shape if self.splits.ndim == 2 else (0, 0)
        g, d, depth = self.groups.size, self.devices.size, nodes.bit_length()
        shapes = {
            "groups": (g,),
            "generations": (g,),
            "law": (3, g),
            "devices": (d,),
            "rates": (RATES, d),
            "rates_std": (RATES,),
            "spans": (3, 2),
            "splits": (trees, 2**depth - 1),
            "thresholds": (trees, nodes),
            "leaves": (trees, nodes + 1),
            "measured": (self.measured.size,),
            "widths": (self.measured.size,),
        }
        wrong = [name for name, shape in shapes.items() if getattr(self, name).shape != shape]
        wrong += [name for name, kind in _KINDS.items() if getattr(self, name).dtype.kind != kind]
        wrong += [name for name in _NUMBERS if not wrong and not np.isfinite(getattr(self, name)).all()]
        if wrong or not g or not trees or self.splits.max() >= COLUMNS:
            raise CostModelError(
                "A model of calls must have trees over its columns and finite arrays whose shapes fit, but "
                f"got {', '.join(dict.fromkeys(wrong)) or 'others'}. Make it again with "
                "experiments/generations/train.sh."
            )

    def predict(
        self, calls: LibraryCalls, measured: LibraryCalls | None = None, latency_s: FloatArray | None = None
    ) -> CallLatencies:
        """Predict how long calls take.

        Args:
            calls: The calls.
            measured: Others that were measured on the same device, if there are any.
            latency_s: ``(m,)`` seconds that these took.

        Raises:
            CostModelError: Too little is known of the device, or a framework or type was never measured.
        """
        asked, prior = self._known(calls), self._prior(calls.device)
        mean, count = asked.mean, 0
        variance = (asked.J**2 * prior).sum(axis=1) + _OWN_VARIANCE
        if measured is not None and latency_s is not None and len(latency_s):
            seen, count = self._known(measured), len(latency_s)
            among = (seen.J * prior) @ seen.J.T + _alike(seen, seen) + _NOISE**2 * np.eye(count)
            across = (asked.J * prior) @ seen.J.T + _alike(asked, seen)
            gain = np.linalg.solve(among, across.T).T
            mean = mean + gain @ (np.log(latency_s) - seen.mean)
            variance = np.maximum(variance - (gain * across).sum(axis=1), 0.0)
        half = np.interp(count, self.measured, self.widths) * np.sqrt(variance + _NOISE**2)
        floor = np.log(least_s(calls))
        mean = np.maximum(mean, floor)
        return CallLatencies(np.exp(mean), np.exp(np.maximum(mean - half, floor)), np.exp(mean + half))

    def _known(self, calls: LibraryCalls) -> _Known:
        if not can_be_predicted(calls.device):
            raise CostModelError(
                f"A GPU must have Tensor Cores, and SMs, clock, bandwidth and L2 that are known, but "
                f"{calls.device.name} has not."
            )
        ids = self._ids(calls)
        of_group, logs, bits = self.law[:, ids], np.log([computing_s(calls), moving_s(calls)]), calls.bits
        rates = self._rates(calls.device)
        base = law(of_group, rates, logs, bits)
        step = 1e-3
        J = np.column_stack(
            [(law(of_group, rates + step * unit, logs, bits) - base) / step for unit in np.eye(RATES)]
        )
        X = coordinates(calls, of_group, rates, logs)
        found = walk_trees(np.column_stack([X, ids]), self.splits, self.thresholds, self.leaves)
        return _Known(base + found, J, X, ids, bits)

    def _ids(self, calls: LibraryCalls) -> NDArray[np.intp]:
        places = {name: i for i, name in enumerate(self.groups.tolist())}
        if unknown := sorted(set(calls.groups.tolist()) - places.keys()):
            raise CostModelError(
                f"Framework and types must be one of {', '.join(places)}, but got {', '.join(unknown)}."
            )
        return np.array([places[name] for name in calls.groups.tolist()], dtype=np.intp)

    def _rates(self, device: Device) -> FloatArray:
        """What is known of the device, or of the real one; 0, the mean, if that was never measured."""
        real = device.of if isinstance(device, HypotheticalDevice) else device
        place = np.flatnonzero(self.devices == real.name)
        return self.rates[:, place[0]] if len(place) else np.zeros(RATES)

    def _prior(self, device: Device) -> FloatArray:
        """``(r,)`` variance of the rates: those of a device that was measured are known."""
        return np.where(device.name in self.devices.tolist(), 0.0, self.rates_std**2)


def _alike(a: _Known, b: _Known) -> FloatArray:
    """``(n, m)`` covariance of what law and trees miss of calls."""
    x, z = (each.X[:, : len(_LENGTHS)] / _LENGTHS for each in (a, b))
    near = np.exp(-0.5 * ((x[:, None] - z[None]) ** 2).sum(axis=2))
    one_group, one_width = a.ids[:, None] == b.ids[None], a.bits[:, None] == b.bits[None]
    whole = _ALL**2 + _WIDTH**2 * one_width + _GROUP**2 * one_group
    by_call = _ALL_CALLS**2 + _WIDTH_CALLS**2 * one_width + _GROUP_CALLS**2 * one_group
    return np.asarray(whole + near * by_call)


def save_call_models(models: dict[str, CallModel], path: Path) -> None:
    """Write models by kind of calls to a file of numbers; the same models give the same bytes."""
    arrays = {
        f"{kind}/{field.name}": getattr(model, field.name)
        for kind, model in models.items()
        for field in fields(CallModel)
    }
    write_arrays(path, arrays)


def load_call_models(path: Path = SHIPPED) -> dict[str, CallModel]:
    """Load models by kind of calls from a file, which can run nothing.

    Raises:
        CostModelError: The file is none.
    """
    remedy = "Make it with experiments/generations/train.sh."
    kinds = {f"{call}/{name}": kind for call in CALL_KINDS for name, kind in _KINDS.items()}
    found = read_arrays(path, kinds, "models of calls", remedy=remedy)
    return {call: CallModel(**{name: found[f"{call}/{name}"] for name in _KINDS}) for call in CALL_KINDS}


@cache
def shipped_call_models() -> dict[str, CallModel]:
    """Return the models that come with the package."""
    return load_call_models()
