#!/usr/bin/env bash
# Take the answers of all tuners on this machine's GPU: measure.sh OUT [options]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?folder for the results}
exec "${PYTHON:-python}" experiments/drop_in_live/measure.py --out "$out" "${@:2}"
