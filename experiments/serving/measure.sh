#!/usr/bin/env bash
# Measure the kernels on this machine's GPUs. A call that was stopped goes on: measure.sh OUT [SECONDS [DEVICES]]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the measurements}
"${PYTHON:-python}" -m costmodel collect run experiments/serving/campaign.toml --out "$out" \
  ${2:+--time-limit "$2"} --devices "${3:-1}"
