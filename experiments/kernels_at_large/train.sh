#!/usr/bin/env bash
# Train the ranker that the drop-in for Triton ships with, from the data of this repository. Minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/kernels_at_large/train.py --config experiments/kernels_at_large/train.toml "$@"
