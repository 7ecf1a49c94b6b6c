#!/usr/bin/env bash
# About ten minutes on two cores, from the data of this repository; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/triton_budgets
exec "${PYTHON:-python}" $here/run.py --json $here/result.json --plot $here/few_timed.png "$@"
