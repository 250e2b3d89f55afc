#!/usr/bin/env bash
# Searches for inputs that break a parser or an engine: every fuzz target in turn, or those that are named.
#
#   scripts/fuzz.sh [TARGET...]
#
#   FUZZ_SECONDS   processor time for each target, in seconds; default 1200. On a busy machine a search takes longer,
#                  ten times as long at most
#
# Debug assertions, overflow checks and AddressSanitizer are on. Searches run one at a time and at low priority. What
# is found goes to fuzz/artifacts/TARGET.new; of that, what reaches code that nothing committed reaches goes to
# fuzz/corpus/TARGET. An input that breaks something stays in fuzz/artifacts, and this script ends with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-1200}
export PATH="${TANDEM_TOOLS:-$HOME/.cache/tandem/tools}/bin:$PATH"
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

echo "fuzz: building ${#targets[@]} targets (the first time some ten minutes), then $seconds s of processor time for each" >&2
# The programs are looked for where cargo-fuzz leaves them by itself.
unset CARGO_TARGET_DIR
for target in "${targets[@]}"; do cargo +nightly fuzz build --debug-assertions --sanitizer address "$target" >&2; done

# Inputs are replayed by the tests and read by people: as long as fuzz/replay.rs takes.
limits=(-max_len=2048 -timeout=20 -rss_limit_mb=2048)

# search PROGRAM TARGET SECONDS
search() {
    nice -n 19 "$1" "fuzz/artifacts/$2.new" "fuzz/corpus/$2" "${limits[@]}" -max_total_time="$3" \
        -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$2-"
}

broken=()
for target in "${targets[@]}"; do
    program=$PWD/fuzz/target/$triple/release/$target
    new=fuzz/artifacts/$target.new
    log=fuzz/artifacts/$target.log
    mkdir -p "$new"
    : >"$log"
    status=0 used=0 end=$((SECONDS + 10 * seconds))
    # libFuzzer counts time by the clock: it is started again until it has had its share of the processor.
    while [ "$used" -lt "$seconds" ] && [ "$SECONDS" -lt "$end" ] && [ "$status" -eq 0 ]; do
        left=$((seconds - used))
        took=$(TIMEFORMAT='%U'; { time search "$program" "$target" $((left > 10 ? left : 10)) >>"$log" 2>&1; } 2>&1) ||
            status=$?
        took=${took%.*}
        used=$((used + (took > 0 ? took : 1)))
    done
    runs=$(awk '/^stat::number_of_executed_units:/ { runs += $2 } END { print runs + 0 }' "$log")
    if [ "$status" -ne 0 ]; then
        broken+=("$target")
        echo "fuzz: $target BROKEN after $runs inputs: see $log" >&2
        continue
    fi
    before=$(find "fuzz/corpus/$target" -type f | wc -l)
    # By the code that is reached, not by how often: a small corpus. What is longer than it need be stays out.
    nice -n 19 "$program" -merge=1 -set_cover_merge=1 -use_counters=0 "${limits[@]}" \
        "fuzz/corpus/$target" "$new" >>"$log" 2>&1
    after=$(find "fuzz/corpus/$target" -type f | wc -l)
    echo "fuzz: $target: $used s, $runs inputs, nothing broke, $((after - before)) kept" >&2
done
if [ ${#broken[@]} -gt 0 ]; then
    echo "fuzz: shrink what broke (cargo +nightly fuzz tmin TARGET FILE), commit it with the fix: ${broken[*]}" >&2
    exit 1
fi
