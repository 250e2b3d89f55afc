#!/usr/bin/env bash
# Lists the tests that could not run in full, from the file in which they say so (crates/base/tandem-testkit).
#
#   scripts/list-skipped.sh FILE            each test and what it needs
#   scripts/list-skipped.sh --count FILE    how many tests were skipped, in full or in part
set -euo pipefail

if [ "$1" = --count ]; then
    sed -n 's|^skipped: \([^ ]*\): .*|\1|p' "$2" | sort -u | wc -l
    exit
fi
sort -u "$1"
count=$("$0" --count "$1")
[ "$count" -eq 0 ] || echo "skipped, in full or in part: $count tests (root and ../shared/data let all of them run; docs/ci.md)"
