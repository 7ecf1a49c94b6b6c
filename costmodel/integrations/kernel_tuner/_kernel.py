"""The kernel that Kernel Tuner tunes, represented as its files are when they are imported."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._platform_file import find_named_device
from costmodel.dataset.importers.kernel_tuner._kernel import SM_PERCENTAGE, TunedKernel
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device, part_of


def kernel_of(runner: Any, tuning_options: Any, device: Device | str | None, sms: int | None) -> TunedKernel:
    """The kernel of a tuning session, on the device of its runner.

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
    """The values, numbers of NumPy as those of Python; Kernel Tuner writes both alike."""
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _granted(kernel: TunedKernel, values: tuple[Any, ...]) -> int:
    """SMs that a config runs on."""
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
    """The sizes of a problem, x first; none where they depend on the config."""
    sizes = problem_size if isinstance(problem_size, Sequence) else (problem_size,)
    known = all(isinstance(size, Integral) for size in sizes)
    return tuple(int(size) for size in sizes) if known and not isinstance(problem_size, str) else ()
