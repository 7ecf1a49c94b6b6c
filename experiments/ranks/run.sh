#!/usr/bin/env bash
# Two minutes on two cores, with Triton and torch and without a GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/ranks
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
