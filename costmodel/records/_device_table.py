"""Devices by name: the shipped table, devices that a user describes, and what a driver says of one."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from costmodel.arguments import check_text
from costmodel.errors import CostModelError
from costmodel.reading import read_toml
from costmodel.records._device_names import device_key, find_meant, refuse_name
from costmodel.records._platform import Device, DeviceKind

Size = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
# TOML knows inf, which no bound but a number keeps out.
Rate = Annotated[float, msgspec.Meta(ge=0.0, lt=1e9)]


class StatedPeaks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Peak rates of the whole device as stated by the vendor; 0 if not stated.

    Attributes:
        fp32_tflops: 1e12 float32 operations a second.
        tensor_tflops: The same in float16 on Tensor Cores, on dense matrices.
        bandwidth_gb_s: 1e9 bytes a second of device memory.
    """

    fp32_tflops: Rate = 0.0
    tensor_tflops: Rate = 0.0
    bandwidth_gb_s: Rate = 0.0


class KnownDevice(msgspec.Struct, frozen=True):
    """A row of the table.

    Attributes:
        device: The device.
        vendor: Its manufacturer.
        aliases: Its other names.
        stated: Peak rates stated by the vendor, to check the device against.
        source: Documents from which the figures are taken.
        board_w: Watts that the board may draw; 0 if unknown.
        transistors_per_mm2: Of its chip; 0 if unknown.
    """

    device: Device
    vendor: str
    aliases: tuple[str, ...]
    stated: StatedPeaks
    source: str
    board_w: int = 0
    transistors_per_mm2: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.device.name, *self.aliases)


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Properties shared by the devices of an architecture. Sizes, lanes and rates are per SM."""

    vendor: str
    kind: DeviceKind
    source: str
    max_threads_per_sm: Count
    max_blocks_per_sm: Count
    fp32_lanes_per_sm: Count
    shared_bytes_per_sm: Size = 0
    registers_per_sm: Size = 0
    tensor_flops_per_sm_clock: Size = 0
    transistors_per_mm2: Size = 0


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device as a file says it; its tensor rate only if it is not its architecture's."""

    name: str
    architecture: str
    sms: Count
    clock_mhz: Annotated[float, msgspec.Meta(gt=0.0, lt=1e9)]
    source: str
    bandwidth_gb_s: Rate = 0.0
    l2_bytes: Size = 0
    tensor_flops_per_sm_clock: Size | None = None
    board_w: Size = 0
    aliases: tuple[str, ...] = ()
    stated: StatedPeaks = StatedPeaks()

    def entry(self, architecture: Architecture) -> KnownDevice:
        """The row with what its architecture adds."""
        device = Device(
            name=self.name,
            kind=architecture.kind,
            architecture=self.architecture,
            sms=self.sms,
            clock_mhz=self.clock_mhz,
            bandwidth_gb_s=self.bandwidth_gb_s,
            l2_bytes=self.l2_bytes,
            shared_bytes_per_sm=architecture.shared_bytes_per_sm,
            registers_per_sm=architecture.registers_per_sm,
            max_threads_per_sm=architecture.max_threads_per_sm,
            max_blocks_per_sm=architecture.max_blocks_per_sm,
            fp32_lanes_per_sm=architecture.fp32_lanes_per_sm,
            tensor_flops_per_sm_clock=(
                architecture.tensor_flops_per_sm_clock
                if self.tensor_flops_per_sm_clock is None
                else self.tensor_flops_per_sm_clock
            ),
        )
        source = f"{self.source}; {self.architecture}: {architecture.source}"
        return KnownDevice(
            device,
            architecture.vendor,
            self.aliases,
            self.stated,
            source,
            self.board_w,
            architecture.transistors_per_mm2,
        )


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of devices."""

    devices: tuple[_Row, ...] = ()
    architectures: dict[str, Architecture] = {}


def list_architectures() -> dict[str, Architecture]:
    """Return the architectures of the shipped table, by names such as ``sm_90``."""
    return _shipped().architectures


def read_devices(extra: Path | None = None) -> list[KnownDevice]:
    """Return the devices of the shipped table, followed by your own.

    Args:
        extra: TOML file of your own devices, in the format of this package's ``devices.toml``. It may use the
            architectures defined there.

    Raises:
        CostModelError: The file cannot be read, or names an unknown architecture or a known device.
    """
    shipped = _shipped()
    own = _read(extra) if extra else _Table()
    architectures = shipped.architectures | own.architectures
    entries: dict[str, KnownDevice] = {}
    for row in (*shipped.devices, *own.devices):
        if row.architecture not in architectures:
            raise CostModelError(
                f"{extra}: the architecture of {row.name!r} must be one of {', '.join(architectures)} or be "
                f"described in the file, but got {row.architecture!r}."
            )
        entry = row.entry(architectures[row.architecture])
        for key in {device_key(name) for name in entry.names}:
            if key in entries:
                raise CostModelError(
                    f"{extra}: {row.name!r} must have unique names, but {entries[key].device.name!r} "
                    "has one of them."
                )
            entries[key] = entry
    return list({entry.device.name: entry for entry in entries.values()}.values())


def find_entry(name: str, extra: Path | None = None) -> KnownDevice:
    """Return the table row of a device; see ``find_device``."""
    check_text("device", name)
    entries = {entry.device.name: entry for entry in read_devices(extra)}
    found = find_meant(name, {device: entry.names for device, entry in entries.items()})
    if len(found) != 1:
        refuse_name(name, found, entries, "one that `costmodel devices list` shows")
    return entries[found[0]]


@cache
def find_shipped_device(name: str) -> KnownDevice | None:
    """Return the row of the shipped table whose device has exactly this name; None if there is none."""
    return next((entry for entry in read_devices() if entry.device.name == name), None)


def find_among(name: str, known: Collection[str], what: str) -> str:
    """Return the one of known devices that a name means, as ``find_device`` reads names.

    Where a name may mean several devices, it means the one that is among the known.

    Args:
        name: Name or alias.
        known: Names of devices, which the table need not have.
        what: What a device must be, such as ``one that was measured``.

    Raises:
        CostModelError: It means none of them, or several.
    """
    if check_text("device", name) in known:
        return name
    names = {each: (each,) for each in known} | {e.device.name: e.names for e in read_devices()}
    found = [each for each in find_meant(name, names) if each in known]
    if len(found) != 1:
        refuse_name(name, found, known, what)
    return found[0]


def is_device(name: str, device: str) -> bool:
    """Tell whether a name, of which model and number are enough, may mean a device.

    Args:
        name: As a driver or a person writes it.
        device: Name of the device, which the table need not have.

    Example:
        >>> is_device("h100", "NVIDIA H100 80GB HBM3"), is_device("h100", "NVIDIA H200")
        (True, False)
    """
    entry = find_shipped_device(device)
    return bool(find_meant(name, {device: (device, *(entry.names if entry else ()))}))


def find_device(name: str, extra: Path | None = None) -> Device:
    """Find a device by name or alias.

    Case, punctuation and the words of brands do not matter, and a part of a name is enough where it fits one
    device (see ``find_meant``).

    Args:
        name: Name or alias, such as ``NVIDIA GeForce RTX 3090`` or ``RTX_3090``.
        extra: TOML file of your own devices (see ``read_devices``).

    Raises:
        CostModelError: No device has this name, or several may be meant, as by ``A100``. The message names
            them.

    Example:
        >>> find_device("RTX 3090").sms
        82
    """
    return find_entry(name, extra).device


@cache
def _shipped() -> _Table:
    return _read(Path(__file__).with_name("devices.toml"))


def _read(file: Path | str) -> _Table:
    return read_toml(file, _Table, "a TOML file of devices")


# What is asked of the driver: attributes by their names behind ``CU_DEVICE_ATTRIBUTE_``.
CUDA_ATTRIBUTES = (
    "CLOCK_RATE",
    "MEMORY_CLOCK_RATE",
    "GLOBAL_MEMORY_BUS_WIDTH",
    "L2_CACHE_SIZE",
    "MAX_THREADS_PER_MULTIPROCESSOR",
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MAX_BLOCKS_PER_MULTIPROCESSOR",
)
# float32 lanes of an SM of an architecture that the table of devices lacks: those of each since Ampere but
# the A100's.
_USUAL_LANES = 128


def cuda_device(name: str, sms: int, attributes: Mapping[str, int]) -> Device:
    """A GPU as its driver describes it.

    Args:
        name: Its name.
        sms: SMs of the whole device.
        attributes: Values of ``CUDA_ATTRIBUTES``.

    Example:
        >>> h100 = (1_980_000, 2_619_000, 5120, 52_428_800, 2048, 9, 0, 233_472, 65_536, 32)
        >>> cuda_device("H100", 132, dict(zip(CUDA_ATTRIBUTES, h100))).bandwidth_gb_s
        3352.3
    """
    architecture = f"sm_{attributes['COMPUTE_CAPABILITY_MAJOR']}{attributes['COMPUTE_CAPABILITY_MINOR']}"
    known = list_architectures().get(architecture)
    # Two transfers a clock: the attributes give the memory's clock (kHz) and bus width (bits).
    bytes_per_s = 2 * attributes["MEMORY_CLOCK_RATE"] * 1e3 * attributes["GLOBAL_MEMORY_BUS_WIDTH"] / 8
    return Device(
        name=name,
        kind="cuda",
        architecture=architecture,
        sms=sms,
        clock_mhz=attributes["CLOCK_RATE"] / 1e3,
        bandwidth_gb_s=round(bytes_per_s / 1e9, 1),
        l2_bytes=attributes["L2_CACHE_SIZE"],
        shared_bytes_per_sm=attributes["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"],
        registers_per_sm=attributes["MAX_REGISTERS_PER_MULTIPROCESSOR"],
        max_threads_per_sm=attributes["MAX_THREADS_PER_MULTIPROCESSOR"],
        max_blocks_per_sm=attributes["MAX_BLOCKS_PER_MULTIPROCESSOR"],
        fp32_lanes_per_sm=known.fp32_lanes_per_sm if known else _USUAL_LANES,
        tensor_flops_per_sm_clock=known.tensor_flops_per_sm_clock if known else 0,
    )
