#!/usr/bin/env bash
# Measure the kernels on this machine's GPU. A call that was stopped goes on: measure.sh OUT [SECONDS [CAMPAIGN]]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the measurements}
campaign=${3:-experiments/kernels_at_large/campaign.toml}
"${PYTHON:-python}" -m costmodel collect run "$campaign" --out "$out" ${2:+--time-limit "$2"}
