"""Tables for frameworks: which kernels a model has, what each row is, and the folder that is read again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from served_models import (
    ATTENTION,
    DEEPSEEK_V3,
    GPT_OSS,
    LLAMA4,
    MIXTRAL,
    NAMED_OTHERWISE,
    QWEN3,
    write_model,
)

from costmodel.errors import CostModelError
from costmodel.serving import load_serving_tables, serve_tables
from costmodel.serving._kernel import ExpertProducts, ScaledProduct
from costmodel.serving._model_config import read_served_model
from costmodel.serving._row_model import shipped_rows

pytestmark = pytest.mark.white_box

H100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA L40S"
PARAMETERS = {
    *("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"),
    *("num_warps", "num_stages"),
}


def compressed(weights: object) -> dict[str, object]:
    """Return a configuration of Qwen3 whose weights the library compressed-tensors describes."""
    groups = {"group_0": {"weights": weights}}
    return {**QWEN3, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}


def test_each_kernel_of_a_model_has_the_name_that_the_loader_looks_for(tmp_path: Path) -> None:
    model = write_model(tmp_path, DEEPSEEK_V3)
    found = serve_tables(model, "NVIDIA H200", tensor_parallel=8)
    gpu = "device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    products = ("N=2112,K=7168", "N=3072,K=1536", "N=4096,K=512", "N=7168,K=2048", "N=4608,K=7168")
    products += ("N=7168,K=2304", "N=512,K=7168", "N=7168,K=256")
    assert found.tables
    names = {*found.tables, *(each.split(": ")[0] for each in found.left_out if "device_name" in each)}
    assert names == {f"E=256,N=256,{gpu}", *(f"linear/{sizes},{gpu}" for sizes in products)}
    other = serve_tables(model, "NVIDIA H200", framework="sglang", triton="3.6.0", expert_parallel=8)
    assert (
        "configs/triton_3_6_0/E=32,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
        in other.tables
    )


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (MIXTRAL, "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3.json"),
        (QWEN3, "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json"),
        (LLAMA4, "E=16,N=8192,device_name=NVIDIA_H100_80GB_HBM3.json"),
        (
            {**MIXTRAL, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
            "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=int4_w4a16.json",
        ),
        (
            compressed({"type": "int", "num_bits": 4, "group_size": -1}),
            "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3,dtype=int4_w4a16.json",
        ),
        (
            {**MIXTRAL, "quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}},
            "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json",
        ),
    ],
)
def test_types_and_sizes_are_read_of_any_kind_of_model(
    config: dict[str, object], name: str, tmp_path: Path
) -> None:
    found = serve_tables(write_model(tmp_path, config), H100)
    assert name in {*found.tables, *(sentence.split(": ")[0] for sentence in found.left_out)}


@pytest.mark.parametrize("model", NAMED_OTHERWISE)
def test_sizes_are_read_whatever_a_model_calls_them(model: str, tmp_path: Path) -> None:
    config, experts, width = NAMED_OTHERWISE[model]
    (kernel, *_) = read_served_model(write_model(tmp_path, config)).kernels.values()
    assert isinstance(kernel, ExpertProducts)
    assert (kernel.experts, kernel.width) == (experts, width)
    assert kernel.chosen > 1
    assert kernel.hidden > 1024


BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def products(config: dict[str, object], tmp_path: Path, **changed: object) -> tuple[dict[str, str], str]:
    """Results and elements of each product of a layer, and what is left out."""
    served = read_served_model(write_model(tmp_path, config, quantization_config=BLOCKS, **changed))
    scaled = {use: each for use, each in served.kernels.items() if isinstance(each, ScaledProduct)}
    return {use: f"{each.columns}x{each.depth}" for use, each in scaled.items()}, " ".join(served.left_out)


def test_products_of_a_layer_are_those_that_its_kind_of_model_has(tmp_path: Path) -> None:
    glm, _ = products(NAMED_OTHERWISE["GLM-4.5-Air"][0], tmp_path)
    assert glm["dense, gate and up"] == "21888x4096"
    assert glm["shared expert, down"] == "4096x1408"
    ernie, _ = products(NAMED_OTHERWISE["ERNIE 4.5"][0], tmp_path)
    assert ernie["shared expert, gate and up"] == f"{2 * 2 * 1536}x2560"
    assert ernie["dense, down"] == "2560x12288"
    minimax, _ = products(NAMED_OTHERWISE["MiniMax-M2"][0], tmp_path)
    assert not any(use.startswith(("dense", "shared")) for use in minimax)
    qwen, left_out = products(
        {**QWEN3, **ATTENTION, "model_type": "qwen3_next", "linear_num_value_heads": 32}, tmp_path
    )
    assert qwen["attention, query, key and value"] == f"{(2 * 64 + 2 * 8) * 128}x2048"
    assert "state spaces" in left_out
    indexed, _ = products({**DEEPSEEK_V3, "index_n_heads": 64, "index_head_dim": 128}, tmp_path)
    assert indexed["attention, query of the index"] == "8192x1536"
    mimo, _ = products({**QWEN3, **ATTENTION, "head_dim": 192, "v_head_dim": 128}, tmp_path)
    assert mimo["attention, query, key and value"] == f"{64 * 192 + 8 * 192 + 8 * 128}x2048"
    assert mimo["attention, output"] == f"2048x{64 * 128}"
    v4, left_out = products({**DEEPSEEK_V3, "kv_lora_rank": None, "o_lora_rank": 1024}, tmp_path)
    assert not any(use.startswith("attention") for use in v4)
    assert "output is latent" in left_out


def test_layers_without_experts_are_told_in_many_ways(tmp_path: Path) -> None:
    ways = ({"mlp_only_layers": [0]}, {"num_dense_layers": 1}, {"mlp_layer_types": ["dense", "sparse"]})
    ways += ({"moe_layer_freq": [0, 1]}, {"decoder_sparse_step": 2}, {"interleave_moe_layer_step": 2})
    for way in ways:
        assert "dense, down" in products(QWEN3, tmp_path, **way)[0], way
    for way in ({"mlp_only_layers": []}, {"moe_layer_freq": [1, 1]}, {"decoder_sparse_step": 1}):
        assert "dense, down" not in products(QWEN3, tmp_path, **way)[0], way
    llama, _ = products(
        LLAMA4["text_config"], tmp_path, intermediate_size_mlp=16384, interleave_moe_layer_step=2
    )
    assert llama["dense, down"] == "5120x16384"
    assert "dense, down" in products(QWEN3, tmp_path, num_experts=1, num_experts_per_tok=1)[0]


def test_sglang_may_count_a_shared_expert_among_the_others(tmp_path: Path) -> None:
    """It ships tables for 257 experts of DeepSeek-V3, and looks for no others unless that is switched off."""
    model = write_model(tmp_path, DEEPSEEK_V3)
    found = serve_tables(model, "NVIDIA H200", framework="sglang", triton="3.6.0", tensor_parallel=8)
    experts = {path.partition("E=")[2].partition(",device")[0] for path in found.tables if "E=" in path}
    assert experts == {"256,N=256", "257,N=256"}
    (kernel,) = (each.kernel for path, each in found.tables.items() if "E=257" in path)
    assert isinstance(kernel, ExpertProducts)
    assert kernel.chosen == 9


@pytest.mark.parametrize(
    ("weights", "tokens", "name"),
    [
        ({"num_bits": 4, "type": "int", "group_size": 128}, None, ",dtype=int4_w4a16"),
        ({"num_bits": 8, "type": "int"}, {"num_bits": 8, "type": "int"}, ",dtype=int8_w8a8"),
        ({"num_bits": 8, "type": "float"}, {"num_bits": 8, "type": "float"}, ",dtype=fp8_w8a8"),
        (
            {"num_bits": 8, "type": "float", "block_structure": [128, 128]},
            {"num_bits": 8, "type": "float"},
            ",dtype=fp8_w8a8,block_shape=[128,128]",
        ),
    ],
)
def test_types_are_read_as_compressed_tensors_says_them(
    weights: dict[str, object], tokens: dict[str, object] | None, name: str, tmp_path: Path
) -> None:
    groups = {"group_0": {"weights": weights, "input_activations": tokens, "targets": ["Linear"]}}
    told = {"quant_method": "compressed-tensors", "config_groups": groups}
    found = serve_tables(write_model(tmp_path, QWEN3, quantization_config=told), H100)
    names = {*found.tables, *(sentence.split(": ")[0] for sentence in found.left_out)}
    assert f"E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3{name}.json" in names


def test_a_row_is_a_whole_config_that_the_gpu_has_room_for(tmp_path: Path) -> None:
    model = write_model(tmp_path, DEEPSEEK_V3)
    found = serve_tables(model, L40S, tensor_parallel=8, unsure=True)
    rows = [row for table in found.tables.values() for row in table.rows.values()]
    assert rows
    for row in rows:
        assert set(row.config) == PARAMETERS
        sides = row.config["BLOCK_SIZE_M"] + row.config["BLOCK_SIZE_N"]
        assert sides * row.config["BLOCK_SIZE_K"] * row.config["num_stages"] <= 100 * 1024 - 1024


def test_rows_of_like_tables_are_taken_only_where_doubt_is_allowed(tmp_path: Path) -> None:
    """Nobody timed them, and the model does not know the GPU."""
    model = write_model(tmp_path, MIXTRAL)
    surely, perhaps = (
        serve_tables(model, L40S, tensor_parallel=8, unsure=unsure) for unsure in (False, True)
    )
    assert "best only" not in surely.origins
    assert perhaps.origins["best only"] > 0
    assert all(row.gain is None for table in perhaps.tables.values() for row in table.rows.values())


@pytest.mark.parametrize("sms", [None, 32])
def test_the_default_stays_where_the_model_is_not_sure_that_it_loses(sms: int | None, tmp_path: Path) -> None:
    """On part of a GPU no table was swept, so that the model alone decides."""
    model, margin = (
        write_model(tmp_path, MIXTRAL),
        float(np.exp(shipped_rows().margin_of(ExpertProducts(8, 2, 7168, 4096)))),
    )
    found = serve_tables(model, H100, sms=sms, framework="sglang", triton="3.6.0", tensor_parallel=2)
    (table,) = found.tables.values()
    rows = table.rows.values()
    assert (
        {"predicted"}
        <= {row.origin for row in rows}
        <= {"predicted", "default", "timed elsewhere", "best only"}
    )
    for row in rows:
        assert row.gain
        assert row.gain[1] <= row.gain[0] <= row.gain[2]
        least = 1.0 if row.origin == "default" else margin
        assert row.gain[0] >= least - 0.001
    if sms:
        assert {row.origin for row in rows} <= {"predicted", "default"}
        assert found.content != serve_tables(model, H100, framework="sglang", triton="3.6.0").content


def test_a_kernel_of_which_nothing_is_known_gets_no_table(tmp_path: Path) -> None:
    """The framework's own rule knows every number of tokens; a table of it would only know some."""
    found = serve_tables(write_model(tmp_path, QWEN3, moe_intermediate_size=8), L40S)
    assert found.tables == {}
    assert "E=128,N=8,device_name=NVIDIA_L40S.json: nothing is known" in " ".join(found.left_out)


