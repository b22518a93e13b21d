#!/usr/bin/env bash
# Trains a small model on Tiny Shakespeare by AdamW, Muon and LARS at 1, 4 and 16 times a batch of 768 tokens, with the same tokens
# each and a few learning rates, and says which loss each ends with (docs/optimizers.md).
#
#   bench/optimizers.sh [--only "AdamW muon lars"] [--text FILE] [--out FOLDER] [--results FOLDER]
#
#   --only     some of the methods
#   --text     Tiny Shakespeare; default: the program downloads it
#   --out      runs and prepared text; default runs/optimizers. A run that is complete stays
#   --results  optimizers.csv and optimizers.svg go there; default docs/reference-runs
#
# Some 25 minutes of one core. LOCKSTEP is the program (default build/lockstep).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
only="AdamW muon lars" out=$root/runs/optimizers results=$root/docs/reference-runs
source "$root/bench/curves.sh"
rates() { # method
    case $1 in
        AdamW) echo 1e-3 3e-3 1e-2 3e-2 ;;
        muon) echo 3e-3 1e-2 3e-2 ;;
        lars) echo 3e-3 1e-2 3e-2 1e-1 ;;
        *) fail "--only $1: choose from AdamW, muon and lars" ;;
    esac
}
for method in $only; do rates "$method" >/dev/null; done
[ -x "$lockstep" ] || fail "no program at '$lockstep'; build it (make) or set LOCKSTEP"
[ -z "$text" ] || [ -r "$text" ] || fail "--text $text: cannot be read"
mkdir -p "$out" "$results"
if [ ! -e "$out/text/tokens.json" ]; then
    "$lockstep" prepare ${text:+"$text"} --tokenizer char --out "$out/text"
fi

# The settings of configs/shakespeare-muon.toml, of as many tokens whatever the batch.
train() { # method, times, rate
    local run=$out/$1-$2-$3 steps=$((2000 / $2))
    if grep -qs "\"eval\":true,\"step\":$steps," "$run/metrics.jsonl" || grep -qs "has diverged" "$run.log"; then return; fi
    rm -rf "$run"
    "$lockstep" train --config "$root/configs/shakespeare-muon.toml" "data.dir=$out/text" "log.dir=$run" \
        "optimizer.name=$1" "optimizer.learning_rate=$3" "optimizer.min_lr=0" "optimizer.momentum=$([ "$1" = muon ] && echo 0.95 || echo 0.9)" \
        "model.batch_size=$((12 * $2))" optimizer.gas=1 \
        "train.max_iters=$steps" "train.warmup_iters=$((steps / 20))" "train.eval_interval=$((steps / 5))" \
        "train.log_interval=$((steps / 125))" >"$out/$1-$2-$3.log" 2>&1 ||
        grep -q "has diverged" "$out/$1-$2-$3.log" || fail "see $out/$1-$2-$3.log"
}

# method,times,rate,step,val_loss of all evaluations.
for method in $only; do
    for times in 1 4 16; do
        for rate in $(rates "$method"); do
            train "$method" "$times" "$rate"
            sed -n "s/.*\"eval\":true,\"step\":\([0-9]*\),.*\"val_loss\":\([0-9.]*\).*/$method,$times,$rate,\1,\2/p" \
                "$out/$method-$times-$rate/metrics.jsonl"
        done
    done
done | { echo method,times,rate,step,val_loss; cat; } >"$results/optimizers.csv"

# The best rate of each, by the last loss.
awk -F , '
    NR > 1 {
        key = $1 "," $2 "," $3
        last[key] = $5
        step[key] = $4
    }
    END {
        for (key in last) {
            split(key, part, ",")
            if (step[key] != 2000 / part[2]) continue  # it diverged
            place = part[1] "," part[2]
            if (!(place in best) || last[key] < best[place]) { best[place] = last[key]; rate[place] = part[3] }
        }
        for (place in best) {
            split(place, part, ",")
            printf "%2d x 768 tokens  %-6s  learning rate %-5s  validation loss %.4f\n", part[2], part[1], rate[place], best[place]
        }
    }' "$results/optimizers.csv" | sort
awk -f "$root/bench/optimizers-svg.awk" "$results/optimizers.csv" >"$results/optimizers.svg"
