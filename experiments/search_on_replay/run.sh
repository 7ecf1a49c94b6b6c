#!/usr/bin/env bash
# Half an hour on two cores, goes on where it was stopped; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/search_on_replay
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" $here/run.py --out out/replay --json $here/result.json --curves $here/curves.json \
  --plot $here/best_so_far.png "$@"
