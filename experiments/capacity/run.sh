#!/usr/bin/env bash
# Ten minutes on one core; options of run.py may follow. What it draws from was recorded by live.py, builds.py, proposals.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/capacity
export OMP_NUM_THREADS=1
"${PYTHON:-python}" $here/times.py
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/capacity.png "$@"
