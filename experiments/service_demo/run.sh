#!/usr/bin/env bash
# A minute on two quiet cores; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OMP_NUM_THREADS=1
exec "${PYTHON:-python}" experiments/service_demo/run.py "$@"
