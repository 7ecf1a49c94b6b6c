#!/usr/bin/env bash
# Half an hour of a busy core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/breadth
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/curve.png "$@"
