"""Pack the tables that vLLM and SGLang ship into the file that the package has: extract.py OUT WHEEL...

A wheel is a file or the folder that it was unpacked to. Left out are tables of other kernels, of types that
no kernel of ours has and of one of both products alone, and rows with parameters that only one framework's
kernel takes.
"""

import json
import lzma
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from costmodel.errors import CostModelError
from costmodel.serving._default_rule import Framework
from costmodel.serving._forms import PublishedTable, is_table, read_table_file
from costmodel.serving._kernel import PARAMETERS

_OWN = {
    "SPLIT_K": 1,
    "SWAP_AB": False,
    "num_ctas": 1,
}  # what others must not be asked for, and what says nothing
_OF_AMD = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")


def main() -> None:
    """Read the wheels and write the file."""
    out, *wheels = map(Path, sys.argv[1:])
    tables = [table for wheel in wheels for table in _tables(wheel)]
    tables.sort(
        key=lambda table: msgspec.json.encode((table.kernel, table.device, table.framework, table.triton))
    )
    lines = b"".join(msgspec.json.encode(table) + b"\n" for table in tables)
    out.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
    rows, gpus = sum(len(table.rows) for table in tables), len({table.device for table in tables})
    print(f"{out}: {len(tables)} tables of {gpus} GPUs, {rows:,} rows, {out.stat().st_size:,} bytes")


def _tables(wheel: Path) -> Iterator[PublishedTable]:
    if wheel.is_dir():
        yield from _tables_in(wheel)
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if is_table(Path(name).name)])
        yield from _tables_in(Path(folder))


def _tables_in(folder: Path) -> Iterator[PublishedTable]:
    framework: Framework = "sglang" if (folder / "sglang").is_dir() else "vllm"
    for path in sorted(folder.rglob("*.json")):
        if not is_table(path.name):
            continue
        try:
            table = read_table_file(path)
        except CostModelError:  # of other parameters, or of types that no kernel has
            continue
        rows = {tokens: row for tokens, row in _rows(path) if row}
        if rows and table.device.strip():
            yield PublishedTable(framework, _triton_of(path), table.device, table.kernel, rows)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the rows that kernels of both frameworks take."""
    for tokens, row in json.loads(path.read_text()).items():
        if tokens.isdigit() and _is_common(row):
            yield int(tokens), {name: row[name] for name in (*PARAMETERS, *_OF_AMD) if name in row}


def _is_common(row: dict[str, Any]) -> bool:
    told = all(type(row.get(name)) is int for name in PARAMETERS)
    return told and all(row.get(name, value) == value for name, value in _OWN.items())


def _triton_of(path: Path) -> str:
    """The version that a table says, or its folder."""
    told = json.loads(path.read_text()).get("triton_version")
    found = re.fullmatch(r"triton_([0-9_]+)", path.parent.name)
    return str(told) if told else found[1].replace("_", ".") if found else ""


if __name__ == "__main__":
    main()
