"""Configs of fused MoE kernels that vLLM and SGLang ship: the one that was fastest for each number of tokens.

``E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json`` is an object of configs by the number of
tokens; newer ones name their ``triton_version``. Nothing says how long any of them takes, so they are choices
and no measurements. Source: vLLM 0.11, ``model_executor/layers/fused_moe/fused_moe.py``
(``get_config_file_name``).
"""

import re
from collections.abc import Iterator
from typing import Any

from costmodel.dataset.importers._base import InputFile, ReadOptions
from costmodel.dataset.importers._entry import EntryError, decision
from costmodel.dataset.importers._foreign import foreign_workload, make_candidate
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import (
    add_software,
    find_named_device,
    locate,
    platform_file_for,
)
from costmodel.dataset.importers._source import Choice, Reject, Source
from costmodel.errors import CostModelError
from costmodel.records._platform import Platform

_VERSION = "triton_version"
_SIZE = r"[1-9]\d{0,14}"
_NAME = re.compile(rf"E=({_SIZE}),N=({_SIZE}),device_name=([^,]+)(.*)\.json(?:\.gz)?", re.ASCII)


def read_moe(file: InputFile, options: ReadOptions) -> Source:
    """Read the choices of a file; its name says the experts, the device and the types.

    Raises:
        CostModelError: Its name is another.
    """
    found = _NAME.fullmatch(file.path.name)
    if not found:
        raise CostModelError(
            f"{file.path} must have the name that vLLM and SGLang give such a file, as in "
            "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json: it says what they are for."
        )
    experts, columns, device, variant = found.groups()
    name = device.replace("_", " ")
    where = locate(find_named_device(name), name, platform_file_for(file.path, options.platform))
    dims = {"e": int(experts), "n": int(columns)}
    return Source.of(file.path, _entries(file, variant, dims, where.platform))


def _entries(
    file: InputFile, variant: str, dims: dict[str, int], platform: Platform
) -> Iterator[Choice | Reject]:
    origin, fields = Origin.of(file.path), dict(file.document.fields)
    version = fields.pop(_VERSION, "")
    versions = {"triton": version} if isinstance(version, str) and version else {}
    platform = add_software(platform, {**versions, "moe_configs": origin.text})
    for tokens, config in fields.items():
        try:
            yield _choice(tokens, config, variant, dims, platform)
        except EntryError as error:
            yield origin.reject(str(error), {tokens: config})


def _choice(tokens: str, config: Any, variant: str, dims: dict[str, int], platform: Platform) -> Choice:
    if not re.fullmatch(_SIZE, tokens, re.ASCII) or not isinstance(config, dict) or not config:
        raise EntryError("an entry must be a number of tokens with a config")
    workload = foreign_workload("moe", "fused_moe", variant, {**dims, "m": int(tokens)})
    decisions = {name: decision(value) for name, value in config.items()}
    return Choice(make_candidate("moe", workload, decisions, None), platform)
