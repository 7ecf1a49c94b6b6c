#!/usr/bin/env bash
# Four minutes on a machine with a GPU, torch, Triton and Helion.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/helion
exec "${PYTHON:-python}" $here/measure.py --out $here "$@"
