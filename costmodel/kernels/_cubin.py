"""What the machine code of a CUDA kernel says of itself.

A cubin is an ELF file. Its section ``.nv.info`` lists attributes of functions, of which NVIDIA documents the
meaning (``cuobjdump --dump-resource-usage`` prints them) and not the numbers; those below are checked against
what ``ptxas -v`` says.
"""

import io
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.records._measurement import KernelResources

_EM_CUDA = 190
_MAGIC = b"\x7fELF"
_REGISTERS, _STACK = 0x2F, 0x11  # attributes: (symbol, value) of 32 bits each
_RESERVED_SHARED_BYTES = 1024  # of each block, by the system
_SIZED = 4  # format of an attribute whose size follows; the others hold 16 bits


def kernel_resources(library: Path) -> tuple[KernelResources, ...]:
    """Return the resources of each kernel, in order of name; empty without machine code.

    Args:
        library: A cubin, or a shared library that embeds one.
    """
    cubin = _embedded_cubin(library.read_bytes())
    return tuple(resources for _, resources in sorted(resources_by_kernel(cubin).items())) if cubin else ()


def resources_by_kernel(cubin: bytes) -> dict[str, KernelResources]:
    """Return the resources of each kernel of a cubin, by its name in there."""
    file = _elf(cubin)
    facts: dict[int, dict[int, int]] = defaultdict(dict)
    for attribute, symbol, value in _attributes(file.get_section_by_name(".nv.info").data()):
        facts[symbol][attribute] = value
    symbols = file.get_section_by_name(".symtab")
    return {
        symbols.get_symbol(symbol).name: KernelResources(known[_REGISTERS], known.get(_STACK, 0))
        for symbol, known in facts.items()
        if _REGISTERS in known
    }


def static_shared_bytes(cubin: bytes, kernel: str) -> int:
    """Return shared memory that a kernel of a cubin declares itself."""
    file = _elf(cubin)
    section = file.get_section_by_name(f".nv.shared.{kernel}")
    if section is None:
        return 0
    is_counted = file.get_section_by_name(".nv.shared.reserved.0") is not None  # from sm_90 on
    return int(section["sh_size"]) - (_RESERVED_SHARED_BYTES if is_counted else 0)


def _elf(cubin: bytes) -> Any:
    from elftools.elf.elffile import ELFFile  # comes with the extras tvm and cuda

    return ELFFile(io.BytesIO(cubin))


def _embedded_cubin(data: bytes) -> bytes:
    """Return machine code for a GPU, up to the end of the file that it is in; empty if there is none."""
    start = data.find(_MAGIC)
    while start >= 0:
        (machine,) = struct.unpack_from("<H", data, start + 18)
        if machine == _EM_CUDA:
            return data[start:]
        start = data.find(_MAGIC, start + 1)
    return b""


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Return attribute, symbol and value of each entry that has a pair of them."""
    offset = 0
    while offset < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, offset)
        if form == _SIZED and size >= 8:
            yield (attribute, *struct.unpack_from("<II", info, offset + 4))
        offset += 4 + (size if form == _SIZED else 0)
