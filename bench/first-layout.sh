#!/usr/bin/env bash
# Whether the layout that the planner puts first is the fastest: for each of six models, `plan` ranks the layouts of this machine (one
# rank, and as many more as divide its cores evenly), the best of different ones train in turns, and the planner's first is set
# beside the fastest and the second fastest. Layouts differ that have other ranks, degrees or micro-batches. Seconds are at the machine
# file's rate of multiply-adds, and medians of the rounds; ratios are medians of the rounds' ratios.
#
#   bench/first-layout.sh [--only "MODELS"] [--top N] [--rounds N] [--steps N] [--out DIR]
#
#   --only    of tiny, char, long, wide, llama and words; default: all
#   --top     layouts of each model (default 4, at least 3)
#   --rounds  runs of each layout (default 3)
#   --steps   of each run (default 5)
#   --out     where runs and the machine's file lie (default build/first-layout)
#
# It is good where it is among the fastest two, or takes at most 3 % longer than the second. LOCKSTEP is the program (default
# build/lockstep).
set -euo pipefail
source "$(dirname "$0")/planned.sh"
only=${models[*]} top=4 rounds=3 steps=5 out=$root/build/first-layout
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --only | --top | --rounds | --steps | --out) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
        *) fail "unknown option '$1'; --help lists the options" ;;
    esac
    case $1 in
        --only) only=$2 ;;
        --top) top=$2 ;;
        --rounds) rounds=$2 ;;
        --steps) steps=$2 ;;
        --out) out=$2 ;;
    esac
    shift 2
done
need_number --top "$top" 3 # of two, either is among the fastest two
need_number --rounds "$rounds" 1
need_number --steps "$steps" 3
[ -n "${only// /}" ] || fail "--only: name some of ${models[*]}"
for name in $only; do [ -n "$(model "$name")" ] || fail "--only $name: there are ${models[*]}"; done
need_program
data=$(text)
mkdir -p "$out"
machine=$out/machine.toml
measure_machine
cores=$(awk '/^devices / { print $3 }' "$machine")

# The machine when so many ranks share it, as plan check divides it.
write_divided() { # ranks, file
    awk -v ranks="$1" '
        /^devices / { part = $3 / ranks; $3 = ranks }
        /^(memory|reserved|peak_tflops|memory_gbps|update_gbps) / { $3 = sprintf("%.6g", $3 * part) }
        { print }' "$machine" >"$2"
}

# The model as plan reads it; a vocabulary that it does not say is the text's.
model_recipe() { # name
    local setting
    echo "[model]"
    for setting in "model.vocab_size=$(sed -n 's/.*"vocabulary": *\([0-9]*\).*/\1/p' "$data/tokens.json")" $(model "$1"); do
        echo "${setting#model.}"
    done | awk -F= '{ value[$1] = $2 ~ /^[0-9]+$/ ? $2 : "\"" $2 "\"" } END { for (key in value) print key " = " value[key] }'
}

# Of all numbers of ranks the best, in the planner's order: its seconds, ranks, settings.
ranked() { # name
    local ranks samples
    samples=$(model "$1" | sed 's/.*model.batch_size=\([0-9]*\).*/\1/')
    model_recipe "$1" >"$out/$1.toml"
    for ((ranks = 1; ranks <= cores; ++ranks)); do
        [ $((cores % ranks)) = 0 ] || continue
        write_divided "$ranks" "$out/machine-$ranks.toml"
        "$lockstep" plan search "$out/$1.toml" "$out/machine-$ranks.toml" --global-batch $((samples * cores)) \
            --dtype fp32 --top $((10 * top)) --json >"$out/plan.json" || return
        awk -v ranks="$ranks" '
            function number(text, key) { sub(".*\"" key "\": *", "", text); return text + 0 }
            {
                sub(/"families": *\[.*/, "")
                n = split($0, found, /\{"step_seconds"/)
                for (i = 2; i <= n; ++i) {
                    words = found[i]
                    sub(/.*"settings": *\[/, "", words)
                    sub(/\].*/, "", words)
                    gsub(/[",]+/, " ", words)
                    print number(found[i], "ranked_seconds") "\t" number("\"step_seconds\"" found[i], "step_seconds") "\t" ranks "\t" words
                }
            }' "$out/plan.json"
    done | sort -s -g -k 1,1 | cut -f 2- | awk -F '\t' -v top="$top" '
        {
            kind = $2
            n = split($3, words, " ")
            for (i = 1; i <= n; ++i) if (words[i] ~ /^(model\.batch_size|optimizer\.gas|parallel\.(dp|tp|cp|pp))=/) kind = kind " " words[i]
            if (!seen[kind]++ && ++kept <= top) print
        }'
}

# Reads predicted seconds, ranks, settings and the measured seconds of each round; the planner's first layout is the first line.
judge() { # name
    awk -F '\t' -v name="$1" '
        function median(list, n,   i, j, t) {
            for (i = 2; i <= n; ++i) for (j = i; j > 1 && list[j] < list[j - 1]; --j) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
            return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
        }
        function ratio(other,   i, list) { # of the first layout to that one
            for (i = 1; i <= rounds; ++i) list[i] = seconds[1, i] / seconds[other, i]
            return median(list, rounds)
        }
        {
            rounds = split($4, own, " ")
            for (i = 1; i <= rounds; ++i) seconds[NR, i] = own[i]
            measured[NR] = median(own, rounds)
            predicted[NR] = $1
            layout[NR] = $2 ($2 == 1 ? " rank: " : " ranks: ") $3
        }
        END {
            fastest = 1
            for (i = 2; i <= NR; ++i) if (measured[i] < measured[fastest]) fastest = i
            for (i = 1; i <= NR; ++i) if (i != fastest && (!second || measured[i] < measured[second])) second = i
            good = fastest == 1 || second == 1 || ratio(second) <= 1.03
            printf "%s: the first layout takes %.2f x the fastest, %.2f x the second: %s\n", name, ratio(fastest), ratio(second),
                good ? "good" : "NOT GOOD"
            printf "  %11s %9s  ms a step\n", "predicted", "measured"
            for (i = 1; i <= NR; ++i) {
                gsub(/(train|model|optimizer|parallel|memory)\./, "", layout[i])
                gsub(/ +/, " ", layout[i])
                printf "  %11.1f %9.1f  %s\n", 1000 * predicted[i], 1000 * measured[i], layout[i]
            }
        }'
}

good=0 judged=0
for name in $only; do
    mapfile -t found < <(ranked "$name")
    [ ${#found[@]} -ge 3 ] || fail "$name: plan finds ${#found[@]} different layouts, and 3 are the least to compare"
    seconds=()
    for ((round = 1; round <= rounds; ++round)); do
        for i in "${!found[@]}"; do
            IFS=$'\t' read -r _ ranks settings <<<"${found[i]}"
            # shellcheck disable=SC2046,SC2086 # words
            timed_run "$out/$name-$((i + 1))" "$ranks" $(model "$name") $settings
            measured=$(step_seconds "$out/$name-$((i + 1))")
            seconds[i]="${seconds[i]:-} $measured"
        done
    done
    verdict=$(for i in "${!found[@]}"; do printf '%s\t%s\n' "${found[i]}" "${seconds[i]# }"; done | judge "$name")
    echo "$verdict"
    judged=$((judged + 1))
    if [[ ${verdict%%$'\n'*} == *": good" ]]; then good=$((good + 1)); fi
done
echo "good: $good of $judged"
