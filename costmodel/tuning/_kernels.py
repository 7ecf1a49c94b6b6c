"""``kernels`` and ``dataset read-facts``: list kernels, check a family, read what those of a dataset do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from costmodel.arguments import check_paths
from costmodel.collector._local_engine import LocalEngine
from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._devices import CudaRunner
from costmodel.dataset._read_facts import read_facts_folder, write_read_facts
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.files import cache_folder
from costmodel.kernels._base import KernelSource
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels._sources import SOURCES, open_sources
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._check import FamilyCheck, check_family
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.family._space import FamilySpace
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate
from costmodel.records._device_table import find_device, read_devices
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform, part_of
from costmodel.report._progress import Progress
from costmodel.transfer._read_ranker import ExpectedTime, expect_times
from costmodel.tuning._measured_first import can_read, read_candidates
from costmodel.tuning._subject import open_family

_DEVICE = "NVIDIA H100 80GB HBM3"  # of which the package learned what is read
INTERPRETER = "interpreter"
_READ_TIMEOUT_S = 60.0
_READ_FOLDER = "read"
_WITH_FAMILIES: tuple[type[FamilySource], ...] = (CudaSource, TritonSource)


@dataclass(frozen=True)
class KernelEntry:
    """An entry in the list of available kernels.

    Attributes:
        source: Name of the source.
        name: Name of the family; empty if the source makes kernels for all operators.
        workload: The workload that they compute, at the default sizes.
        configs: Number of configs at these sizes; None if there are too many to count.
        file: File with the description; empty if there is none.
    """

    source: str
    name: str
    workload: str
    configs: int | None
    file: str = ""


@dataclass(frozen=True)
class KernelsCheck:
    """The result of checking a kernel family.

    Attributes:
        compiled: Outcome of compiling each config.
        measured: Measurements of the compiled configs on a GPU, checked against the reference; empty without
            a GPU.
        measured_on: One sentence on the runner and the device; empty without a GPU.
        interpreted: For each compiled config, why its result in Triton's interpreter is wrong; an empty
            string if it is right. None if the interpreter was not used.
        expected_on: Name of the platform that times are expected on; empty where nothing can be read.
        expected: For each compiled config of a Triton family, what it should take there by what is read of
            it; None for one that could not be read.
    """

    compiled: FamilyCheck
    measured: tuple[Measurement, ...] = ()
    measured_on: str = ""
    interpreted: tuple[str, ...] | None = None
    expected_on: str = ""
    expected: tuple[ExpectedTime | None, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether no config is usable."""
        if self.interpreted is not None:
            return all(self.interpreted)
        if self.measured_on:
            return not any(each.outcome is Outcome.OK for each in self.measured)
        return not self.compiled.compiled


def list_kernels(families: Sequence[Path | str] = ()) -> list[KernelEntry]:
    """List your own kernel families and the shipped kernels.

    Args:
        families: Your own families: description files, Python files, or folders that hold one each.

    Raises:
        CostModelError: A family cannot be read.
    """
    own = [open_family(place) for place in check_paths("families", families)]
    shipped = [(source(), family) for source in _WITH_FAMILIES for family in source.shipped()]
    others = (name for name in SOURCES if name not in {source.name for source in _WITH_FAMILIES})
    every = [KernelEntry(name, "", "every operator", None) for name in others]
    return [*every, *(_entry(source, family) for source, family in (*own, *shipped))]


def check_kernels(  # noqa: PLR0913 (one argument a knob)
    path: Path | str,
    *,
    dims: Mapping[str, int] | None = None,
    architecture: str | None = None,
    device: str | None = None,
    sms: int | None = None,
    configs: int = 16,
    seed: int = 0,
    runner: Runner | str | None = None,
) -> KernelsCheck:
    """Check a kernel family: compile some configs, tell what they should take, and run them with a runner.

    What runs is compared with the reference. What configs should take is read of Triton families alone.

    Args:
        path: The description, the Python file, or the folder that holds it.
        dims: Sizes of the workload. Default: the sizes in the description.
        architecture: Architecture to compile for. Default: that of the device.
        device: Name of the device that times are expected on. Default: that of the runner; without one, the
            first of the architecture in ``costmodel devices list``, or an H100.
        sms: SMs that the kernel has there. Default: all.
        configs: Number of configs to compile: the default config first, then random ones.
        seed: Seed of the random configs.
        runner: ``cuda`` for this machine's GPU, ``interpreter`` for Triton's interpreter on a CPU, a runner
            that has the family's source, or None to compile only.

    Raises:
        CostModelError: The family is invalid, NVRTC is not installed, or there is no GPU.
    """
    source, family = open_family(path)
    interpreted = runner == INTERPRETER
    if interpreted and source.name != TritonSource.name:
        raise CostModelError(f"Triton's interpreter needs a Triton family, but {path} is of {source.name}.")
    workload = family.workload(**(dims or {}))
    with ExitStack() as stack:
        if runner is not None and not interpreted and not isinstance(runner, Runner):
            runner = stack.enter_context(_open_runner(runner, source))
        platform = _platform_of(runner if isinstance(runner, Runner) else None, device, architecture, sms)
        with Progress("compiling", configs) as progress:
            found = check_family(
                source,
                family,
                workload,
                architecture=architecture or platform.device.architecture,
                configs=configs,
                seed=seed,
                on_progress=progress.advance,
            )
        space = source.space(workload, "cuda")
        usable = [space.candidate(each.config) for each in found.configs if each.outcome is Outcome.OK]
        check = _with_expected(KernelsCheck(found), source, usable, platform)
        if interpreted:
            configs_ = [each.config for each in usable]
            return replace(check, interpreted=tuple(interpret([str(path)], workload, configs_)))
        if not isinstance(runner, Runner):
            return check
        return replace(check, measured=_measure_all(runner, usable), measured_on=runner.description)


