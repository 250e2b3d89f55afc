#!/usr/bin/env bash
# Says how large a program is as it is installed, stripped, and fails where that is more than 10 MB.
#
#   scripts/program-size.sh PROGRAM
set -euo pipefail

max=10000000
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip --strip-unneeded -o "$stripped" "$1"
size=$(stat -c %s "$stripped")
echo "$1: $(awk "BEGIN { printf \"%.1f\", $size / 1e6 }") MB when stripped"
[ "$size" -le "$max" ] || {
    echo "program-size: more than $((max / 1000000)) MB (docs/ci.md)" >&2
    exit 1
}
