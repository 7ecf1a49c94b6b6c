"""``costmodel serve-tables``: what it tells to do with what it wrote."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

MODEL = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}


def serve(tmp_path: Path, *arguments: object, **changed: object) -> Result:
    model = tmp_path / "config.json"
    model.write_text(json.dumps({**MODEL, **changed}))
    words = ["serve-tables", "--model", model, "--out", tmp_path / "tables", *arguments]
    return CliRunner().invoke(app, [str(each) for each in words], env={"COLUMNS": "160"})


def test_it_says_which_tables_to_use_and_how(tmp_path: Path) -> None:
    found = serve(tmp_path, "--device", "NVIDIA H200", "--format", "sglang", "--triton", "3.6.0")
    assert found.exit_code == 0
    assert f"Start the server with SGLANG_MOE_CONFIG_DIR={tmp_path / 'tables'}." in found.stdout
    assert "Copy " not in found.stdout
    dense = {"num_experts": 0, "num_experts_per_tok": 0, "intermediate_size": 6144}
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = serve(tmp_path, "--device", "NVIDIA H200", quantization_config=blocks, **dense)
    assert "Start the server" not in found.stdout
    assert f"Copy {tmp_path / 'tables' / 'linear'}/*.json to vllm/model_executor/" in found.stdout


def test_it_says_for_which_name_of_the_gpu_tables_are(tmp_path: Path) -> None:
    """Servers look for the name that the driver tells, which need not be the one that was asked for."""
    form = ("--format", "sglang", "--triton", "3.6.0")
    assert "that its driver calls NVIDIA H200." in serve(tmp_path, "--device", "h200 sxm", *form).stdout
    (table,) = (tmp_path / "tables").rglob("E=*.json")
    assert "device_name=NVIDIA_H200," in f"{table.stem},"
    assert "driver calls" not in serve(tmp_path, "--device", "NVIDIA H200", *form).stdout


def test_where_no_table_is_worth_it_none_is_announced(tmp_path: Path) -> None:
    sizes = {"num_experts": 100, "moe_intermediate_size": 100}
    found = serve(tmp_path, "--device", "NVIDIA L40S", **sizes)
    assert found.exit_code == 0
    assert "No table is in it: start the server without one." in found.stdout
    assert "--timings 16" in found.stdout
    assert "--unsure" in found.stdout
    found = serve(tmp_path, "--device", "NVIDIA L40S", "--unsure", **sizes)
    assert "--timings 16" in found.stdout
    assert "--unsure" not in found.stdout


def test_it_says_with_how_many_gpus_rows_are_known(tmp_path: Path) -> None:
    """vLLM ships a sweep of a quarter of Mixtral's experts on an L40S, and none of whole ones."""
    mixtral = {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    model = tmp_path / "mixtral.json"
    model.write_text(json.dumps(mixtral))

    def told(*words: str) -> str:
        every = ["serve-tables", "--model", str(model), "--device", "NVIDIA L40S", *words]
        out = ["--out", str(tmp_path / "tables")]
        return CliRunner().invoke(app, [*every, *out], env={"COLUMNS": "160"}).stdout

    assert "With --tensor-parallel 4 rows are known" in told()
    assert "With --tensor-parallel" not in told("--tensor-parallel", "4")


def test_options_before_a_command_are_refused_and_not_passed_over(tmp_path: Path) -> None:
    words = ["serve-tables", "--device", "NVIDIA H200", "check", str(tmp_path)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert "Options must follow `check`" in found.output


def test_rows_to_time_again_end_it_with_one(tmp_path: Path) -> None:
    row = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_stages": 4}
    file = tmp_path / "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3.json"
    file.write_text(json.dumps({"1": row}))
    assert CliRunner().invoke(app, ["serve-tables", "check", str(file)]).exit_code == 0
    file.write_text(json.dumps({"1": {**row, "num_stages": 99}}))
    found = CliRunner().invoke(app, ["serve-tables", "check", str(file)])
    assert found.exit_code == 1
    assert "1 of 1 rows of 1 tables should be timed again" in found.stdout
