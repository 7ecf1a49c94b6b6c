#!/usr/bin/env bash
# Linear layers in float32 on five GPUs, each left out: five minutes of one core. The file linear.csv of NeuSight's test
# data comes first; options of linear_layers.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/another_gpu
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/linear_layers.py --config $here/linear_layers.toml --table "$@" \
    --out $here/linear_layers.json
