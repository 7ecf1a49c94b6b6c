#!/usr/bin/env bash
# A quarter of an hour of a busy core; options of run.py may follow, which all of its runs take.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/breadth
run() { "${PYTHON:-python}" $here/run.py "$@"; }
run --json $here/result.json --plot $here/curve.png "$@"
run --learned datasets/sm-budgets --sizes 8 16 32 64 --json $here/result_sm_budgets.json "$@"
random=(--config $here/random_operators.toml)
run "${random[@]}" --json $here/result_random.json --plot $here/curve_random.png "$@"
declare -A learned=([networks]=datasets/sm-budgets [random]=datasets/wide-sm-budgets [both]="datasets/sm-budgets datasets/wide-sm-budgets")
for name in networks random both; do
  all=("${random[@]}" --learned ${learned[$name]} --sizes 1000 --most-kernels 1000 --draws 1)
  run "${all[@]}" --json "$here/random_from_$name.json" "$@"
  run "${all[@]}" --only-kernels $here/drawn.txt --json "$here/drawn_from_$name.json" "$@"
done
