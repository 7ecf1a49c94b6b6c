#!/usr/bin/env bash
# Judge choice models on the best MoE configs that the wheels of vLLM and SGLang ship: FOLDER has these files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/best_configs/judge.py --config experiments/best_configs/judge.toml "$@"
