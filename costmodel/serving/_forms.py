"""Names and contents of table files, as the loaders of frameworks look for them, and the tables that ship.

Sources: ``get_config_file_name`` and ``get_moe_configs`` of vLLM (``fused_moe.py``) and SGLang 0.5.23
(``fused_moe_triton_config.py``), and ``get_w8a8_block_fp8_configs`` of both. All take the row of the nearest
number of tokens.

FlashInfer's tactics are numbers that mean nothing outside of the build that listed them, Helion's tables are
of kernels of its users, and Megatron's are recorded from runs: none can be told in advance.

No latency is known of the tables that vLLM 0.33.0 and SGLang 0.5.23 ship (Apache-2.0): each row was the
fastest of a sweep that nobody published.
"""

import json
import lzma
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec

from costmodel.errors import CostModelError
from costmodel.reading import read_json, refusing
from costmodel.serving._default_rule import Framework
from costmodel.serving._kernel import (
    BlockShape,
    ExpertProducts,
    Kernel,
    Precision,
    Row,
    ScaledProduct,
)

_BLOCK = r"[1-9]\d{0,5}, ?[1-9]\d{0,5}"
# A table whose name ends in `_down` is for the second product alone.
_EXPERTS = re.compile(
    r"E=(?P<experts>[1-9]\d{0,8}),N=(?P<width>[1-9]\d{0,8}),device_name=(?P<device>[^,]+?)"
    rf"(?:,dtype=(?P<dtype>[a-z0-9_]+?))?(?:,block_shape=\[(?P<block>{_BLOCK})\])?(?<!_down)\.json"
)
_SCALED = re.compile(
    r"N=(?P<columns>[1-9]\d{0,8}),K=(?P<depth>[1-9]\d{0,8}),device_name=(?P<device>[^,]+),dtype=fp8_w8a8,"
    rf"block_shape=\[(?P<block>{_BLOCK})\]\.json"
)
_VERSION = "triton_version"
_REMEDY = "Give a file that vLLM or SGLang ships, or that `costmodel serve-tables` wrote."
Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
LINEAR = "linear"  # folder of tables that a framework reads from its own package alone


def name_table(framework: Framework, kernel: Kernel, device: str, triton: str) -> str:
    """Return the path of a table below the folder that the framework is told of.

    Those of linear layers are in the folder ``linear``.
    """
    space = " " if framework == "sglang" else ""
    gpu = _name_device(framework, device)
    block = kernel.block and all(kernel.block) and f"[{kernel.block[0]},{space}{kernel.block[1]}]"
    if isinstance(kernel, ScaledProduct):
        sizes = f"N={kernel.columns},K={kernel.depth}"
        return f"{LINEAR}/{sizes},device_name={gpu},dtype=fp8_w8a8,block_shape={block}.json"
    dtype = f",dtype={kernel.precision}" if kernel.precision else ""
    shape = f",block_shape={block}" if block else ""
    name = f"E={kernel.experts},N={kernel.width},device_name={gpu}{dtype}{shape}.json"
    return name if framework == "vllm" else f"configs/triton_{triton.replace('.', '_')}/{name}"


def _name_device(framework: Framework, device: str) -> str:
    name = re.sub(r"[\s/]+", "_", device) if framework == "vllm" else device.replace(" ", "_")
    # vLLM has one name for all GPUs of the family.
    return "NVIDIA_H200" if framework == "vllm" and "H200" in name.split("_") else name


def encode_table(framework: Framework, kernel: Kernel, rows: Mapping[int, Row], triton: str) -> bytes:
    """Return the file of a table; the same rows give the same bytes.

    Of vLLM a table of experts names the Triton that it is for. Other loaders take every key for a number.
    """
    told: dict[str, Any] = {}
    if framework == "vllm" and triton and not isinstance(kernel, ScaledProduct):
        told[_VERSION] = triton
    told |= {str(tokens): row for tokens, row in sorted(rows.items())}
    return (json.dumps(told, indent=4) + "\n").encode()


class _Parameters(msgspec.Struct, frozen=True):
    """Parameters of a row that all GPUs have; Triton has defaults for the last two."""

    BLOCK_SIZE_M: Count
    BLOCK_SIZE_N: Count
    BLOCK_SIZE_K: Count
    GROUP_SIZE_M: Count
    num_warps: Count = 4
    num_stages: Count = 3


_Rows = Annotated[dict[Count, _Parameters], msgspec.Meta(min_length=1)]


class TableFile(NamedTuple):
    """A table that a framework would read.

    Attributes:
        kernel: What it is for.
        device: Name of the GPU.
        rows: The config by number of tokens.
    """

    kernel: Kernel
    device: str
    rows: dict[int, Row]


def is_table(name: str) -> bool:
    """Tell whether a file has the name of a table whose kernel is known."""
    return bool(_EXPERTS.fullmatch(name) or _SCALED.fullmatch(name))


def read_table_file(path: Path) -> TableFile:
    """Read a table of either framework.

    Raises:
        CostModelError: The file has another name or is none.
    """
    kernel, device = _kernel_of(path)
    told: dict[str, Any] = read_json(path, dict[str, Any], "a table of configs", remedy=_REMEDY)
    told.pop(_VERSION, None)
    with refusing(path, "a table of configs", _REMEDY):
        rows = msgspec.convert(told, _Rows, strict=False)
    return TableFile(kernel, device, {tokens: msgspec.structs.asdict(row) for tokens, row in rows.items()})


def _kernel_of(path: Path) -> tuple[Kernel, str]:
    if found := _SCALED.fullmatch(path.name):
        kernel: Kernel = ScaledProduct(int(found["columns"]), int(found["depth"]), _block(found["block"]))
    elif found := _EXPERTS.fullmatch(path.name):
        precision: Any = found["dtype"] or ""
        if precision not in get_args(Precision):
            raise CostModelError(
                f"{path.name}: dtype must be one of {', '.join(filter(None, get_args(Precision)))}, or be "
                f"left out, but got {precision}."
            )
        block = _block(found["block"]) if found["block"] else None
        kernel = ExpertProducts(int(found["experts"]), 0, int(found["width"]), 0, precision, block)
    else:
        raise CostModelError(
            f"{path.name} must be the name of a table of vLLM or SGLang, as in "
            "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json."
        )
    return kernel, found["device"].replace("_", " ")


def _block(text: str) -> BlockShape:
    rows, columns = (int(part) for part in text.split(","))
    return rows, columns


_FILE = Path(__file__).with_name("published.jsonl.xz")


class PublishedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table that a framework ships.

    Attributes:
        framework: Which.
        triton: Version that it was made with; empty where it is not told.
        device: Name of the GPU.
        kernel: What for; of experts, a table does not tell how many a token has, nor its elements.
        rows: The best config by number of tokens.
    """

    framework: Framework
    triton: str
    device: str
    kernel: Kernel
    rows: dict[int, Row]

    def row(self, tokens: int) -> Row:
        """Return the config that frameworks take of it: that of the nearest number of tokens."""
        return self.rows[min(self.rows, key=lambda known: abs(known - tokens))]


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """Return all tables."""
    decode = msgspec.json.Decoder(PublishedTable).decode
    with lzma.open(_FILE) as lines:
        return tuple(decode(line) for line in lines)
