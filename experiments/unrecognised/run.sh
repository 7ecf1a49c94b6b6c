#!/usr/bin/env bash
# Two minutes on two cores; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/unrecognised
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/by_workload.png "$@"
