"""Contract checks for kernel sources: MetaSchedule, CUDA families and the library pass the same ones.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", SOURCE_CHECKS)
    def test_the_library_keeps_the_contract(check, tmp_path):
        check(SourceCase(LibrarySource(), Workload.parse("softmax-m16-n16"), "cpu", "x86_64"), tmp_path)
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels._reference import agrees
from costmodel.kernels._sources import source_of
from costmodel.records._candidate import DATA_FACTS, Candidate, Config, ConfigBatch, KernelLaunch
from costmodel.records._measurement import Outcome
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

_DRAWN = 8


@dataclass(frozen=True)
class SourceCase:
    """A source to check, on a machine that need not have the device.

    Attributes:
        source: The source.
        workload: A small workload that it makes.
        kind: Kind of device.
        architecture: Architecture to build for.
    """

    source: KernelSource
    workload: Workload
    kind: TargetKind
    architecture: str


def check_it_makes_its_workload_and_no_other(case: SourceCase, folder: Path) -> None:
    """It says what it makes, and candidates of its spaces are its own."""
    assert case.source.makes(case.workload, case.kind)
    assert not case.source.makes(Workload("nobodys.kernel", {"x": 3}, ""), case.kind)
    assert source_of(_candidates(case)[0], [case.source]) is case.source


def check_configs_go_to_and_fro(case: SourceCase, folder: Path) -> None:
    """Configs that are drawn, sampled, changed or known to be good are of the space; Optuna can name them."""
    space, rng = case.source.space(case.workload, case.kind), np.random.default_rng(0)
    drawn = [c for i in range(len(space.sketches)) for c in space.draw(i, _DRAWN, rng).configs()]
    sampled = space.sample(rng)
    for config in [*drawn, *space.starts, sampled, space.mutate(sampled, rng)]:
        assert space.config(space.params(config)) == config
    if space.size is not None:
        every = [c for i in range(len(space.sketches)) for c in space.draw(i, space.size, rng).configs()]
        assert len({config.config_id for config in every}) == space.size


def check_a_config_of_another_space_is_refused(case: SourceCase, folder: Path) -> None:
    """What is no config of the space is refused, in a way that a search learns from."""
    space = case.source.space(case.workload, case.kind)
    try:
        space.candidate(Config({"no such parameter": 1}))
    except InvalidConfigError:
        return
    raise AssertionError("a config of another space must be refused with InvalidConfigError")


def check_launches_are_columns(case: SourceCase, folder: Path) -> None:
    """What is known before a build is a number or NaN for each field of each launch of each config."""
    space = case.source.space(case.workload, case.kind)
    batch = space.draw(0, _DRAWN, np.random.default_rng(0))
    launches = space.launches(batch)
    assert set(launches) == set(KernelLaunch.__struct_fields__)
    for values in launches.values():
        assert values.dtype == np.float64
        assert values.ndim == 2
        assert len(values) == batch.size
        assert not (values < 0).any()


def check_what_data_decide_is_the_same_of_a_candidate(case: SourceCase, folder: Path) -> None:
    """What launches say of data is said before a build as it is recorded, so that features do not change."""
    space, (candidate, *_) = case.source.space(case.workload, case.kind), _candidates(case)
    columns = space.launches(ConfigBatch.from_configs(case.workload, [candidate.config]))
    for name in DATA_FACTS:
        recorded = sum(getattr(launch, name) for launch in candidate.launches)
        assert np.nansum(columns[name]) == recorded


def check_arguments_are_the_same_and_outputs_unwritten(case: SourceCase, folder: Path) -> None:
    """Every process gets the same arguments, and outputs that nobody has written are not right."""
    first, again = (case.source.arguments(case.workload) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    reference, outputs = case.source.reference(case.workload), case.source.outputs(case.workload)
    assert outputs
    if reference is not None:
        tolerance = case.source.tolerance(case.workload)
        for position, right in zip(outputs, reference, strict=True):
            assert first[position].shape == right.shape
            assert not agrees(first[position], right, tolerance)
            assert agrees(right.astype(first[position].dtype), right, tolerance)


def check_builds_in_a_process_of_its_own(case: SourceCase, folder: Path) -> None:
    """A source goes to another process, and leaves artifacts that a second build finds."""
    candidate = _candidates(case)[0]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        built = processes.submit(_build, case, candidate, folder).result()
    assert built.outcome is Outcome.OK, built.error
    assert built.library == folder / f"{candidate.candidate_id}{case.source.artifact}"
    assert built.library.exists()
    written = built.library.stat().st_mtime_ns
    again = case.source.build(candidate, case.kind, case.architecture, folder)
    assert again == built
    assert built.library.stat().st_mtime_ns == written


def check_a_build_that_fails_says_why(case: SourceCase, folder: Path) -> None:
    """A candidate that cannot be built is an outcome with its reason."""
    candidate = Candidate(case.workload, f"{case.source.name}-none-00000000", Config({"nothing": 1}))
    built = case.source.build(candidate, case.kind, case.architecture, folder)
    assert built.outcome in (Outcome.INVALID_CONFIG, Outcome.COMPILE_ERROR)
    assert built.error
    assert built.library is None


def _build(case: SourceCase, candidate: Candidate, folder: Path) -> Built:
    case.source.prepare(case.kind, case.architecture)
    return case.source.build(candidate, case.kind, case.architecture, folder)


def _candidates(case: SourceCase) -> list[Candidate]:
    """Valid candidates: those to start from, then random ones."""
    space, rng = case.source.space(case.workload, case.kind), np.random.default_rng(0)
    found = [space.candidate(config) for config in space.starts]
    while not found:
        try:
            found.append(space.candidate(space.sample(rng)))
        except InvalidConfigError:
            continue
    return found


def check_what_cannot_be_read_says_why(case: SourceCase, folder: Path) -> None:
    """Reading never raises: it gives facts, or says why there are none, as of an unknown space."""
    gone = Candidate(case.workload, f"{case.source.name}-none-00000000", Config({"nothing": 1}))
    for each in (_candidates(case)[0], gone):
        reading = case.source.read(each, case.kind, case.architecture, folder)
        is_read = not np.isnan(reading.facts.programs)
        assert is_read != bool(reading.note)
        assert not is_read or reading.facts.programs >= 1


SOURCE_CHECKS: tuple[Callable[[SourceCase, Path], None], ...] = (
    check_it_makes_its_workload_and_no_other,
    check_configs_go_to_and_fro,
    check_a_config_of_another_space_is_refused,
    check_launches_are_columns,
    check_what_data_decide_is_the_same_of_a_candidate,
    check_arguments_are_the_same_and_outputs_unwritten,
    check_builds_in_a_process_of_its_own,
    check_a_build_that_fails_says_why,
    check_what_cannot_be_read_says_why,
)
"""What each kernel source must do: functions of a `SourceCase` and a folder to write to."""
