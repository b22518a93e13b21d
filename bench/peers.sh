#!/usr/bin/env bash
# Training steps of lockstep and of PyTorch, in turns, and their ratios. On a shared machine only figures of one round compare,
# so the table shows medians of the rounds' ratios.
#
#   bench/peers.sh [--shapes "tiny char-12x64 ..."] [--rounds N] [--modes "eager compile"] [--dtype fp32|bf16] [--ranks N]
#                  [--steps N] [--seconds S] [--no-floor]
#
#   --shapes   default: tiny char-12x64 char gpt2:4x64 gpt2:1x1024; also llama:4x64 llama:1x1024
#   --rounds   default and least: 3
#   --modes    default: eager; compile takes some 40 s more a run
#   --dtype    default: fp32; bf16 is compared with PyTorch's bf16 autocast and with our fp32
#   --steps    timed steps of a run, at most (default 20); --seconds: begin no further step after so long (default 40)
#   --ranks    data-parallel ranks of both (PyTorch: DDP over gloo); ours is then also compared with one rank that has all cores
#   --no-floor leave out step time over floor
#
# PEERS is the folder with `peer` and torch_gpt.py (default ../shared/peers beside the project); LOCKSTEP is the program (default
# build/lockstep).
set -euo pipefail

fail() {
    echo "peers.sh: $1" >&2
    exit 2
}

root=$(cd "$(dirname "$0")/.." && pwd)
peers=${PEERS:-$root/../shared/peers}
lockstep=${LOCKSTEP:-$root/build/lockstep}
shapes="tiny char-12x64 char gpt2:4x64 gpt2:1x1024" rounds=3 modes=eager dtype=fp32 ranks=1 steps=20 seconds=40 floor=yes
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --no-floor) floor=no; shift; continue ;;
        --shapes | --rounds | --modes | --dtype | --ranks | --steps | --seconds) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
        *) fail "unknown option '$1'; --help lists the options" ;;
    esac
    case $1 in
        --shapes) shapes=$2 ;;
        --rounds) rounds=$2 ;;
        --modes) modes=$2 ;;
        --dtype) dtype=$2 ;;
        --ranks) ranks=$2 ;;
        --steps) steps=$2 ;;
        --seconds) seconds=$2 ;;
    esac
    shift 2
done
[[ $rounds =~ ^[0-9]+$ && $rounds -ge 3 ]] || fail "--rounds $rounds: a median of ratios takes at least 3"
[[ $ranks =~ ^[0-9]+$ && $ranks -ge 1 ]] || fail "--ranks $ranks: give a number of ranks, such as 2"
[ "$ranks" = 1 ] || floor=no
[[ $dtype == fp32 || $dtype == bf16 ]] || fail "--dtype $dtype: choose fp32 or bf16"
[[ $dtype == fp32 || $ranks == 1 ]] || fail "--dtype bf16 is compared on one rank: leave out --ranks"
for mode in $modes; do
    [[ $mode == eager || $mode == compile ]] || fail "--modes $mode: choose from eager and compile"
done
[ -x "$peers/peer" ] || fail "no PyTorch to compare with: '$peers/peer' is missing; set PEERS to the folder that has peer and torch_gpt.py"
[ -x "$lockstep" ] || fail "no program at '$lockstep'; build it (make) or set LOCKSTEP"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
# `peer` starts scripts by their way from its folder; our own one imports torch_gpt.py from there.
peers=$(cd "$peers" && pwd)
llama=$(realpath --relative-to="$peers" "$root/bench/torch_llama.py")
export PYTHONPATH=$peers PYTHONDONTWRITEBYTECODE=1

results=$(mktemp)
trap 'rm -f "$results"' EXIT
record() { # who shape, then the command whose last line is JSON
    local who=$1 shape=$2 line
    shift 2
    line=$("$@" | tail -n 1) || fail "this command failed: $*"
    printf '%s\t%s\t%s\n' "$who" "$shape" "$line" >>"$results"
    echo "  $who: $line" >&2
}
for round in $(seq "$rounds"); do
    for shape in $shapes; do
        echo "round $round of $rounds, $shape" >&2
        extra=--no-floor
        [ "$floor" = yes ] && extra=
        record lockstep "$shape" "$lockstep" bench step --shape "$shape" --dtype "$dtype" --ranks "$ranks" --steps "$steps" --seconds "$seconds" \
            --json $extra
        [ "$ranks" = 1 ] || record alone "$shape" "$lockstep" bench step --shape "$shape" --steps "$steps" --seconds "$seconds" \
            --json $extra
        [ "$dtype" = fp32 ] || record wide "$shape" "$lockstep" bench step --shape "$shape" --steps "$steps" --seconds "$seconds" \
            --json --no-floor
        script=torch_gpt.py
        [[ $shape != llama:* ]] || script=$llama
        for mode in $modes; do
            record "$mode" "$shape" "$peers/peer" "$script" --shape "$shape" --dtype "$dtype" --mode "$mode" --ranks "$ranks" \
                --steps "$steps" --seconds "$seconds"
        done
    done
