#!/usr/bin/env bash
# Tune the programs on this machine's GPU: measure.sh OUT [options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?folder for the results}
exec "${PYTHON:-python}" experiments/public_programs/measure.py --out "$out" "${@:2}"