def test_the_same_question_has_the_same_bytes_and_hash(tmp_path: Path) -> None:
    model = write_model(tmp_path, QWEN3)
    one, other = (serve_tables(model, H100, triton="3.6.0") for _ in range(2))
    assert one.files() == other.files()
    assert one.content == other.content != serve_tables(model, "NVIDIA H200", triton="3.6.0").content
    for path, content in one.files().items():
        told = json.loads(content)
        if path.startswith("E="):
            assert told.pop("triton_version") == "3.6.0"
            assert [*told] == [*map(str, sorted(map(int, told)))]


def test_what_was_written_is_read_again_for_the_same_gpu_and_triton_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    written = serve_tables(write_model(tmp_path, QWEN3), H100, triton="3.6.0")
    written.write(folder)
    found = load_serving_tables(folder, device=H100, triton="3.6.0")
    assert found.files() == written.files()
    with pytest.raises(CostModelError, match="for GPU NVIDIA H100 80GB HBM3, but NVIDIA L40S will run"):
        load_serving_tables(folder, device=L40S)
    with pytest.raises(CostModelError, match=r"for Triton 3.6.0, but 3.7.0 will run"):
        load_serving_tables(folder, triton="3.7.0")


def test_tables_that_are_no_longer_there_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    """A framework would read what an earlier call left for another model."""
    folder, other = tmp_path / "tables", tmp_path / "tables" / "E=8,N=64,device_name=NVIDIA_L4.json"
    first = serve_tables(write_model(tmp_path, DEEPSEEK_V3), "NVIDIA H200", tensor_parallel=8)
    first.write(folder)
    other.write_text("{}")
    second = serve_tables(write_model(tmp_path, QWEN3), "NVIDIA H200")
    second.write(folder)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*.json")}
    assert left == {*second.files(), other.name}
    assert load_serving_tables(folder).content == second.content


