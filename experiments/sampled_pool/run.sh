#!/usr/bin/env bash
# A minute of one core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/sampled_pool
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
