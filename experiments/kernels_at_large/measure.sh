#!/usr/bin/env bash
# Measure the kernels on this machine's GPU. A call that was stopped goes on: measure.sh OUT [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the measurements}
"${PYTHON:-python}" -m costmodel collect run experiments/kernels_at_large/campaign.toml --out "$out" ${2:+--time-limit "$2"}
