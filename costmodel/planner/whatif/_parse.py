"""Transforms as texts, such as ``fuse,graphs,scale:matmul=0.5,streams=2``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.errors import CostModelError, did_you_mean, shorten
from costmodel.planner.graphs._kernel_graph import KernelGraph
from costmodel.planner.whatif._fuse import GRAPH_GAP_S, fuse, fused_optimizer, remove_launches
from costmodel.planner.whatif._half_precision import half_precision
from costmodel.planner.whatif._known_kernels import same_kernels_on_sms, tuned, unfused
from costmodel.planner.whatif._scale import (
    OnDevice,
    on_sms,
    replace_latencies,
    scale,
    with_channels,
)
from costmodel.planner.whatif._schedule import on_best_streams
from costmodel.planner.whatif._streams import on_streams
from costmodel.records._device_table import find_device
from costmodel.records._hypothetical import find_quantity, hypothetical

if TYPE_CHECKING:
    from costmodel.planner._latencies import Latencies

Transform = Callable[[KernelGraph], KernelGraph]
# How each is written.
FORMS = {
    "scale": "scale:PATTERN=FACTOR",
    "replace": "replace:PATTERN=SECONDS",
    "fuse": "fuse or fuse:PATTERN",
    "graphs": "graphs or graphs=GAP_SECONDS",
    "half": "half, half=FACTOR or half:weights",
    "optimizer": "optimizer or optimizer=FACTOR",
    "streams": "streams=K, streams:SLOWDOWN=K or streams=auto",
    "sms": "sms=N or sms:RECORDED=N",
    "channels": "channels=N",
    "device": "device=DEVICE, device:RECORDED=DEVICE or device=sms:N+bandwidth:GB_S",
    "tuned": "tuned or tuned:PATTERN",
    "unfuse": "unfuse or unfuse:PATTERN",
}


def parse_what_if(text: str, latencies: "Latencies | None" = None) -> list[Transform]:
    """Parse the transforms of a text, in its order.

    Args:
        text: Such as ``fuse,graphs,scale:matmul=0.5``; ``FORMS`` has all.
        latencies: What kernels of workloads take, for ``sms``, ``tuned`` and ``unfuse``. Without it the last
            two open those that ship, and ``sms`` looks at blocks alone.

    Raises:
        CostModelError: A part is none of ``FORMS``.

    Example:
        >>> len(parse_what_if("fuse,graphs,scale:matmul=0.5,streams=2"))
        4
    """
    return [_parse(part.strip(), latencies) for part in _split(text) if part.strip()]


def _split(text: str) -> list[str]:
    """Split at commas, but not within brackets, as in ``scale:void add<float, 4>=0.5``."""
    parts, depth = [""], 0
    for letter in text:
        depth = max(depth + (letter in "<([{") - (letter in ">)]}"), 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _parse(part: str, latencies: "Latencies | None") -> Transform:
    head, _, value = part.rpartition("=") if "=" in part else (part, "", "")
    name, _, detail = head.partition(":")
    if name not in FORMS:
        raise CostModelError(
            f"A what-if must be one of {', '.join(FORMS.values())}, but got {shorten(part)!r}."
            f"{did_you_mean(name, FORMS)}"
        )
    try:
        if name in _MAKE_OF_KERNELS:
            return _MAKE_OF_KERNELS[name](detail, value, latencies)
        return _MAKE[name](detail, value)
    except ValueError:
        raise CostModelError(f"A what-if must be written {FORMS[name]}, but got {shorten(part)!r}.") from None


def _scale(pattern: str, value: str) -> Transform:
    factor = float(value)
    return lambda graph: scale(graph, _some(pattern), factor)


def _replace(pattern: str, value: str) -> Transform:
    latency = float(value)
    return lambda graph: replace_latencies(graph, {_some(pattern): latency})


def _fuse(pattern: str, value: str) -> Transform:
    _nothing(value)
    return lambda graph: fuse(graph, *filter(None, [pattern]))


def _graphs(detail: str, value: str) -> Transform:
    _nothing(detail)
    gap = float(value) if value else GRAPH_GAP_S
    return lambda graph: remove_launches(graph, gap_s=gap)


def _half(detail: str, value: str) -> Transform:
    weights = detail == "weights"
    _nothing("" if weights else detail)
    factors = [float(value)] if value else []
    return lambda graph: half_precision(graph, *factors, weights=weights)


def _optimizer(detail: str, value: str) -> Transform:
    _nothing(detail)
    factor = float(value) if value else None
    return lambda graph: fused_optimizer(graph, factor=factor)


def _streams(detail: str, value: str) -> Transform:
    if value == "auto":
        _nothing(detail)
        return on_best_streams
    streams, slowdown = int(value), float(detail or 1.0)
    return lambda graph: on_streams(graph, streams, slowdown=slowdown)


def _channels(detail: str, value: str) -> Transform:
    _nothing(detail)
    channels = int(value)
    return lambda graph: with_channels(graph, channels)


def _sms(detail: str, value: str, latencies: "Latencies | None") -> Transform:
    sms, recorded = int(value), int(detail) if detail else None
    if latencies is None:
        return lambda graph: on_sms(graph, sms, recorded=recorded)
    return lambda graph: same_kernels_on_sms(graph, sms, latencies, recorded=recorded)


def _tuned(pattern: str, value: str, latencies: "Latencies | None") -> Transform:
    _nothing(value)
    return lambda graph: tuned(graph, latencies or _shipped(), pattern)


def _unfuse(pattern: str, value: str, latencies: "Latencies | None") -> Transform:
    _nothing(value)
    return lambda graph: unfused(graph, latencies or _shipped(), pattern)


def _shipped() -> "Latencies":
    from costmodel.planner._latencies import open_latencies

    return open_latencies()


def _device(recorded: str, value: str) -> Transform:
    from costmodel.products._model import meant_gpu

    first, *others = value.split("+")
    named = [] if ":" in first else [meant_gpu(first)]
    changes = dict(_change(each) for each in (others if named else [first, *others]))
    if not value:
        raise ValueError(value)
    if not recorded:  # that of the graph, which is not known yet
        return OnDevice(None, find_device(named[0]) if named else None, changes=tuple(changes.items()))
    device = find_device(named[0] if named else recorded)
    return OnDevice(find_device(recorded), hypothetical(device, **changes) if changes else device)


def _change(text: str) -> tuple[str, float]:
    name, _, value = text.partition(":")
    return find_quantity(name), float(value)


def _some(pattern: str) -> str:
    if not pattern:
        raise CostModelError("A what-if of some kernels must name them, as in scale:matmul=0.5.")
    return pattern


def _nothing(text: str) -> None:
    if text:
        raise ValueError(text)


_MAKE: dict[str, Callable[[str, str], Transform]] = {
    "scale": _scale,
    "replace": _replace,
    "fuse": _fuse,
    "graphs": _graphs,
    "half": _half,
    "optimizer": _optimizer,
    "streams": _streams,
    "channels": _channels,
    "device": _device,
}
_MAKE_OF_KERNELS: "dict[str, Callable[[str, str, Latencies | None], Transform]]" = {
    "sms": _sms,
    "tuned": _tuned,
    "unfuse": _unfuse,
}