def _platform_of(
    runner: Runner | None, device: str | None, architecture: str | None, sms: int | None
) -> Platform:
    """Return where a kernel is expected to run."""
    if device is not None:
        from costmodel.products._model import meant_gpu

        return part_of(find_device(meant_gpu(device)), sms)
    if runner is not None:
        return part_of(runner.platform().device, sms)
    known = [each.device for each in read_devices() if each.device.architecture == architecture]
    return part_of(known[0] if known else find_device(_DEVICE), sms)


def _with_expected(
    check: KernelsCheck, source: FamilySource, candidates: Sequence[Candidate], platform: Platform
) -> KernelsCheck:
    """Add what configs should take by what is read of them; nothing where nothing can be read."""
    if not candidates or not can_read(source):
        return check
    assert isinstance(source, TritonSource)
    facts = read_candidates(source, candidates, platform.device.architecture)
    expected = expect_times(facts, platform, np.full(len(facts), np.nan))
    return replace(check, expected_on=platform.name, expected=tuple(expected))


@dataclass(frozen=True)
class FactsReport:
    """What was read of a dataset's kernels.

    Attributes:
        file: The file with the facts.
        read: Kernels that were read.
        guessed: Those of them of which something had to be guessed.
        notes: Why others were not, and how many.
    """

    file: Path
    read: int
    guessed: int
    notes: Mapping[str, int] = field(default_factory=dict)


def read_facts(
    dataset: DatasetLike | None = None,
    families: Sequence[Path | str] = (),
    *,
    architecture: str | None = None,
    workers: int | None = None,
    timeout_s: float = _READ_TIMEOUT_S,
) -> FactsReport:
    """Read what each Triton and CUDA kernel of a dataset does, and write it beside the measurements.

    Needs the compilers of these sources and no GPU. Kernels are lowered in processes of their own; texts of
    Triton are kept in a cache.

    Args:
        dataset: A dataset, or what ``load_dataset`` takes.
        families: Places of families of your own that are in it.
        architecture: Architecture to lower for. Default: the one of most of the dataset's platforms.
        workers: Processes. Default: one for each hardware thread.
        timeout_s: Seconds that one kernel has.

    Raises:
        CostModelError: The dataset or a family cannot be read, or a compiler is not installed.
    """
    data = load_dataset(dataset)
    folder = read_facts_folder(data)
    target = architecture or Counter(each.device.architecture for each in data.platforms).most_common(1)[0][0]
    names = [source.name for source in _WITH_FAMILIES]
    known = open_sources(names, list(map(str, families)))
    candidates = [(each, source) for each in data.candidates for source in known if source.is_of(each)]
    sources = [source for source in known if any(source is of for _, of in candidates)]
    if not sources:
        raise CostModelError(
            f"{data.name} must have kernels of {' or '.join(names)} to be read, but has none."
        )
    for source in sources:
        source.check_installed("cuda")
    candidates.sort(key=lambda pair: pair[0].workload.name)  # whose arrays a process makes once
    with closing(LocalEngine(workers, prepare=partial(_prepare, sources, target))) as engine:
        jobs = {
            each.candidate_id: engine.submit(_read, source, each, target, timeout_s=timeout_s)
            for each, source in candidates
        }
        with Progress("reading", len(jobs)) as progress:
            readings = {candidate: _result(job, progress) for candidate, job in jobs.items()}
    compilers = {name: version for each in sources for name, version in each.compilers("cuda").items()}
    file = write_read_facts(folder, readings, {"architecture": target, **compilers})
    done = [each.facts for each in readings.values() if not each.note]
    notes = Counter(each.note for each in readings.values() if each.note)
    return FactsReport(file, len(done), sum(each.guesses > 0 for each in done), dict(notes.most_common()))


def _entry(source: FamilySource, family: Family) -> KernelEntry:
    workload = family.workload()
    count = FamilySpace(family, workload).count
    return KernelEntry(source.name, family.name, workload.name, count, str(family.file))


def _open_runner(runner: str, source: FamilySource) -> Runner:
    if runner != "cuda":
        raise CostModelError(
            f"The runner must be cuda or {INTERPRETER}, or none to compile only, but got {runner!r}."
        )
    return CudaRunner(sources=[source])


def _measure_all(runner: Runner, candidates: Sequence[Candidate]) -> tuple[Measurement, ...]:
    """Measure on the whole device, the first config separately: it may serve as the reference."""
    platform = runner.platform()
    with Progress("measuring", len(candidates)) as progress:
        found = []
        for batch in (candidates[:1], candidates[1:]):
            found += runner.measure(batch, platform) if batch else []
            progress.advance(steps=len(batch))
    return tuple(found)


def _prepare(sources: Sequence[KernelSource], architecture: str) -> None:
    for source in sources:
        source.prepare("cuda", architecture)


def _read(source: KernelSource, candidate: Candidate, architecture: str) -> Reading:
    return source.read(candidate, "cuda", architecture, cache_folder(_READ_FOLDER))


def _result(job: "Future[Reading]", progress: Progress) -> Reading:
    """Return what a job read; a note where its process ended or took too long."""
    try:
        return job.result()
    except Exception as error:  # noqa: BLE001 (of a process: the kernel stays unread)
        return Reading(note=describe_failure(error))
    finally:
        progress.advance()
