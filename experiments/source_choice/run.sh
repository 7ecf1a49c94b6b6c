#!/usr/bin/env bash
# Half an hour of one core. The folder of Kernel Tuner's caches comes first; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/source_choice
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
