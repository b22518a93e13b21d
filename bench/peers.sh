#!/usr/bin/env bash
# Training steps of lockstep and of PyTorch, in turns, and their ratios. A shared machine's speed changes, so the rate of
# multiply-adds is taken before and after each program; a round in which it changes by more than 5 % is run again, and what is
# compared are tokens per multiply-add. The table shows medians of the rounds' ratios and, in brackets, their quartiles.
#
#   bench/peers.sh [--shapes "tiny char-12x64 ..."] [--rounds N] [--modes "eager compile"] [--dtype fp32|bf16] [--ranks N]
#                  [--steps N] [--seconds S] [--no-floor] [--results FILE] [--as-shipped]
#
#   --shapes   default: tiny char-12x64 char gpt2:4x64 gpt2:1x1024; also llama:4x64 llama:1x1024
#   --rounds   default: 9; quartiles of fewer mean little
#   --modes    default: eager; compile takes some 40 s more a run
#   --dtype    default: fp32; bf16 is compared with PyTorch's bf16 autocast and with our fp32
#   --steps    timed steps of a run, at most (default 20); --seconds: begin no further step after so long (default 40)
#   --ranks    data-parallel ranks of both (PyTorch: DDP over gloo); ours is then also compared with one rank that has all cores
#   --no-floor leave out step time over floor
#   --results  keep what is measured in a file; the rounds in it count too, so that a comparison can be made in parts
#              (--rounds 0: nothing but their table)
#   --as-shipped   PyTorch's MKL takes general kernels on AMD processors; without this it is told to take those of AVX-512 where
#              there is AVX-512 (bench/mkl_any_cpu.c, which wants a C compiler)
#
# PEERS is the folder with `peer` and torch_gpt.py (default ../shared/peers beside the project); LOCKSTEP is the program (default
# build/lockstep). Targets are those of the processor (bench/targets.tsv).
set -euo pipefail

fail() {
    echo "peers.sh: $1" >&2
    exit 2
}

root=$(cd "$(dirname "$0")/.." && pwd)
peers=${PEERS:-$root/../shared/peers}
lockstep=${LOCKSTEP:-$root/build/lockstep}
shapes="tiny char-12x64 char gpt2:4x64 gpt2:1x1024" rounds=9 modes=eager dtype=fp32 ranks=1 steps=20 seconds=40 floor=yes results= tell=yes
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --no-floor) floor=no; shift; continue ;;
        --as-shipped) tell=no; shift; continue ;;
        --shapes | --rounds | --modes | --dtype | --ranks | --steps | --seconds | --results) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
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
        --results) results=$2 ;;
    esac
    shift 2
done
[[ $rounds =~ ^[0-9]+$ && ($rounds -ge 1 || -n $results) ]] || fail "--rounds $rounds: give a number of rounds, such as 9"
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

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: "${results:=$scratch/results}"
touch "$results"
preload=
if [ $tell = yes ] && grep -q AuthenticAMD /proc/cpuinfo && grep -qw avx512f /proc/cpuinfo; then
    preload=$scratch/mkl_any_cpu.so
    cc -shared -fPIC -o "$preload" "$root/bench/mkl_any_cpu.c" ||
        fail "no C compiler (cc) for bench/mkl_any_cpu.c; install one, or measure PyTorch --as-shipped"
fi

# GF/s of multiply-adds on all cores, over these moments.
rate() {
    "$lockstep" bench rate --json | sed 's/.*"gflops": *\([0-9.]*\).*/\1/'
}
record() { # who shape, then the command whose last line is JSON
    local who=$1 shape=$2 line after
    shift 2
    line=$("$@" | tail -n 1) || fail "this command failed: $*"
    after=$(rate)
    printf '%s\t%s\t%s\t%s\t%s\n' "$who" "$shape" "$line" "$before" "$after" >>"$scratch/round"
    echo "  $who, at $before to $after GF/s: $line" >&2
    before=$after
}
steady() { # whether no two rates of the round differ by more than 5 %
    awk -F '\t' '{ for (i = 4; i <= 5; ++i) { if (!n++ || $i < low) low = $i; if ($i > high) high = $i } } END { exit !(low >= 0.95 * high) }' \
        "$scratch/round"
}
most_tries=4
for round in $(seq "$rounds"); do
    for shape in $shapes; do
        for attempt in $(seq "$most_tries"); do
            echo "round $round of $rounds, $shape" >&2
            : >"$scratch/round"
            before=$(rate)
            extra=--no-floor
            [ "$floor" = yes ] && extra=
            record lockstep "$shape" "$lockstep" bench step --shape "$shape" --dtype "$dtype" --ranks "$ranks" --steps "$steps" \
                --seconds "$seconds" --json $extra
            [ "$ranks" = 1 ] || record alone "$shape" "$lockstep" bench step --shape "$shape" --steps "$steps" --seconds "$seconds" \
                --json $extra
            [ "$dtype" = fp32 ] || record wide "$shape" "$lockstep" bench step --shape "$shape" --steps "$steps" --seconds "$seconds" \
                --json --no-floor
            script=torch_gpt.py
            [[ $shape != llama:* ]] || script=$llama
            for mode in $modes; do
                record "$mode" "$shape" env LD_PRELOAD="$preload" "$peers/peer" "$script" --shape "$shape" --dtype "$dtype" --mode "$mode" --ranks "$ranks" \
                    --steps "$steps" --seconds "$seconds"
            done
            if steady; then break; fi
            [ "$attempt" = "$most_tries" ] || echo "  the machine's speed changed by more than 5 %: once more" >&2
        done
        cat "$scratch/round" >>"$results"
    done
