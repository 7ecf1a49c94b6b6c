#!/usr/bin/env bash
# At most five minutes on a host with several NVIDIA GPUs and 16 cores for each; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/fleet
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
