#!/usr/bin/env bash
# A minute on one core. The folder of cuSync's tables comes first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/tile_synchronization
exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json --plot $here/saving.png
