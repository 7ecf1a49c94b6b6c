#!/usr/bin/env bash
# Five minutes on two cores; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/several_budgets
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
