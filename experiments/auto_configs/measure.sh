#!/usr/bin/env bash
# Make lists for kernels and time them beside the author's on this machine's GPU: measure.sh OUT [options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?folder for the results}
exec "${PYTHON:-python}" experiments/auto_configs/measure.py --out "$out" "${@:2}"
