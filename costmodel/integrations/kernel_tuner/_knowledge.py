"""Knowledge of a kernel from other devices, other problem sizes and trained models."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from costmodel.dataset._build import read_files
from costmodel.dataset.importers.kernel_tuner._kernel import TunedKernel
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike
from costmodel.errors import CostModelError
from costmodel.reading import is_file
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._knowledge import Knowledge, from_model, known_from

# A cache or T4 file, a dataset, or a trained model.
Source = DatasetLike | Model


def listed(learn_from: Source | Sequence[Source]) -> tuple[Source, ...]:
    """One source or several as several.

    Raises:
        CostModelError: A model is not alone.
    """
    one = isinstance(learn_from, str | Path | Dataset | Model)
    sources: tuple[Source, ...] = (learn_from,) if one else tuple(learn_from)  # type: ignore[assignment,arg-type]
    if len(sources) > 1 and any(map(_is_model, sources)):
        raise CostModelError(
            f"learn_from must be one trained model, or measurements, but got a model among {len(sources)} "
            "sources. Train a model on all of them, or leave the model out."
        )
    return sources


def known(  # noqa: PLR0913 (what to learn, from what and how)
    sources: Sequence[Source],
    kernel: TunedKernel,
    *,
    learner: str | None,
    seed: int,
    simulated: bool,
    keep_twins_apart: bool,
) -> Knowledge:
    """What the sources tell of a kernel.

    Args:
        sources: As ``listed`` gives them.
        kernel: The kernel.
        learner: What learns from measurements; see ``known_from``.
        seed: Seed of its random choices.
        simulated: Whether measurements are replayed: those that tell what is to be found are left out.
        keep_twins_apart: Whether to learn the kernel from near-twins of a simulated device too.

    Raises:
        CostModelError: A source cannot be read, or tells nothing of the kernel, or is a model that learned
            from what is replayed.
    """
    if not sources:
        return Knowledge()
    workload, device = kernel.workload, kernel.platform.device
    (first, *_) = sources
    if _is_model(first):
        assert not isinstance(first, Dataset)
        learned = from_model(first, workload.kind, (workload.name, device.name) if simulated else None)
        if learned.model is None:
            raise _other_kernel(first, "none of its parameters", workload.kind)
        return learned
    data = read_files([_of_kernel(source, kernel) for source in sources if not isinstance(source, Model)])
    apart = keep_twins_apart if simulated else None
    return known_from(
        data, workload, device.name, workload.kind, learner=learner, seed=seed, keep_twins_apart=apart
    )


def _of_kernel(source: DatasetLike, kernel: TunedKernel) -> Dataset:
    """Read measurements, and check that some are of a kernel.

    Raises:
        CostModelError: None is.
    """
    data, wanted = read_files([source]), kernel.workload.kind
    kinds = sorted({Workload.parse(name).kind for name in data.workloads})
    if wanted not in kinds:
        raise _other_kernel(
            data.name if isinstance(source, Dataset) else source, ", ".join(kinds[:5]), wanted
        )
    return data


def _other_kernel(source: object, kinds: str, wanted: str) -> CostModelError:
    return CostModelError(
        f"learn_from must tell of {wanted}, whose code says its name, its parameters and the values of those "
        f"that have only one, but {source} tells of {kinds}. Leave it out, or tune what was measured there."
    )


def _is_model(source: Source) -> bool:
    if isinstance(source, str | Path):
        return is_file(source) and zipfile.is_zipfile(source)
    return isinstance(source, Model)
