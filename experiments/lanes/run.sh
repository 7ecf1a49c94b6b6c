#!/usr/bin/env bash
# Three minutes with 16 cores and an NVIDIA GPU; options of measure.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/lanes/measure.py --out out/lanes "$@"
