"""Tables of a model for a GPU, with where each row is from, and the folder that holds them."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from costmodel.arguments import check_path, check_text, check_whole, check_wholes
from costmodel.errors import CostModelError, did_you_mean, shorten
from costmodel.files import make_folder, write_whole
from costmodel.products._model import meant_gpu
from costmodel.reading import is_file, read_bytes, read_json
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device, check_sms
from costmodel.serving._choose import TableRow, choose_rows
from costmodel.serving._default_rule import Framework
from costmodel.serving._forms import encode_table, is_table, name_table
from costmodel.serving._kernel import Kernel
from costmodel.serving._model_config import read_served_model
from costmodel.version import __version__

if TYPE_CHECKING:
    from costmodel.collector.runners._base import Runner
    from costmodel.serving._time import RowTimer

# Numbers of tokens that the tables of both frameworks have.
TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
MANIFEST = "serve-tables.json"
_SHARES = (1, 2, 4, 8)  # GPUs that share a model, as servers have them
_VERSION = re.compile(r"\d+(\.\d+)+[\w.+-]*", re.ASCII)  # names a folder
_WHAT = "the manifest of tables"
_REMEDY = "Write the tables anew with `costmodel serve-tables`, into an empty folder."


class ServedTable(msgspec.Struct, frozen=True):
    """A table.

    Attributes:
        kernel: What it is for.
        used_by: Parts of a layer that use it.
        rows: The row of each number of tokens.
    """

    kernel: Kernel
    used_by: tuple[str, ...]
    rows: dict[int, TableRow]


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    costmodel: str
    model: str
    framework: Framework
    device: str
    sms: int | None
    triton: str
    files: dict[str, str]
    tables: dict[str, ServedTable]
    left_out: tuple[str, ...]
    content: str = ""


@dataclass(frozen=True, repr=False)
class ServingTables:
    """Tables of a model for a GPU.

    Attributes:
        model: Kind of the model.
        framework: What reads them.
        device: Name of the GPU.
        sms: SMs that kernels will have; None for all.
        triton: Version of Triton that they are for; empty where nobody said it.
        tables: The tables, by path below the folder that they are written to.
        left_out: What of the model takes no table, and why, in sentences.
    """

    model: str
    framework: Framework
    device: str
    sms: int | None
    triton: str
    tables: Mapping[str, ServedTable]
    left_out: Sequence[str] = ()

    @property
    def origins(self) -> dict[str, int]:
        """Number of rows by how they are known."""
        counts = Counter(row.origin for table in self.tables.values() for row in table.rows.values())
        return dict(counts.most_common())

    @property
    def content(self) -> str:
        """Hash of all that is told of them: equal on all machines that ask for the same."""
        return self._manifest().content

    def files(self) -> dict[str, bytes]:
        """Return the manifest, and each table as the framework reads it, by path."""
        encoded = {path: self._encode(table) for path, table in self.tables.items()}
        return {MANIFEST: _encode(self._manifest()), **encoded}

    def write(self, folder: Path | str) -> Path:
        """Write the tables and their manifest into a folder.

        Tables that an earlier call wrote there, and this one does not, are deleted, or they would be read.
        The manifest comes first: what a killed process left is refused when it is loaded, and all of it is
        known to the next call.

        Raises:
            CostModelError: A file cannot be written, or the folder has a manifest that was altered.
        """
        place = check_path("folder", folder)
        if is_file(place / MANIFEST):
            for path in _read_manifest(place).files.keys() - self.tables.keys():
                (place / path).unlink(missing_ok=True)
        for path, content in self.files().items():
            make_folder((place / path).parent)
            write_whole(place / path, content)
        return place

    def _encode(self, table: ServedTable) -> bytes:
        rows = {tokens: row.config for tokens, row in table.rows.items()}
        return encode_table(self.framework, table.kernel, rows, self.triton)

    def _manifest(self) -> _Manifest:
        encoded = {path: self._encode(table) for path, table in self.tables.items()}
        told = _Manifest(
            costmodel=__version__,
            model=self.model,
            framework=self.framework,
            device=self.device,
            sms=self.sms,
            triton=self.triton,
            files={path: hashlib.sha256(each).hexdigest() for path, each in encoded.items()},
            tables=dict(self.tables),
            left_out=tuple(self.left_out),
        )
        return msgspec.structs.replace(told, content=hashlib.sha256(_encode(told)).hexdigest())


def serve_tables(  # noqa: PLR0913 (what is asked for, all but two with defaults)
    model: Path | str,
    device: str,
    *,
    sms: int | None = None,
    framework: Framework = "vllm",
    triton: str = "",
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    unsure: bool = False,
    tokens: Sequence[int] = TOKENS,
    timings: int | None = None,
    on: "Runner | None" = None,
) -> ServingTables:
    """Choose the configs of a model's kernels on a GPU that nobody needs to have at hand.

    Example:
        >>> from costmodel.serving import serve_tables
        >>> serve_tables("config.json", "NVIDIA L40S").write("tables")  # doctest: +SKIP

    Args:
        model: The model's ``config.json``, or the folder with it.
        device: The GPU, as ``costmodel devices list`` calls it.
        sms: SMs that kernels will have there, such as those of a green context. Default: all.
        framework: What will read the tables.
        triton: Version of Triton there, such as ``3.6.0``: SGLang looks for tables of its own version.
        tensor_parallel: GPUs that share each expert and each product.
        expert_parallel: GPUs that share the experts out.
        unsure: Also take rows of tables for like sizes on GPUs of the same architecture, where the model does
            not know it. On an H100 one in five of them loses to vLLM's default, and they gain 13 %.
        tokens: Numbers of tokens that get a row.
        timings: Configs to time of each row, with kernels of our own that do the same: the default, what the
            nearest table has, and those expected to be the fastest. Default: none.
        on: What times them. Default: the first GPU of this machine.

    Raises:
        CostModelError: The model cannot be read or has no kernel that takes a table, the GPU is unknown or is
            none of NVIDIA's, another one would time, or something else is no such value.
    """
    known = get_args(Framework)
    if framework not in known:
        raise CostModelError(
            f"The framework must be one of {', '.join(known)}, but got {framework!r}. FlashInfer, Helion and "
            "Megatron keep what their own runs found, in forms that nothing else can write."
            + did_you_mean(str(framework), known)
        )
    if framework == "sglang" and not triton:
        raise CostModelError(
            "SGLang keeps tables by version of Triton, but none was given: give triton, as "
            "`python -c 'import triton; print(triton.__version__)'` tells it where SGLang runs."
        )
    if check_text("triton", triton) and not _VERSION.fullmatch(triton):
        raise CostModelError(f"triton must be a version, such as 3.6.0, but got {shorten(repr(triton))}.")
    counts = sorted(set(check_wholes("tokens", tokens, 1)))
    check_whole("tensor_parallel", tensor_parallel, 1)
    check_whole("expert_parallel", expert_parallel, 1)
    gpu = find_device(meant_gpu(device))
    if sms is not None:
        check_sms(gpu, sms)
    served = read_served_model(
        model,
        tensor_parallel=tensor_parallel,
        expert_parallel=expert_parallel,
        fuses_shared=framework == "sglang",
    )
    if not served.kernels:
        raise CostModelError(f"{model} has no kernel that takes a table. {' '.join(served.left_out)}")
    users: dict[Kernel, list[str]] = {}
    for use, kernel in served.kernels.items():
        users.setdefault(kernel, []).append(use)
    tables: dict[str, ServedTable] = {}
    left_out = list(served.left_out)
    with _timer(gpu, sms, timings, on) as timer:
        for kernel, uses in users.items():
            rows = choose_rows(kernel, gpu, framework, counts, sms, unsure, timer)
            path = name_table(framework, kernel, gpu.name, triton)
            if all(row.origin == "default" for row in rows.values()):
                # Its own rule knows every number of tokens.
                left_out.append(f"{path}: nothing is known to beat what {framework} runs without it.")
            else:
                tables[path] = ServedTable(kernel, tuple(uses), rows)
    return ServingTables(served.name, framework, gpu.name, sms, triton, tables, left_out)


def find_shares(model: Path | str, device: str, *, tensor_parallel: int = 1, **asked: Any) -> list[int]:
    """Numbers of GPUs, other than asked, with which rows are known if they share each expert and product.

    Args:
        model: See ``serve_tables``.
        device: See there.
        tensor_parallel: The number that was asked for.
        asked: What else was.
    """
    found = []
    for gpus in _SHARES:
        with suppress(CostModelError):  # sizes that so many cannot share
            if gpus != tensor_parallel and serve_tables(model, device, tensor_parallel=gpus, **asked).tables:
                found.append(gpus)
    return found


def _timer(
    device: Device, sms: int | None, timings: int | None, on: "Runner | None"
) -> AbstractContextManager["RowTimer | None"]:
    """What times rows, if anything does."""
    if timings is None:
        if on is not None:
            raise CostModelError(
                "timings must be at least 2 where `on` is given, but got None: say how many configs of each "
                "row it times."
            )
        return nullcontext()
    from costmodel.serving._time import open_timer  # builds and measures

    return open_timer(device, sms, check_whole("timings", timings, 2), on)


def load_serving_tables(
    folder: Path | str, *, device: str | None = None, triton: str | None = None
) -> ServingTables:
    """Read tables that were written, and check that they are as they were and for this GPU and Triton.

    Args:
        folder: Where they are.
        device: Name of the GPU that will run the kernels, as its driver tells it. Default: any.
        triton: Version of Triton there. Default: any.

    Raises:
        CostModelError: A file is missing or altered, or they are for another GPU or Triton.
    """
    place = check_path("folder", folder)
    told = _read_manifest(place)
    for path, sha256 in told.files.items():
        content = read_bytes(place / path, "a table of configs", remedy=_REMEDY)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise CostModelError(f"{place / path} must be as it was written, but was altered. {_REMEDY}")
    for what, wanted, own in (("GPU", device, told.device), ("Triton", triton, told.triton)):
        if wanted is not None and wanted != own:
            raise CostModelError(f"{place} holds tables for {what} {own}, but {wanted} will run. {_REMEDY}")
    return ServingTables(
        told.model, told.framework, told.device, told.sms, told.triton, told.tables, told.left_out
    )


def _read_manifest(place: Path) -> _Manifest:
    """Read the manifest of a folder, whatever became of its tables.

    Raises:
        CostModelError: It is none, was altered, or names files outside of the folder.
    """
    told: _Manifest = read_json(place / MANIFEST, _Manifest, _WHAT, remedy=_REMEDY)
    unsigned = msgspec.structs.replace(told, content="")
    if hashlib.sha256(_encode(unsigned)).hexdigest() != told.content:
        raise CostModelError(f"{place / MANIFEST} must be as it was written, but was altered. {_REMEDY}")
    if told.files.keys() != told.tables.keys() or not all(map(_is_within, told.files)):
        raise CostModelError(
            f"{place / MANIFEST} must name tables in its folder, but names others. {_REMEDY}"
        )
    return told


def _is_within(path: str) -> bool:
    """Whether a path is that of a table below the folder of its manifest."""
    parts = PurePosixPath(path)
    return is_table(parts.name) and not parts.is_absolute() and ".." not in parts.parts


def _encode(manifest: _Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
