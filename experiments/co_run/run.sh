#!/usr/bin/env bash
# Two minutes with 16 cores and an NVIDIA GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/co_run
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
