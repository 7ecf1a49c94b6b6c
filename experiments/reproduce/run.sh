#!/usr/bin/env bash
# Under an hour on two cores; `--list` tells what it does, `--only STEP` does a part of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/reproduce/run.py "$@"
