#!/usr/bin/env bash
# Seconds; options of run.py may follow, such as --revision 165a8b9.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/structure
exec "${PYTHON:-python}" $here/run.py --json $here/result.json "$@"