done

processor=other
if grep -qw avx512f /proc/cpuinfo; then processor=avx512; elif grep -qw avx2 /proc/cpuinfo; then processor=avx2; fi
awk -F '\t' -v shapes="$shapes" -v ranks="$ranks" -v dtype="$dtype" -v processor="$processor" -v targets="$root/bench/targets.tsv" '
function field(json, key,   text) {
    if (!match(json, "\"" key "\": *[-0-9.e+]+")) return ""
    text = substr(json, RSTART, RLENGTH)
    sub(/^[^:]*: */, "", text)
    return text + 0
}
# The p-quantile of what was added.
function quantile(key, p,   i, j, n, t, v, at) {
    n = count[key]
    for (i = 1; i <= n; ++i) v[i] = value[key, i]
    for (i = 2; i <= n; ++i) for (j = i; j > 1 && v[j] < v[j - 1]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    at = 1 + p * (n - 1); i = int(at)
    return i == n ? v[n] : v[i] + (at - i) * (v[i + 1] - v[i])
}
function add(key, x) { value[key, ++count[key]] = x }
function cell(key, bound, sign,   m) {
    if (!count[key]) return sprintf("%-28s", "-")
    m = quantile(key, 0.5)
    t = sprintf("%.2f [%.2f %.2f]", m, quantile(key, 0.25), quantile(key, 0.75))
    if (bound != "" && bound != "-") t = t sprintf(" (%s %s)%s", sign, bound, (sign == ">=" ? m >= bound + 0 : m <= bound + 0) ? "" : " !")
    return sprintf("%-28s", t)
}
BEGIN {
    kind = ranks > 1 ? "ranks" : dtype
    while ((getline line < targets) > 0) {
        if (line ~ /^#/ || split(line, f, " +") < 8 || f[1] != processor || f[2] != kind) continue
        for (i = 4; i <= 8; ++i) target[f[3], i - 3] = f[i]
    }
}
{
    tokens = field($3, "tokens_per_s"); rate = tokens / (($4 + $5) / 2); memory = field($3, "peak_mib")
    if ($1 == "lockstep") {
        ours = rate; our_memory = memory
        add($2 "/rate", tokens)
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
    printf "\nmedians [and quartiles] of %d rounds, %s, %s, %d rank%s; in parentheses the target, ! where it is missed\n", count[substr(shapes " ", 1, index(shapes " ", " ") - 1) "/rate"], processor, dtype, ranks, (ranks > 1 ? "s" : "")
    last = ranks > 1 ? "against one rank" : dtype == "bf16" ? sprintf("%-28s%-28s%s", "against our fp32", "memory against it", "step time / floor") : "step time / floor"
    printf "%-13s%-12s%-28s%-28s%-28s%s\n", "shape", "tokens/s", "against eager", "against compile", "memory against it", last
    n = split(shapes, list, " ")
    for (i = 1; i <= n; ++i) {
        s = list[i]
        printf "%-13s%-12.1f%s%s%s%s\n", s, quantile(s "/rate", 0.5), cell(s "/eager", target[s, 1], ">="),
            cell(s "/compile", target[s, 2], ">="), cell(s "/memory", target[s, 3], "<="), (ranks > 1 ? cell(s "/alone", target[s, 4], ">=") \
                : dtype == "bf16" ? cell(s "/wide", target[s, 4], ">=") cell(s "/wide_memory", target[s, 5], "<=") cell(s "/floor", "", "<=") \
                : cell(s "/floor", target[s, 4], "<="))
    }
}' "$results"
