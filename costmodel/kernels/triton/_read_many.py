"""Reads many configs of kernels side by side, in processes of their own.

Triton's front end works here, on objects of this process, once for all configs that differ in what it does
not look at; the passes behind it, which may crash, and the counting in ``_read_worker``.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.triton._forking import run_apart
from costmodel.kernels.triton._lower import LoweredTexts, Lowering, begin_lowering, lower_kernel
from costmodel.kernels.triton._read import read_entry
from costmodel.kernels.triton._read_cache import ReadCache, ReadEntry, hash_front
from costmodel.kernels.triton._read_worker import ReadJob
from costmodel.kernels.triton._values import Array, ReadLaunch

_WORKER = "costmodel.kernels.triton._read_worker"
_NO_TIME = Reading(note="There was no time left to read it.")


class BoundConfig(NamedTuple):
    """A config of a kernel, for the arguments of a launch.

    Attributes:
        lowering: What is compiled.
        launch: How it is launched.
    """

    lowering: Lowering
    launch: ReadLaunch


@dataclass
class ManyReader:
    """Reads configs, as many at once as there are workers.

    Attributes:
        cache: What was lowered and read before.
        workers: Processes that lower side by side; 0 lowers in this one, which a crash of the compiler ends.
        timeout_s: Seconds that all configs of a call have; no limit in this process.
        with_faults: Whether what cannot be right is a failure.
    """

    cache: ReadCache
    workers: int = 0
    timeout_s: float = 10.0
    with_faults: bool = False
    _fronts: dict[str, str] = field(default_factory=dict)

    def read(self, configs: Sequence[BoundConfig | Exception]) -> list[Reading]:
        """Return what each config does; a note where it cannot be read, or could not be bound."""
        found: dict[int, Reading] = {}
        sent: list[int] = []

        def jobs() -> Iterator[bytes]:
            for position, config in enumerate(configs):
                try:
                    job = self._look_up(position, config, found)
                except Exception as error:  # noqa: BLE001 (of Triton's front end: the config stays unread)
                    found[position] = Reading(note=describe_failure(error))
                    continue
                if job is not None:
                    sent.append(position)
                    yield msgspec.json.encode(job)

        try:
            lines = run_apart(_WORKER, [self.workers, self.timeout_s], jobs(), {}, self.timeout_s)
        except OSError as error:
            lines, otherwise = [], Reading(note=describe_failure(error))
        else:
            otherwise = _NO_TIME
        for line in lines:
            with suppress(msgspec.DecodeError):  # cut off, as the process was ended
                at, told = msgspec.json.decode(line, type=tuple[int, Reading])
                found[sent[at]] = told
        return [found.get(i, otherwise) for i in range(len(configs))]

    def _look_up(
        self, position: int, config: BoundConfig | Exception, found: dict[int, Reading]
    ) -> ReadJob | None:
        """Find a config here if it is known, or there are no workers; else return the job for them."""
        if isinstance(config, Exception):
            raise config
        lowering, launch = config.lowering, config.launch
        entry = self.cache.entry(lowering, launch)
        if self.workers and not entry.is_known(with_faults=self.with_faults):
            return self._job(lowering, launch, entry)
        lower = partial(_lower, lowering)
        found[position] = read_entry(lower, launch, entry, with_faults=self.with_faults)
        return None

    def _job(self, lowering: Lowering, launch: ReadLaunch, entry: ReadEntry) -> ReadJob:
        """What a worker has to know."""
        source, options = lowering.source, dict(lowering.specialization.options)
        return ReadJob(
            name=source.name,
            ext=source.ext,
            language=source.language.value,
            code="" if entry.is_lowered else self._front(lowering),
            options=options,
            architecture=lowering.architecture,
            arguments=[each.bytes if isinstance(each, Array) else each for each in launch.arguments],
            arrays=[isinstance(each, Array) for each in launch.arguments],
            grid=launch.grid,
            warps=launch.warps,
            entry=entry,
            with_faults=self.with_faults,
        )

    def _front(self, lowering: Lowering) -> str:
        """Return the module as Triton's front end leaves it."""
        key = hash_front(lowering)
        if key not in self._fronts:
            options = lowering.specialization.options
            begun = begin_lowering(lowering.source, options, lowering.architecture)
            self._fronts[key] = str(begun.module)
        return self._fronts[key]


def _lower(lowering: Lowering, with_layouts: bool) -> LoweredTexts:
    return lower_kernel(lowering if with_layouts else lowering.first_dialect)
