"""Which kernels are predicted: recorded ones, or configs drawn from the design space."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Union

from costmodel.arguments import check_kind
from costmodel.errors import CostModelError
from costmodel.kernels._design_space import sample
from costmodel.kernels._sources import SOURCES, open_sources, source_for
from costmodel.reading import decode_json, read_lines, refusing
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Device, find_target_kind
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.dataset.table._dataset import Dataset

# Where kernels are: a dataset, the name of one that ships, its path, or a file of candidates; or these.
Kernels = Union["Dataset", str, Path, Sequence[Candidate]]


def kernels_to_predict(
    workload: Workload | str | Sequence[Candidate], device: Device, kernels: Kernels | None, n: int, seed: int
) -> list[Candidate]:
    """The kernels that are given, or those of a workload, which are drawn where none are recorded.

    Args:
        workload: What the kernels compute, or the kernels themselves.
        device: Where drawn ones could run.
        kernels: See ``recorded_candidates``.
        n: How many are drawn.
        seed: Seed of the draw.

    Raises:
        CostModelError: There are none.
    """
    check_kind("workload", workload, Workload | str | Iterable, "a workload, its name, or candidates")
    if not isinstance(workload, Workload | str):
        if not workload:
            raise CostModelError("The kernels to predict must be at least one, but got none.")
        return _check_candidates(workload)
    parsed = Workload.parse(workload) if isinstance(workload, str) else workload
    return recorded_candidates(parsed, kernels) or drawn_candidates(parsed, device, n, seed)


def recorded_candidates(workload: Workload, kernels: Kernels | None) -> list[Candidate]:
    """The kernels of a workload in a dataset or file.

    Args:
        workload: The workload.
        kernels: A dataset, its name or its path, a ``.jsonl`` file with one candidate a line, or candidates.
            None for the dataset that ships, which may have none. A foreign kernel that is there in other
            sizes alone gets the configs of these, where configs are all that is known of them.

    Raises:
        CostModelError: It cannot be read, or what was named has none.
    """
    found, known = _candidates_of(workload, kernels)
    if not found and kernels is not None:
        where = kernels if isinstance(kernels, str | Path) else "What was given"
        raise CostModelError(
            f"{where} must hold candidates of {workload.name}, but it has those of "
            f"{', '.join(known) or 'none'}. Name one of these, or a file of candidates; without one, configs "
            "are drawn."
        )
    return found


def drawn_candidates(workload: Workload, device: Device, n: int, seed: int) -> list[Candidate]:
    """So many random kernels of the first source that makes the workload, or all that there are.

    Raises:
        CostModelError: No source makes it for such a device, or a package that the source needs is missing.
    """
    instead = "Give the kernels: a dataset, or a file of candidates."
    kind = find_target_kind(device)
    if kind is None:
        raise CostModelError(
            f"Configs can be drawn for CUDA devices and CPUs, but got {device.name}. {instead}"
        )
    try:
        source = source_for(workload, kind, open_sources(SOURCES))
    except CostModelError as error:
        raise CostModelError(f"{error} {instead}") from None
    return sample(source.space(workload, kind), n, seed)


def _candidates_of(workload: Workload, kernels: Kernels | None) -> tuple[list[Candidate], Sequence[str]]:
    """The candidates of a workload in a dataset or file, see ``_resized``, and names of its workloads."""
    if isinstance(kernels, str | Path) and Path(kernels).suffix == ".jsonl":
        return _those_of(workload, _read_candidates(Path(kernels)))
    if isinstance(kernels, Sequence) and not isinstance(kernels, str):
        return _those_of(workload, _check_candidates(kernels))
    # Loads pandas, which a model does not need.
    from costmodel.dataset.table._read import load_dataset, workloads_in

    known = workloads_in(kernels)
    alike = [name for name in known if _differs_in_size(workload, Workload.parse(name))]
    names = [workload.name] if workload.name in known else alike
    return _those_of(workload, load_dataset(kernels, workloads=names).candidates if names else ())[0], known


def _those_of(workload: Workload, every: Sequence[Candidate]) -> tuple[list[Candidate], Sequence[str]]:
    """As ``_candidates_of``, among these."""
    found = [candidate for candidate in every if candidate.workload.name == workload.name]
    return found or _resized(workload, every), sorted({candidate.workload.name for candidate in every})


def _check_candidates(kernels: Iterable[Candidate]) -> list[Candidate]:
    checked = list(kernels)
    for each in checked:
        check_kind("each kernel", each, Candidate, "a Candidate")
    return checked


def _resized(workload: Workload, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The configs that a foreign kernel has in other sizes, each once; none where launches are known of some.

    Launches depend on the sizes, and what a model learned of them would be missing.
    """
    alike = [each for each in candidates if _differs_in_size(workload, each.workload)]
    if any(each.launches for each in alike):
        return []
    resized = (Candidate(workload, each.space, each.config) for each in alike)
    return list({each.candidate_id: each for each in resized}.values())


def _differs_in_size(workload: Workload, other: Workload) -> bool:
    """Whether both are one foreign kernel in two sizes. Tensor programs of other sizes are other programs."""
    is_kernel = workload.is_foreign and not workload.is_program
    return is_kernel and other.kind == workload.kind and other.dims.keys() == workload.dims.keys()


def _read_candidates(path: Path) -> Sequence[Candidate]:
    what = "a file with one candidate a line, as JSON with `workload`, `space` and `config`"
    with refusing(path, what):
        return [decode_json(line, Candidate) for _, line in read_lines(path, what)]
