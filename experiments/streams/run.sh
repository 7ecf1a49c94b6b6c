#!/usr/bin/env bash
# Four minutes on one core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/streams
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