done

awk -F '\t' -v shapes="$shapes" -v rounds="$rounds" -v ranks="$ranks" -v dtype="$dtype" '
function field(json, key,   text) {
    if (!match(json, "\"" key "\": *[-0-9.e+]+")) return ""
    text = substr(json, RSTART, RLENGTH)
    sub(/^[^:]*: */, "", text)
    return text + 0
}
function median(key, n,   i, j, t, v) {
    for (i = 1; i <= n; ++i) v[i] = value[key, i]
    for (i = 2; i <= n; ++i) for (j = i; j > 1 && v[j] < v[j - 1]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function add(key, x) { value[key, ++count[key]] = x }
function cell(key, bound, sign,   m) {
    if (!count[key]) return sprintf("%-20s", "-")
    m = median(key, count[key])
    if (bound == "") return sprintf("%-20s", sprintf("%.2f", m))
    return sprintf("%-20s", sprintf("%.2f (%s %s)%s", m, sign, bound, (sign == ">=" ? m >= bound + 0 : m <= bound + 0) ? "" : " !"))
}
BEGIN {
    # against eager, against compile, memory against eager, step time over floor
    split("1.8 1.4 0.2 1.2", tiny, " "); split("1.2 1.2 0.3 1.12", small, " "); split("1.25 1.2 0.5 1.12", char, " ")
    split("1.2 1.3 0.75 1.12", gpt2, " "); split("1.2 1.15 0.6 1.12", long, " ")
    for (i = 1; i <= 4; ++i) {
        target["tiny", i] = tiny[i]; target["char-12x64", i] = small[i]; target["char", i] = char[i]
        target["gpt2:4x64", i] = gpt2[i]; target["gpt2:1x1024", i] = long[i]
    }
    target["llama:4x64", 1] = target["llama:1x1024", 1] = 1.2
    if (dtype == "bf16") {
        split("", target)
        target["tiny", 1] = target["char-12x64", 1] = 10
        target["tiny", 4] = target["char-12x64", 4] = 0.95
        target["char", 5] = 0.65
    }
    if (ranks > 1) {
        split("", target)
        target["tiny", 1] = 1.6; target["gpt2:4x64", 1] = 1.35; target["char", 4] = 0.97
    }
}
{
    rate = field($3, "tokens_per_s"); memory = field($3, "peak_mib")
    if ($1 == "lockstep") {
        ours = rate; our_memory = memory
        add($2 "/rate", rate)
        if (field($3, "floor_ratio") != "") add($2 "/floor", field($3, "floor_ratio"))
    } else if ($1 == "wide") {
        add($2 "/wide", ours / rate)
        add($2 "/wide_memory", our_memory / memory)
    } else if ($1 == "alone") {
        add($2 "/alone", ours / rate)
    } else {
        add($2 "/" $1, ours / rate)
        if ($1 == "eager") add($2 "/memory", our_memory / memory)
    }
}
END {
    printf "\nmedians of %d rounds, %s, %d rank%s; in parentheses the target, ! where it is missed\n", rounds, dtype, ranks, (ranks > 1 ? "s" : "")
    last = ranks > 1 ? "against one rank" : dtype == "bf16" ? sprintf("%-20s%-20s%s", "against our fp32", "memory against it", "step time / floor") : "step time / floor"
    printf "%-13s%-12s%-20s%-20s%-20s%s\n", "shape", "tokens/s", "against eager", "against compile", "memory against it", last
    n = split(shapes, list, " ")
    for (i = 1; i <= n; ++i) {
        s = list[i]
        printf "%-13s%-12.1f%s%s%s%s\n", s, median(s "/rate", count[s "/rate"]), cell(s "/eager", target[s, 1], ">="),
            cell(s "/compile", target[s, 2], ">="), cell(s "/memory", target[s, 3], "<="), (ranks > 1 ? cell(s "/alone", target[s, 4], ">=") \
                : dtype == "bf16" ? cell(s "/wide", target[s, 4], ">=") cell(s "/wide_memory", target[s, 5], "<=") cell(s "/floor", "", "<=") \
                : cell(s "/floor", target[s, 4], "<="))
    }
}' "$results"
