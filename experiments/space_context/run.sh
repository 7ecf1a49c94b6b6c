#!/usr/bin/env bash
# Six minutes of a core, with TVM and xgboost; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/space_context
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
