#!/usr/bin/env bash
# Has Verifpal look for attacks in the models of the protocols (models/README.md).
#
#   scripts/models.sh [--where-installed] [MODEL...]     MODEL: a name in models/, without its end; all, if none is said
#
# What each file expects stands in its head. A twin is a model with some lines exchanged, in which at least one query
# has to break that holds in the model; a variant is one in which none does. Ends with 0 if all is as expected, 1 if not,
# 3 without Verifpal; with --where-installed that is 0, and a line in the file that TANDEM_SKIPPED names.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=1.6.7
VERIFPAL="${TANDEM_TOOLS:-$HOME/.cache/tandem/tools}/bin/verifpal"
# Seconds for one run; all of them together take a minute on two cores.
PATIENCE=120

optional=
if [ "${1-}" = --where-installed ]; then
    optional=1
    shift
fi
if [ ! -x "$VERIFPAL" ] || [ "$("$VERIFPAL" --version)" != "verifpal $VERSION" ]; then
    missing="needs Verifpal $VERSION at $VERIFPAL; \`scripts/ensure-tools.sh models\` builds it"
    if [ -n "$optional" ]; then
        [ -z "${TANDEM_SKIPPED-}" ] || echo "not tried: models: $missing" >>"$TANDEM_SKIPPED"
        exit 0
    fi
    echo "models: $missing" >&2
    exit 3
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
held=0 broke=0 wrong=0

complain() {
    echo "error: models: $*" >&2
    wrong=$((wrong + 1))
}

# expected FILE: each line of the head, as `SESSIONS CODE`.
expected() {
    sed -n 's|^// Expected at \([0-9]*\) sessions\{0,1\}: \(.*\)$|\1 \2|p' "$1" | while read -r sessions code; do
        echo "$sessions ${code// /}"
    done
}

# exchanged MODEL TWIN: the model with the twin's lines: each block of `-` lines stands in it once, and goes for the `+`
# lines behind it.
exchanged() {
    awk '
        function finish(   at, i, j, found) {
            if (!old) return
            for (i = 1; i + old - 1 <= lines; i++) {
                for (j = 1; j <= old && text[i + j - 1] == out[j]; j++);
                if (j > old) { found++; at = i }
            }
            if (found != 1) { print FILENAME ": stands " found + 0 " times in the model: " out[1] >"/dev/stderr"; failed = 1; exit 1 }
            for (i = 0; i < old; i++) gone[at + i] = 1
            put[at] = new
            old = 0; new = ""
        }
        FNR == NR { text[++lines] = $0; next }
        /^-/ { if (added) { finish(); added = 0 } out[++old] = substr($0, 2) }
        /^\+/ { new = new substr($0, 2) "\n"; added = 1 }
        END {
            if (!failed) finish()
            if (failed) exit 1
            for (i = 1; i <= lines; i++) {
                if (i in put) printf "%s", put[i]
                if (!(i in gone)) print text[i]
            }
        }' "$1" "$2"
}

# broken MODEL CODE BEFORE: the queries that the code says are broken and BEFORE says hold.
broken() {
    awk -v code="$2" -v before="$3" '
        /^queries\[/ { inside = 1; next }
        inside && /\?/ {
            sub(/^[ \t]*/, "")
            if (substr(code, 2 * ++n, 1) == "1" && substr(before, 2 * n, 1) == "0") { printf "%s%s", sep, $0; sep = ", " }
        }' "$1"
}

# run NAME FILE SESSIONS CODE: whether Verifpal finds what is expected.
run() {
    local found
    # Its file must end in .vp.
    found=$(timeout "$PATIENCE" "$VERIFPAL" verify --quiet --result-code --color never --sessions "$3" "$2" 2>&1) ||
        { complain "$1: $(tail -n 3 <<<"$found")"; return 1; }
    found=$(tail -n 1 <<<"$found")
    [ "$found" = "$4" ] || { complain "$1 at $3 session(s): $found found, $4 expected"; return 1; }
}

models=("$@")
[ ${#models[@]} -gt 0 ] || mapfile -t models < <(cd models && ls -- *.vp | sed 's/\.vp$//')
for model in "${models[@]}"; do
    file=models/$model.vp
    [ -e "$file" ] || { complain "there is no $file"; continue; }
    [ -n "$(expected "$file")" ] || complain "$file says nothing of what is expected"
    while read -r sessions code; do
        run "$model" "$file" "$sessions" "$code" || continue
        held=$((held + 1))
        echo "$model, at $sessions session(s): as expected, $code"
    done < <(expected "$file")
    for other in models/"$model".*.twin models/"$model".*.variant; do
        [ -e "$other" ] || continue
        name=$(basename "$other")
        exchanged "$file" "$other" >"$work/model.vp" || { complain "$name does not fit $file"; continue; }
        [ -n "$(expected "$other")" ] || complain "$other says nothing of what is expected"
        while read -r sessions code; do
            before=$(expected "$file" | sed -n "s/^$sessions //p")
            breaks=$(broken "$file" "$code" "$before")
            case "$name" in
                *.twin) [ -n "$breaks" ] || { complain "$name breaks nothing that holds in $file"; continue; } ;;
                *.variant) [ -z "$breaks" ] || { complain "$name breaks: $breaks"; continue; } ;;
            esac
            run "$name" "$work/model.vp" "$sessions" "$code" || continue
            if [ -n "$breaks" ]; then
                broke=$((broke + 1))
                echo "  $name: breaks, as it must: $breaks"
            else
                held=$((held + 1))
                echo "  $name: holds, as it must"
            fi
        done < <(expected "$other")
    done
done
echo "models: $held held, $broke twins broke as they must, $wrong not as expected"
[ "$wrong" -eq 0 ]
