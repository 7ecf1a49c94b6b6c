#!/usr/bin/env bash
# Five minutes with 16 cores and an NVIDIA GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/pipeline_throughput
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
