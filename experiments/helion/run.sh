#!/usr/bin/env bash
# Two and a half minutes on a machine with a GPU, torch, Triton and Helion.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/helion
exec "${PYTHON:-python}" $here/measure.py --out $here "$@"
