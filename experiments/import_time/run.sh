#!/usr/bin/env bash
# Three minutes of one core; needs PyTorch and Triton. Options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/import_time
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
