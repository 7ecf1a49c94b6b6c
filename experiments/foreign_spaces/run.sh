#!/usr/bin/env bash
# Four minutes of one core. The folder of Kernel Tuner's caches comes first; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/foreign_spaces
export OMP_NUM_THREADS=1
"${PYTHON:-python}" $here/hidden.py "$1" --json $here/hidden.json
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
