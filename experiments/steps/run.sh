#!/usr/bin/env bash
# Five minutes on one core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/steps
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
