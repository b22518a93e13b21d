#!/usr/bin/env bash
# The planner held against this machine: a machine file of doctor, then short runs of several models and layouts, each with what
# plan check says of it. A shared machine's speed changes, so the rate of multiply-adds is taken before and after each run, and
# what was measured is scaled to the rate that the file has. A run during which it changes by more than 5 % is made again.
#
#   bench/predictions.sh [--only WORD] [--steps N] [--out FOLDER] [--keep]
#
#   --only   layouts whose name has the word; default: all
#   --steps  of each run (default 8)
#   --out    where runs and the machine's file lie (default build/predictions)
#   --keep   runs that are there are not made again: they are only compared, as when the planner's formulas have changed
#
# LOCKSTEP is the program (default build/lockstep).
set -euo pipefail
source "$(dirname "$0")/planned.sh"
only= steps=8 out=$root/build/predictions keep=no
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --keep) keep=yes; shift; continue ;;
        --only | --steps | --out) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
        *) fail "unknown option '$1'; --help lists the options" ;;
    esac
    case $1 in
        --only) only=$2 ;;
        --steps) steps=$2 ;;
        --out) out=$2 ;;
    esac
    shift 2
done
need_number --steps "$steps" 3
need_program
data=$(text)

layouts() { # name, model, ranks, settings
    cat <<'END'
tiny tiny 1
tiny-dp2 tiny 2
tiny-tp2 tiny 2 parallel.tp=2
char char 1
char-gas4 char 1 optimizer.gas=4
char-recompute char 1 memory.recompute=full
char-offload char 1 memory.offload_optimizer=cpu
char-bf16 char 1 train.dtype=bf16
char-dp2 char 2
char-zero1 char 2 memory.zero=1
char-zero3 char 2 memory.zero=3
char-tp2 char 2 parallel.tp=2
char-pp2 char 2 parallel.pp=2 optimizer.gas=4
char-zbh1 char 2 parallel.pp=2 optimizer.gas=4 parallel.schedule=zb-h1
char-dp2-tp2 char 4 parallel.tp=2
char-pp2-tp2 char 4 parallel.pp=2 parallel.tp=2 optimizer.gas=4
long long 1
long-selective long 1 memory.recompute=selective
long-cp2 long 2 parallel.cp=2
long-ulysses long 2 parallel.cp=2 parallel.context=ulysses
long-ring long 2 parallel.cp=2 parallel.context=ring
wide wide 1
wide-bf16 wide 1 train.dtype=bf16
wide-dp2 wide 2
wide-zero3 wide 2 memory.zero=3
wide-dp4-zero2 wide 4 memory.zero=2
llama llama 1
llama-dp2 llama 2
llama-tp2 llama 2 parallel.tp=2
words words 1
words-tp2 words 2 parallel.tp=2
words-pp2 words 2 parallel.pp=2 optimizer.gas=4
END
}

mkdir -p "$out"
machine=$out/machine.toml
if [ $keep = no ] || [ ! -f "$machine" ]; then measure_machine; fi
peak=$(peak_of_machine)
table=$out/table.tsv
: >"$table"
while read -r name shape ranks settings; do
    [[ $name == *"$only"* ]] || continue
    run=$out/$name
    if [ $keep = no ] || [ ! -f "$run/rate" ]; then
        # shellcheck disable=SC2046,SC2086 # words
        timed_run "$run" "$ranks" $(model "$shape") $settings
    fi
    line=$(checked "$run")
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$ranks" "$peak" "$(cat "$run/rate")" "$line" >>"$table"
done < <(layouts)

awk -F '\t' '
function both(json, key,   text, f) { # into predicted and measured
    predicted = measured = 0
    if (!match(json, "\"" key "\": *{[^}]*}")) return
    text = substr(json, RSTART, RLENGTH)
    match(text, "\"predicted\": *[-0-9.e+]+"); f = substr(text, RSTART, RLENGTH); sub(/.*: */, "", f); predicted = f + 0
    match(text, "\"measured\": *[-0-9.e+]+"); f = substr(text, RSTART, RLENGTH); sub(/.*: */, "", f); measured = f + 0
}
function mean(pair,   f) { split(pair, f, " "); return (f[1] + f[2]) / 2 }
function part(json, key) {
    both(json, key)
    return measured > 0 ? sprintf("%8.1f%8.1f", 1000 * predicted, 1000 * scale * measured) : sprintf("%16s", "")
}
function errors(list, n,   i, j, t, sum) { # prints median and worst
    for (i = 2; i <= n; ++i) for (j = i; j > 1 && list[j] < list[j - 1]; --j) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return sprintf("median %.1f %%, worst %.1f %%", 50 * (list[int((n + 1) / 2)] + list[int(n / 2) + 1]), 100 * list[n])
}
BEGIN {
    print "ms, predicted and measured (scaled to the machine file'"'"'s rate); errors in %"
    printf "%-16s%16s%16s%16s%16s%16s%9s%9s\n", "layout", "forward", "backward", "gradients", "update", "step", "error", "memory"
}
{
    scale = mean($4) / $3
    line = sprintf("%-16s%s%s%s%s%s", $1, part($5, "forward"), part($5, "backward"), part($5, "waiting for gradients"), part($5, "update"), part($5, "step"))
    step = predicted / (scale * measured) - 1
    both($5, "memory of training")
    memory = predicted / measured - 1
    printf "%s%9.1f%9.2f\n", line, 100 * step, 100 * memory
    all[++n] = step < 0 ? -step : step
    bytes[n] = memory < 0 ? -memory : memory
    if ($2 <= 2) few[++m] = all[n]
}
END {
    printf "steps of %d layouts: %s\n", n, errors(all, n)
    if (m && m < n) printf "of the %d with at most 2 ranks: %s\n", m, errors(few, m)
    printf "memory: %s\n", errors(bytes, n)
}' "$table"
