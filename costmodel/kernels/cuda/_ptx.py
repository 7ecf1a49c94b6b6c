"""PTX, the intermediate code that NVRTC makes, as basic blocks (NVIDIA, "Parallel Thread Execution ISA")."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from costmodel.errors import CostModelError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)[^{]*\{(.*)\n\}", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align \d+\s+)?\.(\w+)\s+(?:\.ptr\s+\S+\s+)?(?:\.align \d+\s+)?([\w$]+)"
)
_SHARED = re.compile(r"\.shared\s+(?:\.align (\d+)\s+)?\.[a-z](\d+)\s+([\w$]+)(?:\[(\d*)\])?")
_LABEL = re.compile(r"\s*([$\w]+):")
_STATEMENT = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s|]+")
_BITS = re.compile(r"[a-z]+(\d+)(x2)?")
_NOT_EXECUTED = ("reg", "pragma", "shared", "local", "loc", "param")


@dataclass(frozen=True, eq=False)
class PtxInstruction:
    """An instruction; two that read alike are not the same.

    Attributes:
        name: Its operation, ``add`` of ``add.s32``.
        parts: What stands behind it, ``("s32",)``.
        operands: Registers, numbers, addresses ``[...]`` and vectors ``{...}``, the result first.
        guard: Predicate on which it is executed; empty for always.
        is_negated: Whether it is executed where the predicate is false.
    """

    name: str
    parts: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str = ""
    is_negated: bool = False

    @cached_property
    def access_bytes(self) -> int:
        """Bytes that a lane reads or writes, if it accesses memory."""
        if self.name == "cp":
            return int(self.operands[2])
        if self.name == "ldmatrix":  # a row of a matrix of 8 x 8
            return 16
        vector = next((int(each[1:]) for each in self.parts if re.fullmatch(r"v\d", each)), 1)
        found = _BITS.fullmatch(self.parts[-1])
        return vector * (int(found[1]) * (2 if found[2] else 1) // 8 if found else 4)


@dataclass(frozen=True)
class PtxKernel:
    """A kernel.

    Attributes:
        parameters: Names of its parameters, in order.
        shared: Address of each array in shared memory.
        shared_bytes: Size of those of known size.
        blocks: Basic blocks: a branch ends one, and a label begins one.
        labels: The block that each label begins.
    """

    parameters: Sequence[str]
    shared: Mapping[str, int]
    shared_bytes: int
    blocks: Sequence[Sequence[PtxInstruction]]
    labels: Mapping[str, int]


def parse_ptx(text: str, name: str) -> PtxKernel:
    """Parse one kernel of a PTX module.

    Raises:
        CostModelError: It has no such kernel.
    """
    text = _COMMENT.sub("", text)
    for found in re.split(r"(?=\.visible|\.weak)", text):
        entry = _ENTRY.search(found)
        if entry and entry[1] == name:
            return _kernel(text, entry[2], entry[3])
    raise CostModelError(f"PTX must have the kernel {name}, but has not.")


def _kernel(text: str, parameters: str, body: str) -> PtxKernel:
    shared, used = dict[str, int](), 0
    for align, bits, name, count in _SHARED.findall(text):
        if name in shared:
            continue
        used = -(-used // int(align or 1)) * int(align or 1)
        shared[name] = used
        used += int(bits) // 8 * int(count or 0)
    blocks: list[list[PtxInstruction]] = [[]]
    labels: dict[str, int] = {}
    for statement in re.sub(r"[{}](?=\s*\n)|^\s*[{}]", "", body, flags=re.MULTILINE).split(";"):
        while label := _LABEL.match(statement):
            if blocks[-1]:
                blocks.append([])
            labels[label[1]] = len(blocks) - 1
            statement = statement[label.end() :]  # noqa: PLW2901 (what is left of it)
        found = _STATEMENT.fullmatch(statement.strip())
        if found is None or found[3].startswith(_NOT_EXECUTED):
            continue
        operation, *parts = found[3].split(".")
        operands = tuple(_OPERAND.findall(found[4]))
        blocks[-1].append(PtxInstruction(operation, tuple(parts), operands, found[2] or "", found[1] == "!"))
        if operation in ("bra", "ret", "exit"):
            blocks.append([])
    names = [name for _, name in _PARAMETER.findall(parameters)]
    return PtxKernel(names, shared, used, blocks, labels)
