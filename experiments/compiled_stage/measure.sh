#!/usr/bin/env bash
# Measure the fresh pool on this machine's GPUs, and count the machine code of its kernels and of the sampled pool's:
# measure.sh OUT DEVICES SECONDS. The kernels must have been drawn (experiments/sampled_pool/draw_kernels.py with
# experiments/sampled_pool/fresh.toml). Stops in time; what is there is kept in OUT.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?folder for the measurements} devices=${2:-1} seconds=${3:-540}
python=${PYTHON:-python}
fresh=experiments/sampled_pool/fresh.toml
"$python" -m costmodel collect run $fresh --out "$out/fresh" --devices "$devices" --time-limit $((seconds / 3)) || true
"$python" experiments/compiled_stage/compile.py "$out/fresh:$fresh" sampled-sm-budgets --out "$out" \
  --workers "$(nproc)" --seconds $((seconds * 2 / 3)) || true
