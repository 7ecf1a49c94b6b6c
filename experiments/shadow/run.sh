#!/usr/bin/env bash
# Two minutes at most with 16 cores and an NVIDIA GPU; options of measure.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/shadow
exec "${PYTHON:-python}" $here/measure.py --out out/shadow "$@"
