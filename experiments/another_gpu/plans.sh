#!/usr/bin/env bash
# What plans say of the same kernels: two minutes on one quiet core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/another_gpu
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/plans.py --config $here/plans.toml "$@" --out $here/plans.json
