"""Names of kernels in ``kernel_names.txt``, with what they are."""

from pathlib import Path

KINDS = {
    "P": "PRODUCT",
    "V": "VECTOR_PRODUCT",
    "S": "STREAMING",
    "X": "SCATTERED",
    "R": "REDUCING",
    "O": "OTHER",
    "C": "COLLECTIVE",
}
_PRECISIONS = {"f": "FLOAT32", "t": "TF32", "h": "HALF", "n": "NARROW", "d": "FLOAT64", "?": None}


def read_parts() -> dict[str, list[tuple[str, str, str | None]]]:
    """Read the parts of the file: name, kind and, where the name tells it, precision of each kernel."""
    parts: dict[str, list[tuple[str, str, str | None]]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("["):
            part = parts.setdefault(line[1 : line.index("]")], [])
        elif not line.startswith("#"):
            kind, precision, name = line.split(" ", 2)
            part.append((name, KINDS[kind], _PRECISIONS[precision]))
    return parts


KERNELS = [kernel for part in read_parts().values() for kernel in part]
