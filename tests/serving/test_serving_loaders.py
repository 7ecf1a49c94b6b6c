"""Loaders and default rules of the frameworks themselves, where their wheels are installed.

Their modules need a GPU to be imported. The functions that find a table need not: they are taken out of the
files, as they stand there.
"""

import ast
import functools
import json
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from served_models import DEEPSEEK_V3, MIXTRAL, QWEN3, write_model

from costmodel.serving import serve_tables
from costmodel.serving._default_rule import default_row
from costmodel.serving._kernel import ExpertProducts

pytestmark = pytest.mark.white_box

H100 = "NVIDIA H100 80GB HBM3"
TOKENS = [1, 4, 8, 16, 20, 33, 64, 96, 129, 500, 1024, 5000]
VLLM = "model_executor/layers/fused_moe/fused_moe.py"
SGLANG = "srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py"


def functions_of(package: str, file: str, *names: str, **known: Any) -> dict[str, Any]:
    """Run the definitions of some functions of a file, which may use what is known."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.submodule_search_locations[0]) / file
    tree = ast.parse(path.read_text())
    tree.body = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name in names]
    assert len(tree.body) == len(names), f"{path} has not all of {names}"
    scope: dict[str, Any] = {"__file__": str(path), "os": os, "json": json, "functools": functools, **known}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), scope)
    return scope


def _say_nothing(*_: Any, **__: Any) -> None:
    """In place of a framework's log."""


def vllm(folder: Path, device: str = H100) -> dict[str, Any]:
    """vLLM's functions."""
    logger = SimpleNamespace(info_once=_say_nothing, warning_once=_say_nothing)
    return functions_of(
        "vllm",
        VLLM,
        *("get_config_file_name", "get_moe_configs", "get_default_config", "should_moe_wna16_use_cuda"),
        get_device_name_as_file_name=lambda: device.replace(" ", "_"),
        envs=SimpleNamespace(VLLM_BATCH_INVARIANT=False, VLLM_TUNED_CONFIG_FOLDER=str(folder)),
        logger=logger,
        current_platform=SimpleNamespace(is_rocm=lambda: False, is_cuda=lambda: False),
        Any=Any,
    )


def sglang(device: str = H100) -> dict[str, Any]:
    """SGLang's functions."""
    typing = {name: getattr(__import__("typing"), name) for name in ("Any", "Dict", "List", "Optional")}
    return functions_of(
        "sglang",
        SGLANG,
        *("get_config_file_name", "get_moe_configs", "get_default_config"),
        get_device_name=lambda: device,
        get_exec=lambda: SimpleNamespace(deterministic=SimpleNamespace(enable_deterministic_inference=False)),
        triton=SimpleNamespace(__version__="3.6.0"),
        logger=logging.getLogger(__name__),
        _is_hip=False,
        _use_low_smem_fp8_default=lambda: False,
        **typing,
    )


@pytest.mark.parametrize(
    ("config", "gpus", "device", "asked"),
    [
        (MIXTRAL, 8, "NVIDIA L40S", (8, 1792, None)),
        (QWEN3, 1, "NVIDIA L40S", (128, 768, None)),
        (DEEPSEEK_V3, 1, "NVIDIA H200", (256, 2048, "fp8_w8a8", 128, 128)),
    ],
)
def test_vllm_reads_what_was_written(
    config: dict[str, Any], gpus: int, device: str, asked: tuple[Any, ...], tmp_path: Path
) -> None:
    model = write_model(tmp_path, config)
    found = serve_tables(model, device, triton="3.6.0", tensor_parallel=gpus, unsure=True)
    read = vllm(found.write(tmp_path / "tables"), device)["get_moe_configs"](*asked)
    (table,) = (each for each in found.tables.values() if "experts" in each.used_by)
    assert read == {tokens: row.config for tokens, row in table.rows.items()}


@pytest.mark.parametrize("config", [QWEN3, DEEPSEEK_V3], ids=lambda config: config["model_type"])
def test_sglang_reads_what_was_written(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = 8 if config is DEEPSEEK_V3 else 1
    model = write_model(tmp_path, config)
    found = serve_tables(model, H100, framework="sglang", triton="3.6.0", tensor_parallel=gpus)
    monkeypatch.setenv("SGLANG_MOE_CONFIG_DIR", str(found.write(tmp_path / "tables")))
    (table,) = (each for each in found.tables.values() if "experts" in each.used_by)
    kernel = table.kernel
    assert isinstance(kernel, ExpertProducts)
    read = sglang()["get_moe_configs"](
        kernel.experts, kernel.width, kernel.precision or None, *(kernel.block or (0, 0))
    )
    assert read == {tokens: row.config for tokens, row in table.rows.items()}


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(
    ("precision", "block"), [("", None), ("fp8_w8a8", None), ("fp8_w8a8", (128, 128))], ids=str
)
def test_the_default_is_what_the_framework_would_run(
    precision: Any, block: tuple[int, int] | None, tokens: int, tmp_path: Path
) -> None:
    kernel = ExpertProducts(64, 8, 1408, 2048, precision, block)
    asked = (tokens, 64, 1408, 2048, 8, precision or None)
    theirs = vllm(tmp_path)["get_default_config"](*asked, block_shape=block and list(block))
    assert theirs | {"SPLIT_K": 1} == default_row("vllm", kernel, tokens) | {"SPLIT_K": 1}
    theirs = sglang()["get_default_config"](*asked, False, block_shape=block and list(block))
    ours = default_row("sglang", kernel, tokens)
    assert theirs == {name: ours[name] for name in theirs}
