#!/usr/bin/env bash
# Twenty seconds on one core, from what record_ranks.py wrote; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/several_ranks
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
