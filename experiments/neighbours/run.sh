#!/usr/bin/env bash
# Seconds on one core, with the folder that measure.py wrote; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/neighbours
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
