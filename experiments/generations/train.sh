#!/usr/bin/env bash
# Train the models of calls that the package ships. Needs `pip install --no-deps
# aiconfigurator-core==0.12.0`; minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/generations/train.py --config experiments/generations/train.toml "$@"
