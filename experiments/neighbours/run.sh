#!/usr/bin/env bash
# Two minutes on one core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/neighbours
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
