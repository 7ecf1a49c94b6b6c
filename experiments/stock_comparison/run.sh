#!/usr/bin/env bash
# Two to three minutes a workload with 16 cores and an NVIDIA GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/stock_comparison
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
