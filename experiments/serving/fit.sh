#!/usr/bin/env bash
# Fit the model of rows and judge it on problems left out: a minute of one core. fit.sh [DATASET...]
set -euo pipefail
cd "$(dirname "$0")/../.."
data=("${@:-datasets/triton-sm-budgets}")
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python}
"$python" experiments/serving/fit.py "${data[@]}" --out costmodel/serving/model.npz
"$python" experiments/serving/judge.py "${data[@]}" --out experiments/serving/result.json
