#!/usr/bin/env bash
# Five minutes on one core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/stopping
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --out out/stopping --json $here/result.json --plot $here/stopping.png "$@"
