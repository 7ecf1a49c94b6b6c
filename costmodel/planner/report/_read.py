"""A file of any kind that graphs come from."""

from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.planner.graphs import RecordedGraph, read_graph, read_kineto


def read_any(path: Path) -> tuple[RecordedGraph, str]:
    """The graph of a trace or of a JSON of one's own, by its first key, and the file's name.

    Raises:
        CostModelError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            begins = file.read(64)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}. Name a trace or a graph.") from error
    own = begins.replace(b" ", b"").replace(b"\n", b"").replace(b"\r", b"").startswith(b'{"tasks"')
    return (read_graph if own else read_kineto)(path), path.name
