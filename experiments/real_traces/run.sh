#!/usr/bin/env bash
# A minute on one core, from what record.py wrote; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/real_traces
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
