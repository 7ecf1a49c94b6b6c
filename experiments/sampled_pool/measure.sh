#!/usr/bin/env bash
# Draw and measure the pool on the GPUs of this machine. A call that was stopped goes on: measure.sh OUT [DEVICES]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the measurements}
python=${PYTHON:-python}
"$python" experiments/sampled_pool/draw_kernels.py configs/sampled-sm-budgets.toml --out "$out" --workers "$(nproc)"
"$python" -m costmodel collect run configs/sampled-sm-budgets.toml --out "$out" --devices "${2:-1}"
"$python" -m costmodel dataset build --force "$out/measurements.jsonl" --out "$out/dataset" --card configs/cards/sampled-sm-budgets.toml
