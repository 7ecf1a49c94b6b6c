#!/usr/bin/env bash
# Twenty minutes on one core, goes on where it was stopped. The folder of Kernel Tuner's caches comes first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/kernel_tuner
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py "$@" --out out/kernel_tuner --json $here/result.json --plot $here/best_so_far.png
