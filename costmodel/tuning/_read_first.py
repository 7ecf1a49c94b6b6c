"""What is read of configs of a user's own Triton family: those that read best go first in a search."""

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from costmodel.files import cache_folder
from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.threads import cpu_threads

_READ = 64  # configs, drawn at random
_SHARE = 4  # of so many trials one is chosen by what was read
_TIMEOUT_S = 60.0
_FOLDER = "read"


def read_first(
    source: FamilySource | None, workload: Workload, platforms: Sequence[Platform], trials: int, seed: int
) -> list[Candidate]:
    """Return the configs to measure first, the most promising in front; none where nothing can be read.

    Args:
        source: Source of the user's family; None without one.
        workload: What it computes.
        platforms: Where it is tuned for.
        trials: Measurements that the search has.
        seed: Seed of the draw.
    """
    if not can_read(source) or platforms[0].device.kind != "cuda":
        return []
    assert isinstance(source, TritonSource)
    space, rng = source.space(workload, "cuda"), np.random.default_rng(seed)
    drawn = {each.config_id: each for each in (space.sample(rng) for _ in range(_READ))}
    candidates = [space.candidate(each) for each in drawn.values()]
    facts = read_candidates(source, candidates, platforms[0].device.architecture)
    if not any(facts):
        return []
    from costmodel.transfer._read_ranker import shipped_ranker

    log_s = np.mean([shipped_ranker().predict(facts, each) for each in platforms], axis=0)
    order = [i for i in log_s.argsort(kind="stable").tolist() if facts[i] is not None]
    return [candidates[i] for i in order[: max(1, trials // _SHARE)]]


def can_read(source: FamilySource | None) -> bool:
    """Tell whether kernels of a source can be read on this machine."""
    return isinstance(source, TritonSource) and find_spec("triton") is not None


def read_candidates(
    source: TritonSource, candidates: Sequence[Candidate], architecture: str
) -> list[ReadFacts | None]:
    """Read configs of one family, side by side; None for one that cannot be read, or cannot be right."""
    from costmodel.kernels.triton._read_cache import ReadCache
    from costmodel.kernels.triton._read_many import ManyReader
    from costmodel.kernels.triton.proposing._open_family import bind_candidate

    family = source.family_of(candidates[0])
    reader = ManyReader(ReadCache(cache_folder(_FOLDER)), cpu_threads(), _TIMEOUT_S, with_faults=True)
    readings = reader.read([bind_candidate(family, each, architecture) for each in candidates])
    return [None if each.note else each.facts for each in readings]
