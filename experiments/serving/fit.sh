#!/usr/bin/env bash
# Fit the model of rows and judge it, and first choices of other kernels, on problems of the last dataset left out: two
# minutes of one core. fit.sh [DATASET...]
set -euo pipefail
cd "$(dirname "$0")/../.."
data=("$@")
[ $# -gt 0 ] || data=(datasets/triton-sm-budgets datasets/serving-sm-budgets)
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python}
"$python" experiments/serving/fit.py "${data[@]}" --out costmodel/serving/model.npz --json experiments/serving/result.json
"$python" experiments/serving/families.py "${data[-1]}" --json experiments/serving/families.json
