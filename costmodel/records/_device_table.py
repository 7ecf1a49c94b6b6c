"""Devices by name: the table that ships, and rows of one's own."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import msgspec

from costmodel.errors import CostModelError, did_you_mean
from costmodel.records._platform import Device, DeviceKind

Size = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
# TOML knows inf, which no bound but a number keeps out.
Rate = Annotated[float, msgspec.Meta(ge=0.0, lt=1e9)]

# Drivers and people write "NVIDIA GeForce RTX 3090", "GeForce RTX 3090", "RTX 3090" and "RTX_3090".
_NO_PART_OF_A_NAME = re.compile(r"nvidia|amd|geforce|tesla|radeon|[\W_]")


class StatedPeaks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a vendor claims of the whole device; 0 where it claims nothing.

    Attributes:
        fp32_tflops: 1e12 float32 operations a second.
        tensor_tflops: The same in float16 on Tensor Cores, on dense matrices.
        bandwidth_gb_s: 1e9 bytes a second of device memory.
    """

    fp32_tflops: Rate = 0.0
    tensor_tflops: Rate = 0.0
    bandwidth_gb_s: Rate = 0.0


class DeviceEntry(msgspec.Struct, frozen=True):
    """A row of the table.

    Attributes:
        device: The device.
        vendor: Who makes it.
        aliases: Other names that it is known by.
        stated: What the vendor claims, to check the device against.
        source: Documents that the figures are from.
    """

    device: Device
    vendor: str
    aliases: tuple[str, ...]
    stated: StatedPeaks
    source: str

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.device.name, *self.aliases)


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the devices of an architecture share; sizes, lanes and rates are an SM's, as in ``Device``."""

    vendor: str
    kind: DeviceKind
    source: str
    max_threads_per_sm: Count
    max_blocks_per_sm: Count
    fp32_lanes_per_sm: Count
    shared_bytes_per_sm: Size = 0
    registers_per_sm: Size = 0
    tensor_flops_per_sm_clock: Size = 0


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device as a file says it."""

    name: str
    architecture: str
    sms: Count
    clock_mhz: Annotated[float, msgspec.Meta(gt=0.0, lt=1e9)]
    source: str
    bandwidth_gb_s: Rate = 0.0
    l2_bytes: Size = 0
    aliases: tuple[str, ...] = ()
    stated: StatedPeaks = StatedPeaks()

    def entry(self, architecture: Architecture) -> DeviceEntry:
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
            tensor_flops_per_sm_clock=architecture.tensor_flops_per_sm_clock,
        )
        source = f"{self.source}; {self.architecture}: {architecture.source}"
        return DeviceEntry(device, architecture.vendor, self.aliases, self.stated, source)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of devices."""

    devices: tuple[_Row, ...] = ()
    architectures: dict[str, Architecture] = {}


def known_architectures() -> dict[str, Architecture]:
    """The architectures of the table that ships, by names such as ``sm_90``."""
    return _shipped().architectures


def known_devices(extra: Path | None = None) -> list[DeviceEntry]:
    """The devices of the table that ships, then those of one's own.

    Args:
        extra: TOML file laid out as ``devices.toml`` of this package; it may use the architectures there.

    Raises:
        CostModelError: The file cannot be read, or names an unknown architecture or a device that is known.
    """
    shipped = _shipped()
    own = _read(extra) if extra else _Table()
    architectures = shipped.architectures | own.architectures
    entries: dict[str, DeviceEntry] = {}
    for row in (*shipped.devices, *own.devices):
        if row.architecture not in architectures:
            raise CostModelError(
                f"{extra}: the architecture of {row.name!r} must be one of {', '.join(architectures)} or be "
                f"described in the file, but got {row.architecture!r}."
            )
        entry = row.entry(architectures[row.architecture])
        for key in {_key(name) for name in entry.names}:
            if key in entries:
                raise CostModelError(
                    f"{extra}: {row.name!r} must have names of its own, but {entries[key].device.name!r} "
                    "has one of them."
                )
            entries[key] = entry
    return list({entry.device.name: entry for entry in entries.values()}.values())


def find_entry(name: str, extra: Path | None = None) -> DeviceEntry:
    """The row of a device, see ``find_device``."""
    entries = {_key(each): entry for entry in known_devices(extra) for each in entry.names}
    if _key(name) not in entries:
        known = dict.fromkeys(entry.device.name for entry in entries.values())
        raise CostModelError(
            f"The device must be one that `costmodel devices list` shows, but got {name!r}."
            + did_you_mean(name, known, _key)
        )
    return entries[_key(name)]


def find_device(name: str, extra: Path | None = None) -> Device:
    """The device of this name or alias.

    Case, punctuation and the words NVIDIA, AMD, GeForce, Tesla and Radeon do not matter.

    Args:
        name: Such as ``NVIDIA GeForce RTX 3090`` or ``RTX_3090``.
        extra: File of devices of one's own, see ``known_devices``.

    Raises:
        CostModelError: No device has this name, as with ``A100``, of which there are several; the message
            tells names near it.

    Example:
        >>> find_device("RTX 3090").sms
        82
    """
    return find_entry(name, extra).device


def _key(name: str) -> str:
    """What of a name tells devices apart."""
    return _NO_PART_OF_A_NAME.sub("", name.lower())


@cache
def _shipped() -> _Table:
    return _read(files("costmodel.records").joinpath("devices.toml"))


def _read(file: Path | Traversable) -> _Table:
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Table)
    except OSError as error:
        raise CostModelError(f"Cannot read device file {file}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise CostModelError(f"{file} must be a TOML file of devices, but: {error}.") from None
