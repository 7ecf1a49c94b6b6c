#!/usr/bin/env bash
# Half a minute. The folder of Kernel Tuner's caches comes first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/cuda_transfer
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
