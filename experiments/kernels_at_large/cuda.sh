#!/usr/bin/env bash
# Judge choices among configs of CUDA kernels of kinds that were left out. Some ten minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/kernels_at_large/cuda.py --config experiments/kernels_at_large/cuda.toml \
  --json experiments/kernels_at_large/cuda.json "$@"
