#!/usr/bin/env bash
# What a service loses while kernels are tuned beside it: two minutes on a GPU. See README.md here.
set -euo pipefail
cd "$(dirname "$0")/../.."
.venv/bin/python experiments/shadow/measure.py "$@"
