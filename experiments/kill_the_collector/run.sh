#!/usr/bin/env bash
# Three to five minutes on two cores; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/kill_the_collector
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
