#!/usr/bin/env bash
# Ten minutes of one core. `--caches DIR` adds the kernels of Kernel Tuner's caches; other options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/multitask
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/errors.png "$@"
