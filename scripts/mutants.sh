#!/usr/bin/env bash
# Changes the code in small ways and sees whether a test notices: in the lines that differ from a base.
#
#   scripts/mutants.sh [BASE] [cargo-mutants' options...]
#
#   BASE   a commit; default origin/main, or the commit before this one where there is no such branch
#
# For whole crates: cargo mutants --package tandem-wire --jobs 1 (hours). Ends with 2 where a mutant survived.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="${TANDEM_TOOLS:-$HOME/.cache/tandem/tools}/bin:$PATH"
if [ $# -gt 0 ] && [[ $1 != -* ]]; then
    base=$1
    shift
elif git rev-parse --quiet --verify origin/main >/dev/null; then
    base=origin/main
else
    base=HEAD~
fi
mkdir -p out
git diff "$(git merge-base "$base" HEAD)" -- '*.rs' >out/mutants.diff
if [ ! -s out/mutants.diff ]; then
    echo "mutants: no Rust file differs from $base" >&2
    exit 0
fi
# Each mutant is tested by its own crate; a change that loops must not hold everything up.
nice -n 19 cargo mutants --in-diff out/mutants.diff --jobs 1 --timeout 300 --build-timeout 600 --output out "$@"