def test_what_a_killed_process_left_is_refused_and_the_next_call_mends_it(tmp_path: Path) -> None:
    """Killed after any number of files: none of its tables may stay that the next call does not write."""
    before = serve_tables(write_model(tmp_path, DEEPSEEK_V3), "NVIDIA H200", tensor_parallel=8)
    after = serve_tables(write_model(tmp_path, QWEN3), "NVIDIA H200")
    for count in range(1, len(before.files())):
        folder = tmp_path / f"tables-{count}"
        for path, content in [*before.files().items()][:count]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        with pytest.raises(CostModelError):
            load_serving_tables(folder)
        after.write(folder)
        assert {str(path.relative_to(folder)) for path in folder.rglob("*.json")} == {*after.files()}
        assert load_serving_tables(folder).content == after.content


def test_a_manifest_that_names_files_outside_of_its_folder_is_refused(tmp_path: Path) -> None:
    name = "configs/triton_3_6_0/E=128,N=768,device_name=NVIDIA_H200.json"
    model, outside = write_model(tmp_path, QWEN3), tmp_path / name
    found = serve_tables(model, "NVIDIA H200", framework="sglang", triton="3.6.0")
    made = replace(found, tables={f"../{name}": found.tables[name]})
    folder = made.write(tmp_path / "tables")
    assert outside.exists()
    with pytest.raises(CostModelError, match="must name tables in its folder"):
        load_serving_tables(folder)
    with pytest.raises(CostModelError, match="must name tables in its folder"):
        found.write(folder)
    assert outside.exists()


