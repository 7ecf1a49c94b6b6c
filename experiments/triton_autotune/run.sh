#!/usr/bin/env bash
# Two minutes on a machine with a GPU, torch and Triton; with --checks one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/triton_autotune
exec "${PYTHON:-python}" $here/run.py --out $here "$@"
