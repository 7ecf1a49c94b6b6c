"""Configurations of models, with the fields of theirs that tell sizes."""

import json
from pathlib import Path
from typing import Any

MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
QWEN3 = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "experts_per_token": 4,
    "quantization_config": {"quant_method": "mxfp4"},
}
LLAMA4 = {
    "model_type": "llama4",
    "text_config": {
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
    },
}


ATTENTION = {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128}
# As transformers 5.24 and the models themselves name fields; E, N of the table of experts on one GPU.
NAMED_OTHERWISE: dict[str, tuple[dict[str, Any], int, int]] = {
    "DBRX": (
        {
            **{"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "attn_config": {"kv_n_heads": 8}},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        16,
        10752,
    ),
    "ERNIE 4.5": (
        {
            **{"model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288, **ATTENTION},
            **{"moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_layer_start_index": 1},
            "moe_num_shared_experts": 2,
        },
        64,
        1536,
    ),
    "Qwen3-Omni": (
        {
            "model_type": "qwen3_omni_moe",
            "talker_config": {"text_config": {**QWEN3, "hidden_size": 1024}},
            "thinker_config": {
                "audio_config": {"d_model": 1280},
                "text_config": {**QWEN3, "model_type": "text"},
            },
        },
        128,
        768,
    ),
    "GLM-4.5-Air": (
        {
            **{"model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, **ATTENTION},
            **{"n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8},
            **{"moe_intermediate_size": 1408, "first_k_dense_replace": 1},
        },
        128,
        1408,
    ),
    "Kimi-K2.5": (
        {"model_type": "kimi_k25", "text_config": {**DEEPSEEK_V3, "n_routed_experts": 384}},
        384,
        2048,
    ),
    "Kimi Linear": (
        {
            **{"model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, **ATTENTION},
            **{"num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1},
            **{"moe_intermediate_size": 1024, "linear_attn_config": {"head_dim": 128}},
        },
        256,
        1024,
    ),
    "MiniMax-M2": (
        {
            **{"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, **ATTENTION},
            **{"num_local_experts": 256, "num_experts_per_tok": 8},
        },
        256,
        1536,
    ),
    "HunYuan": (
        {
            **{"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, **ATTENTION},
            **{"num_experts": 64, "moe_topk": [8] * 32, "moe_intermediate_size": [3072] * 32},
        },
        64,
        3072,
    ),
    "LongCat": (
        {
            **{"model_type": "longcat_flash", "hidden_size": 6144, "ffn_hidden_size": 12288, **ATTENTION},
            **{"n_routed_experts": 512, "moe_topk": 12, "expert_ffn_hidden_size": 2048},
        },
        512,
        2048,
    ),
    "Step3": (
        {
            "model_type": "step3_vl",
            "text_config": {
                **{"hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 64},
                **{"moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120},
                **{"share_expert_dim": 5120, "num_attention_groups": 1, "head_dim": 256},
            },
        },
        48,
        5120,
    ),
}


def write_model(folder: Path, config: dict[str, Any], **changed: Any) -> Path:
    """Write a model's ``config.json``, with some fields changed."""
    file = folder / "config.json"
    file.write_text(json.dumps({**config, **changed}))
    return file
