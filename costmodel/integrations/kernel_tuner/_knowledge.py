"""The kernel of a session, and what is known of it from other devices, problem sizes and trained models."""

import zipfile
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset._build import read_files
from costmodel.dataset.importers._kernel_tuner_entries import SM_PERCENTAGE, TunedKernel
from costmodel.dataset.sources._base import find_named_device
from costmodel.dataset.sources._entry import EntryError
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike
from costmodel.errors import CostModelError
from costmodel.reading import is_file
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device, part_of
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._knowledge import Knowledge, from_model, known_from

# A cache or T4 file, a dataset, or a trained model.
KnowledgeSource = DatasetLike | Model


def list_sources(learn_from: KnowledgeSource | Sequence[KnowledgeSource]) -> tuple[KnowledgeSource, ...]:
    """Return one source or several as several.

    Raises:
        CostModelError: A model is not alone.
    """
    one = isinstance(learn_from, str | Path | Dataset | Model)
    sources: tuple[KnowledgeSource, ...] = (learn_from,) if one else tuple(learn_from)  # type: ignore[assignment,arg-type]
    if len(sources) > 1 and any(map(_is_model, sources)):
        raise CostModelError(
            f"learn_from must be one trained model, or measurements, but got a model among {len(sources)} "
            "sources. Train a model on all of them, or leave the model out."
        )
    return sources


def gather_knowledge(  # noqa: PLR0913 (what to learn, from what and how)
    sources: Sequence[KnowledgeSource],
    kernel: TunedKernel,
    *,
    learner: str | None,
    seed: int,
    simulated: bool,
    keep_twins_apart: bool,
) -> Knowledge:
    """Tell what the sources tell of a kernel.

    Args:
        sources: As ``list_sources`` gives them.
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


def _is_model(source: KnowledgeSource) -> bool:
    if isinstance(source, str | Path):
        return is_file(source) and zipfile.is_zipfile(source)
    return isinstance(source, Model)


def tuned_kernel(
    runner: Any, tuning_options: Any, device: Device | str | None, sms: int | None
) -> TunedKernel:
    """Return the kernel of a tuning session, on the device of its runner.

    Args:
        runner: Kernel Tuner's.
        tuning_options: Kernel Tuner's.
        device: The device, where its name is not enough.
        sms: SMs that kernels have by other means than Kernel Tuner's; the whole device if None.

    Raises:
        CostModelError: The device does not have that many SMs, or is to be known better.
    """
    parameters = {name: _plain(values) for name, values in tuning_options.tune_params.items()}
    on = _device(runner, tuning_options.cachefile, device)
    part = part_of(on, None if SM_PERCENTAGE in parameters else sms)
    options = runner.kernel_options
    try:
        return TunedKernel.of(options.kernel_name, parameters, _sizes(options.problem_size), part)
    except ValueError as error:
        raise CostModelError(f"{str(error)[0].upper()}{str(error)[1:]}. Give device= its figures.") from None


def allowed_configs(
    kernel: TunedKernel, configs: Sequence[tuple[Any, ...]], sms: int | None
) -> list[tuple[Any, ...]]:
    """Those of these configs that run on so many SMs; all where the config does not say on how many it runs.

    Args:
        kernel: The kernel.
        configs: A value of each of its parameters, in its order.
        sms: SMs; any number if None.

    Raises:
        CostModelError: None does, or a value is none that can be learned from.
    """
    try:
        plain = [_plain(values) for values in configs]
        granted = [_granted(kernel, values) for values in plain]
    except EntryError as error:
        raise CostModelError(f"In tune_params, {error}.") from None
    if SM_PERCENTAGE not in kernel.parameters or sms is None:
        return plain
    kept = [values for values, has in zip(plain, granted, strict=True) if has == sms]
    if not kept and configs:
        raise CostModelError(
            f"sms must be a number that {SM_PERCENTAGE} grants on {kernel.platform.device.name} "
            f"({', '.join(map(str, sorted(set(granted))))}), but got {sms}. Name one of them, or none."
        )
    return kept


def _plain(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values, numbers of NumPy as those of Python; Kernel Tuner writes both alike."""
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _granted(kernel: TunedKernel, values: tuple[Any, ...]) -> int:
    """Return SMs that a config runs on."""
    named = dict(zip(kernel.parameters, values, strict=True))
    kernel.candidate(named)
    return kernel.platform_of(named).sms_granted


def _device(runner: Any, cache: str | None, given: Device | str | None) -> Device:
    """The device as given; else the one that Kernel Tuner names, or its cache file where it names none."""
    if isinstance(given, Device):
        return given
    if given:
        return find_device(given)
    named = runner.get_device_info().name.strip()
    return find_named_device(named or Path(cache or "").name.partition(".")[0])


def _sizes(problem_size: Any) -> tuple[int, ...]:
    """Return the sizes of a problem, x first; none where they depend on the config."""
    sizes = problem_size if isinstance(problem_size, Sequence) else (problem_size,)
    is_known = all(isinstance(size, Integral) for size in sizes)
    return tuple(int(size) for size in sizes) if is_known and not isinstance(problem_size, str) else ()
