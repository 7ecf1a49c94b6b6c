"""A file of any kind that graphs come from."""

from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.planner.graphs import RecordedGraph, read_graph, read_kineto


def read_any(path: Path, within: str = "") -> tuple[RecordedGraph, str]:
    """The graph of a trace or of a JSON of one's own, by its first key, and the file's name.

    Args:
        path: The file.
        within: Annotation whose part of a trace is wanted; all of it if empty.

    Raises:
        CostModelError: The file cannot be read, or has no such annotation.
    """
    try:
        with path.open("rb") as file:
            begins = file.read(64)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}. Name a trace or a graph.") from error
    own = begins.replace(b" ", b"").replace(b"\n", b"").replace(b"\r", b"").startswith(b'{"tasks"')
    return read_graph(path) if own else read_kineto(path, within), path.name
