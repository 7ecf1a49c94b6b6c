"""Timings that Inductor took of kernels of products, in a record store that processes share."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal

import torch
from msgspec.structs import replace

from costmodel.files import cache_folder, expand_home
from costmodel.integrations.inductor._timer import RUNS
from costmodel.products._product import Kernel, Product
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore
from costmodel.records._workload import Workload

# Names a store for all models that are not told another.
STORE_VARIABLE = "COSTMODEL_INDUCTOR_STORE"
_SPACE = "inductor-products"
L2Policy = Literal["warm", "flushed"]


class ProductTimings(SharedRecordStore):
    """A record store that indexes its measurements by product and platform."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._of_product: dict[tuple[str, str], list[Measurement]] = {}

    def known(self, product: Product, platform: Platform) -> dict[Kernel, float]:
        """Return the last latency of each kernel that was timed in graphs, in the same versions.

        It is inf where the kernel failed. What Inductor's own timer says is not compared with it.

        Args:
            product: What the kernels compute.
            platform: Where they ran.
        """
        self.refresh()
        platform = _with_versions(platform)
        of_product = self._of_product.get((_workload(product).name, platform.platform_id), [])
        return {
            _kernel(each): min(each.latencies_s, default=float("inf"))
            for each in of_product
            if each.platform.software == platform.software and each.l2_policy == "warm"
        }

    def keep(
        self, product: Product, platform: Platform, seconds: Mapping[Kernel, float], l2_policy: L2Policy
    ) -> None:
        """Keep timings that were taken just now: the least of several, inf for a failure.

        Failures are kept only where another kernel ran: what fails them all is not their fault.

        Args:
            product: What the kernels compute.
            platform: Where they ran.
            seconds: Of each kernel.
            l2_policy: ``warm`` for runs in a graph; ``flushed`` for single ones by Inductor's timer.
        """
        if all(each == float("inf") for each in seconds.values()):
            return
        platform, workload = _with_versions(platform), _workload(product)
        self.add(
            self._measurement(
                Candidate(workload, _SPACE, Config(kernel._asdict())), platform, latency_s, l2_policy
            )
            for kernel, latency_s in seconds.items()
        )

    def _measurement(
        self, candidate: Candidate, platform: Platform, latency_s: float, l2_policy: L2Policy
    ) -> Measurement:
        ran = latency_s < float("inf")
        return Measurement(
            candidate=candidate,
            platform=platform,
            outcome=Outcome.OK if ran else Outcome.LAUNCH_ERROR,
            latencies_s=(latency_s,) if ran else (),
            runs_per_repeat=ran * (RUNS if l2_policy == "warm" else 1),
            visit=next(
                visit for visit in count() if self.get(measurement_key(candidate, platform, visit)) is None
            ),
            l2_policy=l2_policy,
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            error="" if ran else "Inductor could not run it",
        )

    def _remember(self, measurement: Measurement) -> None:
        key = measurement.candidate.workload.name, measurement.platform.platform_id
        self._of_product.setdefault(key, []).append(measurement)

    def _forget_all(self) -> None:
        self._of_product.clear()


def open_timings(path: Path | str | None) -> ProductTimings:
    """Open the store at a path; all models of this process share one object.

    Args:
        path: Path of the file. Default: ``$COSTMODEL_INDUCTOR_STORE``, or
            ``~/.cache/costmodel/inductor.jsonl`` (``$XDG_CACHE_HOME`` replaces ``~/.cache``).
    """
    named = path or os.environ.get(STORE_VARIABLE) or cache_folder("inductor.jsonl")
    return _opened(expand_home(named).absolute())


@cache
def _opened(path: Path) -> ProductTimings:
    return ProductTimings(path)


def _kernel(measurement: Measurement) -> Kernel:
    decisions: dict[str, Any] = dict(measurement.candidate.config.decisions)
    return Kernel(**decisions)


def _workload(product: Product) -> Workload:
    """A kernel of another suite: only its name and sizes are known to others."""
    parts = ("inductor", product.dtype, product.layout, product.epilogue)
    dims = {"b": product.batch, "m": product.m, "n": product.n, "k": product.k}
    return Workload(".".join(filter(None, parts)), dims, "")


def _with_versions(platform: Platform) -> Platform:
    return replace(platform, software={**platform.software, "torch": str(torch.__version__)})
