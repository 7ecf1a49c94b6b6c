#!/usr/bin/env bash
# Measure the fresh pool and the further operators on this machine's GPUs, and count the machine code of their kernels
# and of the sampled pool's: measure.sh OUT DEVICES SECONDS. Stops in time; what is there is kept in OUT.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?folder for the measurements} devices=${2:-1} seconds=${3:-540}
python=${PYTHON:-python}
fresh=experiments/sampled_pool/fresh.toml more=configs/more-sm-budgets.toml
"$python" -m costmodel collect run $fresh --out "$out/fresh" --devices "$devices" --time-limit $((seconds / 5)) || true
"$python" -m costmodel collect run $more --out "$out/more" --devices "$devices" --time-limit $((seconds / 2)) || true
"$python" experiments/compiled_stage/compile.py "$out/fresh:$fresh" sampled-sm-budgets "$out/more:$more" \
  --out "$out" --workers "$(nproc)" --seconds $((seconds * 3 / 10 - 10)) || true
