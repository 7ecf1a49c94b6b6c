#!/usr/bin/env bash
# On a machine with a GPU; options of run.py may follow, such as --resume FILE and --time-limit SECONDS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/live_search out=${OUT:-out}
mkdir -p out "$out"
[ -f out/live.costmodel ] || "${COSTMODEL:-costmodel}" train datasets/sm-budgets --learner stack --out out/live.costmodel \
  --hold-out matmul_bias_gelu-m128-n3072-k768 --hold-out matmul_bias_gelu-m128-n3072-k768-float16 \
  --hold-out conv2d-n1-c256-h14-w14-o256-k3-s1 \
  --hold-out matmul_bias-m512-n1024-k1024-float16 --hold-out matmul_bias-m512-n1024-k1024 \
  --hold-out batch_matmul-b12-m512-n512-k64 --hold-out batch_matmul-b16-m512-n512-k64-float16
exec "${PYTHON:-python}" $here/run.py --model out/live.costmodel --out "$out/live.json" \
  --json "$out/compared.json" --plot "$out/best_so_far.png" "$@"
