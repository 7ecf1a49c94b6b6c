"""A file that is to be read, and what it does not say: options, its platform, and our names for the rest."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from costmodel.dataset.sources._document import Document
from costmodel.dataset.sources._source import FileContents, Repair
from costmodel.errors import CostModelError
from costmodel.formats import HEAD_BYTES, FileFormat, detect_format
from costmodel.opening import open_unpacked
from costmodel.reading import is_file, read_toml, refusing
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._device_table import find_device
from costmodel.records._identity import content_id
from costmodel.records._platform import Device, DeviceKind, Isolation, Platform
from costmodel.records._workload import Workload

LowerTraces = Literal["needed", "all", "none"]
LOWER_TRACES: tuple[LowerTraces, ...] = get_args(LowerTraces)


@dataclass(frozen=True)
class ReadOptions:
    """Information that files of other programs do not contain.

    Attributes:
        platform: TOML file that describes the platform of the measurements. A file next to the measurements
            with the same name and the suffix ``.platform.toml`` overrides it for that file.
        columns: TOML file that maps the columns of a table.
        workloads: Workloads measured, for formats that do not name them.
        problem_size: Problem size, x first, for Kernel Tuner caches that do not contain it.
        lower_traces: Traces of a MetaSchedule database that TVM, if installed, lowers to find what their
            kernels launch. ``needed``: those of foreign kernels and of a CPU, whose features are not known
            otherwise. ``all``: every trace. ``none``: no trace.
        share: Share of the shapes to read of a table of AIConfigurator, the same ones of every table.
    """

    platform: Path | None = None
    columns: Path | None = None
    workloads: tuple[Workload, ...] = ()
    problem_size: tuple[int, ...] = ()
    lower_traces: LowerTraces = "needed"
    share: float = 1.0


@dataclass(frozen=True)
class InputFile:
    """A file, and what it looks like.

    Attributes:
        path: Where it is.
        head: Its first bytes, unpacked.
    """

    path: Path
    head: bytes

    @classmethod
    def open(cls, path: Path) -> "InputFile":
        """Read the first bytes.

        Raises:
            CostModelError: The file cannot be read.
        """
        with (
            refusing(path, "a file of measurements", "Copy the file again."),
            open_unpacked(path) as (file, _),
        ):
            return cls(path, file.read(HEAD_BYTES))

    @cached_property
    def look(self) -> FileFormat | None:
        """The format that it looks to be of; None if that is unknown."""
        return detect_format(self.head)

    @property
    def is_json(self) -> bool:
        """Whether it begins as JSON does."""
        return self.head.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def document(self) -> Document:
        """The JSON object that it is.

        Raises:
            CostModelError: It is damaged.
        """
        return Document.open(self.path, self.look.name if self.look else "one JSON object")


# Reads what a file of one format holds; raises a ``CostModelError`` where it is damaged, or needs an option
# that is not given.
Reader = Callable[[InputFile, ReadOptions], FileContents]


SUFFIX = ".platform.toml"
_AMD = re.compile(r"AMD|Radeon|Instinct|\bMI\d|\bW\d{4}\b")
_EXAMPLE = (
    'with lines such as `device = "RTX 3090"` (a name that `costmodel devices list` shows, or a table '
    '[device] with the fields of a device), `sms = 82`, `isolation = "whole"` and a table [software] with '
    'lines such as `driver = "580.1"`'
)


Size = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
ProblemSize = Annotated[tuple[Size, ...], msgspec.Meta(min_length=1, max_length=3)]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    device: str | Device
    sms: int | None = None
    sms_requested: int | None = None
    isolation: Isolation = "whole"
    software: dict[str, str] = {}
    workload: str = ""
    problem_size: ProblemSize | None = None
    workloads: dict[str, str] = {}


@dataclass(frozen=True)
class PlatformFile:
    """What a file of a platform says.

    Attributes:
        platform: Where it was measured.
        workload: What was measured, for formats that hold one workload and do not name it.
        problem_size: Sizes of the problem, for caches of Kernel Tuner that do not say them; may be empty.
        is_beside: Whether it stands beside the file that it describes, and not for many files.
        workloads: By the hash that a MetaSchedule database gives a program, the workload that it is.
    """

    platform: Platform
    workload: Workload | None
    workloads: dict[str, Workload]
    problem_size: tuple[int, ...] = ()
    is_beside: bool = False

    def at_file(self, software_key: str, origin: str, **versions: str) -> Platform:
        """Return the platform, whose software says the file that its measurements are from.

        Args:
            software_key: What kind of file it is.
            origin: The file.
            versions: Other versions that the file says.
        """
        return add_software(self.platform, {**versions, software_key: origin})


def add_software(platform: Platform, versions: Mapping[str, str]) -> Platform:
    """Return the platform with these versions in place of its own of the same names."""
    return msgspec.structs.replace(platform, software={**platform.software, **versions})


def read_platform_file(path: Path) -> PlatformFile:
    """Read a file of a platform.

    Raises:
        CostModelError: The file cannot be read, or does not describe a platform.
    """
    file: _File = read_toml(path, _File, f"a platform {_EXAMPLE}")
    device = find_device(file.device) if isinstance(file.device, str) else _checked(file.device, path)
    sms = device.sms if file.sms is None else file.sms
    if file.isolation != "whole" and file.sms is None:
        raise CostModelError(
            f"{path} must give the number of SMs granted (`sms`) for isolation {file.isolation}."
        )
    if not min(1, device.sms) <= sms <= device.sms or (file.isolation == "whole" and sms != device.sms):
        raise CostModelError(
            f"{path} must grant 1 to {device.sms} SMs of {device.name}, and all of them where isolation is "
            f"whole, but got {sms} with isolation {file.isolation}."
        )
    requested = sms if file.sms_requested is None else file.sms_requested
    return PlatformFile(
        Platform(device, file.isolation, requested, sms, file.software),
        Workload.parse(file.workload) if file.workload else None,
        {program: Workload.parse(name) for program, name in file.workloads.items()},
        file.problem_size or (),
    )


def find_platform_file(path: Path, named: Path | None) -> PlatformFile | None:
    """The platform of a foreign file: that of ``<file name>.platform.toml`` beside it, or of the named file.

    Raises:
        CostModelError: The file that there is cannot be read.
    """
    beside = path.with_name(f"{path.name}{SUFFIX}")
    if is_file(beside):
        return replace(read_platform_file(beside), is_beside=True)
    return read_platform_file(named) if named else None


def require_platform(found: PlatformFile | None, path: Path) -> PlatformFile:
    """Return the platform of a file whose format says none.

    Raises:
        CostModelError: It is not known.
    """
    if found is None:
        raise CostModelError(
            f"{path} must name the platform of its measurements, but does not. Give `--platform "
            f"platform.toml`, or write {path.name}{SUFFIX} next to it, {_EXAMPLE}."
        )
    return found


def find_named_device(name: str) -> Device:
    """Return the device of this name from the table of devices, or a device with only its name known."""
    try:
        return find_device(name)
    except CostModelError:
        kind: DeviceKind = "hip" if _AMD.search(name) else "cuda"
        return Device(name, kind, architecture="", sms=0, clock_mhz=0.0)


@dataclass(frozen=True)
class MeasuredOn:
    """Where a file that names its device was measured.

    Attributes:
        platform: The platform.
        remark: What to know of how it was found; empty if nothing.
    """

    platform: Platform
    remark: str = ""

    def repairs(self, entries: int) -> Iterator[Repair]:
        """Yield the remark for so many entries."""
        if self.remark:
            yield Repair(self.remark, entries)


def locate(device: Device, said: str, found: PlatformFile | None) -> MeasuredOn:
    """Find the platform of a file that names its device.

    A platform file beside it is believed more than the file; one for many files only where it describes the
    same device, which it may know more of.

    Args:
        device: The device, as far as the file and the table of devices know it.
        said: What the file calls it.
        found: The platform file that there is.
    """
    whole = Platform(device, "whole", device.sms, device.sms)
    if found is None:
        return MeasuredOn(whole)
    given = found.platform.device.name
    if given in (said, device.name):
        return MeasuredOn(found.platform)
    if found.is_beside:
        return MeasuredOn(
            found.platform, f"the file names {said}, and {given} is from the platform file beside it"
        )
    return MeasuredOn(whole, f"the platform file describes {given}, and the file {said}: it is not used")


def _checked(device: Device, path: Path) -> Device:
    numbers = {name: x for name, x in msgspec.structs.asdict(device).items() if not isinstance(x, str)}
    wrong = [name for name, number in numbers.items() if not 0 <= number < math.inf]
    if wrong or not device.name:
        raise CostModelError(
            f"{path} must describe a device with a name and with sizes and rates from 0, "
            f"but got {', '.join(wrong) or 'no name'}."
        )
    return device


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def foreign_workload(suite: str, name: str, identity: Any, dims: Mapping[str, int] | None = None) -> Workload:
    """Make the workload of a kernel of another program.

    Args:
        suite: The program.
        name: What the program calls the kernel.
        identity: All that tells the kernel from others of its name, but for its sizes.
        dims: Its sizes by letter, where they are known.
    """
    readable = re.sub(r"\W+", "_", name, flags=re.ASCII) or "kernel"
    return Workload(f"{suite}.{readable}.{content_id(identity)[:6]}", dict(dims or {}), "")


def workload_of_arguments(suite: str, name: str, arguments: list[Any]) -> Workload:
    """Make the workload of a kernel that is told from others by its arguments.

    Positive integers among the arguments are its sizes, with letters in order. All else enters its kind, so
    that two lists of arguments are never one workload.
    """
    sizes: list[int] = []
    rest = _replace_sizes(arguments, sizes)
    if len(sizes) > len(_LETTERS):
        sizes, rest = [], arguments
    return foreign_workload(suite, name, [name, *rest], dict(zip(_LETTERS, sizes, strict=False)))


def find_given_workload(where: PlatformFile | None, options: ReadOptions) -> Workload | None:
    """Return the workload that the platform file or the options name for all of a file; None if none."""
    if where and where.workload:
        return where.workload
    return options.workloads[0] if len(options.workloads) == 1 else None


def make_candidate(
    suite: str, workload: Workload, decisions: Mapping[str, Decision], given: Workload | None
) -> Candidate:
    """Make the candidate of a config.

    Args:
        suite: The program.
        workload: What the program calls the workload.
        decisions: What was chosen.
        given: The workload that the user names instead; what the program calls it is then a decision.
    """
    chosen = dict(decisions) if given is None else {**decisions, f"{suite}.kernel": workload.name}
    return Candidate(given or workload, name_space(suite, chosen), Config(chosen))


def name_space(suite: str, parameters: Iterable[str]) -> str:
    """Name the space of configs that have these parameters."""
    return f"{suite}-{content_id(sorted(parameters))[:6]}"


def _replace_sizes(value: Any, sizes: list[int]) -> Any:
    """Replace positive integers by 1, and append them to ``sizes``."""
    if isinstance(value, list):
        return [_replace_sizes(each, sizes) for each in value]
    if type(value) is int and 1 <= value < 2**53:
        sizes.append(value)
        return 1
    return value
