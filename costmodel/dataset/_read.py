"""Files of any known kind to measurements; what kind a file is, its content says."""

from collections.abc import Sequence
from pathlib import Path

from costmodel.dataset._kernel_tuner import is_kernel_tuner_cache, read_kernel_tuner_cache
from costmodel.dataset._source import Source
from costmodel.errors import CostModelError
from costmodel.records import read_records


def read_source(path: Path) -> Source:
    """Read a record store, without its lock, or a cache file of Kernel Tuner.

    Raises:
        CostModelError: The file cannot be read or is damaged.
    """
    try:
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}.") from error
    return (
        read_kernel_tuner_cache(path)
        if is_kernel_tuner_cache(head)
        else Source(path, list(read_records(path)))
    )


def notes_on(sources: Sequence[Source]) -> tuple[str, ...]:
    """What no single record shows: one sentence for each file that holds nothing, or a part of a space.

    A space is taken to be partial where another file has more configs of the same workload. The values of its
    parameters cannot tell: most of their combinations break constraints that no cache file states.
    """
    empty = [f"{s.path.name} holds no record" for s in sources if not s.measurements and not s.rejects]
    most: dict[str, int] = {}
    for source in sources:
        for workload, count in source.configs.items():
            most[workload] = max(count, most.get(workload, 0))
    partial = [
        f"{source.path.name} has {count:,} of the {most[workload]:,} configs of {workload} that another has"
        for source in sources
        for workload, count in source.configs.items()
        if count < most[workload]
    ]
    return (*empty, *partial)
