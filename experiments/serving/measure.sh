#!/usr/bin/env bash
# Measure the kernels on this machine's GPUs. A call that was stopped goes on: measure.sh OUT [SECONDS [DEVICES]]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the measurements}
campaign=${CAMPAIGN:-experiments/serving/campaign.toml}
python=${PYTHON:-python}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
"$python" experiments/serving/choose.py "$campaign" "$out"
"$python" experiments/serving/measure.py "$campaign" "$out" ${2:+--seconds "$2"} --devices "${3:-1}"
