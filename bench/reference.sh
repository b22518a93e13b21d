#!/usr/bin/env bash
# Trains two runs on Tiny Shakespeare whose losses are published, and sets their curves beside the published ones.
#
#   bench/reference.sh [--only "char cpu"] [--text FILE] [--out FOLDER] [--results FOLDER]
#
#   --only     char: wordplay's notebook, configs/shakespeare-char.toml (10.65 M parameters) for 300 steps; an hour of one core
#              cpu: nanoGPT's recipe for a CPU, configs/shakespeare-cpu.toml, 2,000 steps; some six minutes of one core
#   --text     Tiny Shakespeare; default: the program downloads it
#   --out      runs and prepared text; default runs/reference. A run that was stopped goes on, one that is complete stays
#   --results  NAME.csv, NAME.svg and NAME.txt go there; default docs/reference-runs
#
# Ends with exit code 1 when a loss is further from the published one than 0.1. LOCKSTEP is the program (default build/lockstep).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
only="char cpu" out=$root/runs/reference results=$root/docs/reference-runs
source "$root/bench/curves.sh"
for name in $only; do
    [[ $name == char || $name == cpu ]] || fail "--only $name: choose from char and cpu"
done
[ -x "$lockstep" ] || fail "no program at '$lockstep'; build it (make) or set LOCKSTEP"
# The published losses are of this text.
known=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
source=()
if [ -n "$text" ]; then
    [ -r "$text" ] || fail "--text $text: cannot be read"
    [[ $(sha256sum <"$text") == $known* ]] ||
        fail "--text $text: is not Tiny Shakespeare (1,115,394 bytes, sha256 $known); leave out --text to download it"
    source=("data.file=$(realpath "$text")")
fi
mkdir -p "$out" "$results"

train() { # name, its last step, then settings
    local name=$1 last=$2
    shift 2
    if grep -qs " step $last: train loss" "$out/$name.log"; then return; fi
    "$lockstep" train --config "$root/configs/shakespeare-$name.toml" data.dir=null data.dataset=shakespeare_char log.style=wordplay \
        "data.root_path=$out" "${source[@]}" "log.dir=$out/curve-$name" train.init_from=auto sample.tokens=0 \
        "train.max_iters=$last" "$@" |
        tee -a "$out/$name.log"
}

# step,loss,train_loss,val_loss: losses of logged steps (mean of a batch), and of evaluations.
curve() { # name
    echo step,loss,train_loss,val_loss
    {
        sed -n 's/.*"step":\([0-9]*\),"loss":\([0-9.]*\),.*/\1,\2,,/p' "$out/curve-$1/metrics.jsonl"
        sed -n 's/.* step \([0-9]*\): train loss \([0-9.]*\), val loss \([0-9.]*\)$/\1,,\2,\3/p' "$out/$1.log"
    } | awk -F , '
        { step[$1] = 1; for (i = 2; i <= 4; ++i) if ($i != "") value[$1, i] = $i }
        END {
            for (s in step) {
                batch = value[s, 2] == "" ? "" : sprintf("%.4f", value[s, 2])
                printf "%d,%s,%s,%s\n", s, batch, value[s, 3], value[s, 4]
            }
        }' |
        sort -t , -n
}

# What ran where.
record() { # name
    local run=$out/curve-$1
    sed -n 's/.*"commit": *"\([^"]*\)".*/commit     \1/p' "$run/environment.json"
    sed -n 's/^Model name: */processor  /p' < <(lscpu)
    echo "cores      $(nproc)"
    date -u -r "$run/metrics.jsonl" '+ended      %Y-%m-%d'
}

missed=0
for name in $only; do
    case $name in
        char) train char 300 optimizer.schedule=wordplay train.seed=1234 train.eval_interval=300 train.eval_iters=20 ;;
        cpu) train cpu 2000 ;;
    esac
    curve "$name" >"$results/$name.csv"
    awk -f "$root/bench/reference-svg.awk" "$root/bench/reference-$name.csv" "$results/$name.csv" >"$results/$name.svg"
    { record "$name"; awk -f "$root/bench/reference-table.awk" "$root/bench/reference-$name.csv" "$results/$name.csv"; } \
        >"$results/$name.txt" || missed=1
    cat "$results/$name.txt"
done
exit $missed
