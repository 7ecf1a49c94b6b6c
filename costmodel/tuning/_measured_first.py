"""What a search measures first: what reads best of Triton families, and what is expected of products."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.files import cache_folder
from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.search.spaces._base import SearchSpace
from costmodel.threads import cpu_threads
from costmodel.tuning._knowledge import Knowledge

if TYPE_CHECKING:  # loaded where it is used: most searches are not of products
    from costmodel.products._product import Product

_READ = 64  # configs, drawn at random
_EXPECTED = 512  # configs of each source, likewise
_SHARE = 4  # of so many trials of a source one is chosen
_TIMEOUT_S = 60.0
_FOLDER = "read"
_TRITON = "triton"


@dataclass(frozen=True)
class MeasuredFirst:
    """What is measured before a model proposes anything.

    Attributes:
        known_best: What was best of this workload in what is known.
        on_whole: The best of what the whole device ran before, as it is expected here.
        read: What reads best, see ``read_first``.
        expected: What a model of products expects to be best, see ``expect_first``.
    """

    known_best: Sequence[Candidate] = ()
    on_whole: Sequence[Candidate] = ()
    read: Sequence[Candidate] = ()
    expected: Sequence[Candidate] = ()

    def configs_of(self, space: SearchSpace) -> list[Config]:
        """Those of a space, in order; what it starts with itself comes after what is expected."""
        behind = *self.known_best, *self.on_whole, *self.read
        expected, others = ([c.config for c in some if space.holds(c)] for some in (self.expected, behind))
        return [*expected, *space.starts, *others]

    @property
    def remarks(self) -> list[str]:
        """What a user is told of it, a sentence each."""
        told = {
            "{} configs went first because of what was read of the kernel.": self.read,
            "First came the best of what the whole device ran before: {} trials.": self.on_whole,
            "{} kernels went first because the model of products puts them first.": self.expected,
        }
        return [sentence.format(len(some)) for sentence, some in told.items() if some]


def source_to_read(
    family: FamilySource | None, workload: Workload, known: Mapping[str, Knowledge]
) -> FamilySource | None:
    """Return the source whose kernels are worth reading: the user's, or Triton's if nothing is known.

    Args:
        family: Source of the user's family; None without one.
        workload: What is tuned.
        known: What is known of the kernels of each source.
    """
    if family is not None or not workload.is_foreign or _TRITON not in known:
        return family
    return TritonSource() if known[_TRITON].model is None else None


def read_first(
    source: FamilySource | None, workload: Workload, platforms: Sequence[Platform], trials: int, seed: int
) -> list[Candidate]:
    """Return the configs to measure first, the most promising in front; none where nothing can be read.

    Args:
        source: Source of the family, see ``source_to_read``; None without one.
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


def expect_first(
    spaces: Mapping[str, SearchSpace],
    workload: Workload,
    platforms: Sequence[Platform],
    trials: int,
    seed: int,
) -> list[Candidate]:
    """Return the kernels of a product that are expected to be the fastest, of each source the best in front.

    None where the workload is no product, or its device one that the model of products does not know.

    Args:
        spaces: Space of each source.
        workload: What is computed.
        platforms: Where it is tuned for.
        trials: Measurements that the search has for each source.
        seed: Seed of the draws.
    """
    from costmodel.products._model import shipped_products
    from costmodel.products._workload import KNOWN_SOURCES, find_product

    product = find_product(workload)
    if product is None or platforms[0].device.name not in shipped_products().devices:
        return []
    found = []
    for source, space in spaces.items():
        if source not in KNOWN_SOURCES:
            continue
        rng = np.random.default_rng(seed)
        drawn = {each.config_id: each for each in (*space.starts, *space.draw(_EXPECTED, rng).configs)}
        configs = list(drawn.values())
        log_s = _expected_log_s(product, source, configs, platforms)
        best = [i for i in log_s.argsort(kind="stable").tolist() if np.isfinite(log_s[i])]
        found += [space.candidate(configs[i]) for i in best[: max(1, trials // _SHARE)]]
    return found


def _expected_log_s(
    product: "Product", source: str, configs: Sequence[Config], platforms: Sequence[Platform]
) -> FloatArray:
    """Return the sum over platforms of a config's expected log seconds, infinite where one is not known."""
    from costmodel.products._model import predict_seconds
    from costmodel.products._workload import find_kernel

    total = np.zeros(len(configs))
    for platform in platforms:
        sms, device = platform.sms_granted, platform.device
        kernels = [find_kernel(source, config, sms, device.sms) for config in configs]
        known = [kernel for kernel in kernels if kernel is not None]
        here = np.full(len(configs), np.inf)
        here[[kernel is not None for kernel in kernels]] = np.log(
            predict_seconds(product, known, sms, device.name, sizes_known=True)
        )
        total += here
    return total


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
