#!/usr/bin/env bash
# Half an hour on two quiet cores, 4 GB of disk; goes on where it was stopped. Options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/dataset_at_size
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/cost.png "$@"
