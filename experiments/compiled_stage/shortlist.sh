#!/usr/bin/env bash
# shortlist.sh PART [OPTIONS]: judge shortlists that are compiled before one kernel is chosen, on a part of the sampled
# pool, choose, or on the fresh one. Some minutes of a core for each seed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/compiled_stage
part=$1
shift
exec "${PYTHON:-python}" $here/shortlist.py "$part" --json "$here/$part.json" "$@"
