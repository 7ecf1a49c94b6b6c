#!/usr/bin/env bash
# Two minutes on one core, with TVM; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/plugin_cost
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