@pytest.mark.parametrize(
    "altered", ["configs/triton_3_6_0/E=128,N=768,device_name=NVIDIA_H200.json", "serve-tables.json"]
)
def test_an_altered_file_is_refused(altered: str, tmp_path: Path) -> None:
    model = write_model(tmp_path, QWEN3)
    found = serve_tables(model, "NVIDIA H200", framework="sglang", triton="3.6.0")
    folder = found.write(tmp_path / "tables")
    file = folder / altered
    file.write_text(file.read_text().replace("128", "256", 1))
    with pytest.raises(CostModelError, match="must be as it was written, but was altered"):
        load_serving_tables(folder)


@pytest.mark.parametrize(
    ("config", "device", "options", "message"),
    [
        (GPT_OSS, H100, {}, "has no kernel that takes a table.*mxfp4"),
        (QWEN3, "AMD Instinct MI300X", {}, "for GPUs of NVIDIA, but AMD Instinct MI300X is none"),
        (QWEN3, "NVIDIA L4S", {}, "costmodel devices list"),
        (QWEN3, H100, {"framework": "flashinfer"}, "must be one of vllm, sglang, but got 'flashinfer'"),
        (QWEN3, H100, {"framework": "sglang"}, "SGLang keeps tables by version of Triton"),
        (QWEN3, H100, {"tensor_parallel": 7}, "width of an expert .768. must be a multiple"),
        (QWEN3, H100, {"tensor_parallel": 0}, "tensor_parallel must be a whole number of at least 1"),
        (QWEN3, H100, {"expert_parallel": 0}, "expert_parallel must be a whole number of at least 1"),
        (QWEN3, H100, {"tokens": [0]}, "tokens must be"),
        (
            {**DEEPSEEK_V3, "v_head_dim": 0},
            H100,
            {},
            "attention, output must have sizes, but has 7168 results of 0",
        ),
        ({"hidden_size": 8}, H100, {}, "with hidden_size and num_attention_heads"),
        (QWEN3, H100, {"triton": "../../3.6"}, "triton must be a version, such as 3.6.0"),
        (
            {**QWEN3, "moe_intermediate_size": 0, "intermediate_size": 0},
            H100,
            {},
            "tell the width of an expert",
        ),
        ({**QWEN3, "num_experts_per_tok": 129}, H100, {}, "at most as many experts as there are .128."),
        ({**QWEN3, "num_experts": 2**23}, H100, {}, "num_experts"),
        (
            {**QWEN3, "moe_intermediate_size": [1536, 512]},
            H100,
            {},
            "got `array` - at `\\$.moe_intermediate_size",
        ),
        ({**QWEN3, "mlp_hidden_act": "relu2"}, H100, {}, "Experts without a gate"),
        ({**QWEN3, "text_config": {"hidden_size": "x"}}, H100, {}, "hidden_size"),
        ({**QWEN3, "quantization_config": {"weight_block_size": [0, 0]}}, H100, {}, "weight_block_size"),
        (compressed({"group_size": "x"}), H100, {}, "group_size"),
        (compressed({"block_structure": ["x", 1]}), H100, {}, "block_structure"),
        (compressed("none"), H100, {}, "weights"),
    ],
)
def test_what_cannot_be_served_is_said(
    config: dict[str, object], device: str, options: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CostModelError, match=message):
        serve_tables(write_model(tmp_path, config), device, **options)  # type: ignore[arg-type]


def test_a_model_that_is_no_path_is_said() -> None:
    with pytest.raises(CostModelError, match="model must be a path, but got "):
        serve_tables(QWEN3, H100)  # type: ignore[arg-type]
