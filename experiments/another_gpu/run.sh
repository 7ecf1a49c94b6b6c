#!/usr/bin/env bash
# Five minutes on one quiet core. Further options: --caches FOLDER, with Kernel Tuner's caches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/another_gpu
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
