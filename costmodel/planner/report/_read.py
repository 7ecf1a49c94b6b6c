"""A graph of any kind, or the file that it comes from."""

from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.planner.graphs._base import KernelGraph
from costmodel.planner.graphs._json_graph import read_graph
from costmodel.planner.graphs._recorded import RecordedGraph
from costmodel.planner.graphs._relax import is_module_place, read_relax
from costmodel.planner.graphs.kineto._read import read_kineto
from costmodel.planner.latencies._base import Latencies


def read_any(
    model: Path | str | RecordedGraph | KernelGraph,
    within: str = "",
    sms: int | None = None,
    latencies: Latencies | None = None,
) -> tuple[RecordedGraph, str]:
    """A graph, or that of a Relax module, a trace or a JSON of one's own; and what it is called.

    Args:
        model: The graph or its file.
        within: Annotation whose part of a trace is wanted; all of it if empty.
        sms: SMs that the kernels of a Relax module have; the whole device unless given.
        latencies: What the kernels of a Relax module take.

    Raises:
        CostModelError: The file cannot be read, has no such annotation, or is no module but SMs are given.
    """
    if isinstance(model, Path | str) and is_module_place(str(model)):
        return read_relax(str(model), latencies, sms=sms), Path(model).name
    if sms is not None:
        raise CostModelError(
            "SMs can be chosen only for the kernels of a Relax module, but a recorded graph has those that "
            f"it ran on. Use the what-if sms={sms}."
        )
    if isinstance(model, Path | str):
        return _read_file(Path(model), within), Path(model).name
    return (RecordedGraph.unrecorded(model) if isinstance(model, KernelGraph) else model), "graph"


def _read_file(path: Path, within: str) -> RecordedGraph:
    """A trace or a graph of one's own, by its first key."""
    if path.suffix == ".py":
        raise CostModelError(
            f"A Relax module must be named with its file, as in {path}:module, but got {path}."
        )
    try:
        with path.open("rb") as file:
            begins = file.read(64)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}. Name a trace or a graph.") from error
    own = begins.replace(b" ", b"").replace(b"\n", b"").replace(b"\r", b"").startswith(b'{"tasks"')
    return read_graph(path) if own else read_kineto(path, within)
