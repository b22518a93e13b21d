#!/usr/bin/env bash
# Trains two runs on Tiny Shakespeare whose losses are published, and sets their curves beside the published ones.
#
#   bench/reference.sh [--only "char cpu"] [--piece] [--text FILE] [--out FOLDER] [--results FOLDER]
#
#   --only     char: wordplay's notebook, configs/shakespeare-char.toml (10.65 M parameters) for 1,500 steps; some five hours of one
#              core. Six pieces of 250 steps, each in another layout, three of them ended by kill -9 and resumed
#              cpu: nanoGPT's recipe for a CPU, configs/shakespeare-cpu.toml, 2,000 steps; some six minutes of one core
#   --piece    of char: the next piece alone, at most an hour. The same command again goes on behind it
#   --text     Tiny Shakespeare; default: the program downloads it
#   --out      runs and prepared text; default runs/reference. A run that was stopped goes on, one that is complete stays
#   --results  NAME.csv, NAME.svg and NAME.txt go there; default docs/reference-runs
#
# Ends with exit code 1 when a loss is further from the published one than 0.1. LOCKSTEP is the program (default build/lockstep).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
only="char cpu" out=$root/runs/reference results=$root/docs/reference-runs
pieces= # all
for word; do
    shift
    if [ "$word" = --piece ]; then pieces=1; else set -- "$@" "$word"; fi
done
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
    "$lockstep" train --config "$root/configs/shakespeare-$name.toml" data.dir=null data.dataset=shakespeare_char log.style=wordplay \
        "data.root_path=$out" "${source[@]}" "log.dir=$out/curve-$name" train.init_from=auto sample.tokens=0 \
        "train.max_iters=$last" "$@" |
        tee -a "$out/$name.log"
}

is_trained() { grep -qs " step $2: train loss" "$out/$1.log"; } # name, step

# kill -9 as soon as char has written this step.
train_until_killed() { # step, then the arguments of train
    local step=$1 training
    shift
    train "$@" &
    training=$!
    until grep -qs "\"step\":$step," "$out/curve-char/metrics.jsonl"; do
        kill -0 "$training" 2>/dev/null || return 0
        sleep 1
    done
    pkill -KILL -P "$training" -x "$(basename "$lockstep")" || true
    wait "$training" || true
}

# As docs/demo.md has it: SHA-256 over the weights' names and bytes.
hash_of() { # safetensors
    python3 - "$1" <<'END'
import hashlib, json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, total = json.loads(data[8:8 + size]), hashlib.sha256()
for name in sorted(name for name in header if name != "__metadata__"):
    begin, end = header[name]["data_offsets"]
    total.update(name.encode() + b"\0" + data[8 + size + begin:8 + size + end])
print(total.hexdigest())
END
}

# Each piece of char: the step behind which it is killed (0: none), and its layout. The batch is of 64 sequences in all of them.
layouts=(
    "0"
    "430 --ranks 2 model.batch_size=32"
    "0 --ranks 2 parallel.tp=2 parallel.sequence=true"
    "870 --ranks 2 parallel.pp=2 model.batch_size=8 optimizer.gas=8"
    "0 --ranks 2 parallel.cp=2"
    "1480 --ranks 4 parallel.tp=2 memory.zero=3 model.batch_size=32"
)
# A run that goes on keeps its layout: each piece says what it does not have.
one_rank=(parallel.dp=null parallel.tp=1 parallel.sequence=false parallel.pp=1 parallel.cp=1 memory.zero=0 model.batch_size=64
    optimizer.gas=1)

# The next pieces of char, as many as are asked for. Sums are canonical, so that the weights are the same in every layout.
train_pieces() {
    local last=0 left=${pieces:-${#layouts[@]}} layout
    for layout in "${layouts[@]}"; do
        last=$((last + 250))
        if is_trained char "$last"; then continue; fi
        [ "$left" -gt 0 ] || return 0
        left=$((left - 1))
        local words kill_at settings
        read -ra words <<<"$layout"
        kill_at=${words[0]}
        settings=("${one_rank[@]}" "${words[@]:1}" numerics.canonical=true optimizer.schedule=wordplay train.seed=1234 train.eval_interval=500
            train.eval_iters=20 checkpoint.interval=50)
        if [ "$kill_at" -gt 0 ]; then train_until_killed "$kill_at" char "$last" "${settings[@]}"; fi
        train char "$last" "${settings[@]}"
        printf '%s\t%s\t%s\t%s\n' "$last" "$(hash_of "$out/curve-char/checkpoints/step_$last/model.safetensors")" \
            "$([ "$kill_at" -gt 0 ] && echo "kill -9 behind step $kill_at" || echo -)" "${words[*]:1}" \
            >>"$out/char-pieces"
    done
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
    [ "$1" != char ] || awk -F '\t' '
        NR == 1 { print "\nuntil step  SHA-256 of the weights"; }
        { printf "%-10d  %s  %s%s\n", $1, $2, $4 == "" ? "one rank" : $4, $3 == "-" ? "" : ", " $3 }
        END { print "" }' "$out/char-pieces"
}

missed=0
for name in $only; do
    case $name in
        char) train_pieces ;;
        cpu) is_trained cpu 2000 || train cpu 2000 ;;
    esac
    curve "$name" >"$results/$name.csv"
    awk -f "$root/bench/reference-svg.awk" "$root/bench/reference-$name.csv" "$results/$name.csv" >"$results/$name.svg"
    { record "$name"; awk -f "$root/bench/reference-table.awk" "$root/bench/reference-$name.csv" "$results/$name.csv"; } \
        >"$results/$name.txt" || missed=1
    cat "$results/$name.txt"
done
exit $missed
