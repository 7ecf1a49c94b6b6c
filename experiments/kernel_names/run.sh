#!/usr/bin/env bash
# A second on one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/kernel_names
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
