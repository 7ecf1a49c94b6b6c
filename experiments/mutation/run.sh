#!/usr/bin/env bash
# Under an hour of one core; options of run.py may follow, such as --package metrics, two minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/mutation
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
