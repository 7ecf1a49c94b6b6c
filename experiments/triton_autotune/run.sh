#!/usr/bin/env bash
# A minute on a machine with a GPU, torch and Triton.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/triton_autotune
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
