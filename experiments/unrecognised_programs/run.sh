#!/usr/bin/env bash
# On two cores, of what collect.sh measured on a GPU; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/unrecognised_programs
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
