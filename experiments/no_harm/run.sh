#!/usr/bin/env bash
# Some six minutes of a core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/no_harm
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
