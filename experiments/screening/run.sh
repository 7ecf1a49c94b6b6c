#!/usr/bin/env bash
# A minute on one core, with TVM; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/screening
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
