#!/usr/bin/env bash
# Eight minutes with 16 cores and an NVIDIA GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/network_on_part
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
