#!/usr/bin/env bash
# Ten minutes on two cores, 2 GB of disk; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/reading_logs
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
