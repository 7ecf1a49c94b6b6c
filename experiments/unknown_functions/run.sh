#!/usr/bin/env bash
# Half an hour of one core. The folder of Kernel Tuner's caches comes first; options of run.py may follow.
set -euo pipefail
data="$(realpath "$1")"
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/unknown_functions
export OMP_NUM_THREADS=1
"${PYTHON:-python}" $here/ask_cost.py --json $here/ask_cost.json
out=out/unknown_functions/searches.jsonl
exec "${PYTHON:-python}" $here/run.py "$data" --out $out --json $here/result.json "$@"
