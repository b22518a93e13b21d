# shellcheck shell=bash disable=SC2034,SC2154 # names are the caller's
# What first-layout.sh and predictions.sh share: models, this machine's file, and runs that are timed at a known rate of
# multiply-adds. LOCKSTEP is the program (default build/lockstep). Callers set `machine`, its file, `data`, the text, and `steps`, how
# many a run has.

root=$(cd "$(dirname "$0")/.." && pwd)
lockstep=${LOCKSTEP:-$root/build/lockstep}

fail() {
    echo "${0##*/}: $1" >&2
    exit 2
}

models=(tiny char long wide llama words)
model() {
    case $1 in
        tiny) echo model.n_layer=4 model.n_head=4 model.n_embd=128 model.block_size=64 model.batch_size=12 ;;
        char) echo model.n_layer=6 model.n_head=6 model.n_embd=384 model.block_size=64 model.batch_size=12 ;;
        long) echo model.n_layer=4 model.n_head=6 model.n_embd=384 model.block_size=512 model.batch_size=2 ;;
        wide) echo model.n_layer=3 model.n_head=12 model.n_embd=768 model.block_size=256 model.batch_size=2 ;;
        llama) echo model.n_layer=4 model.n_head=8 model.n_kv_head=4 model.n_embd=512 model.block_size=128 model.batch_size=4 \
            model.activation=swiglu model.norm=rmsnorm model.position=rope ;;
        words) echo model.n_layer=2 model.n_head=8 model.n_embd=512 model.block_size=128 model.batch_size=4 model.vocab_size=32768 ;;
    esac
}

need_number() { # option, value, least
    [[ $2 =~ ^[0-9]{1,6}$ && $2 -ge $3 ]] || fail "$1 $2: give a number, $3 at the least"
}
need_program() {
    [ -x "$lockstep" ] || fail "no program at '$lockstep'; build it (make) or set LOCKSTEP"
}

# The folder of the text that runs train on.
text() {
    local folder
    folder=$(cd "$root" && scripts/first-text) && echo "$root/$folder"
}

# Writes the machine's file. Doctor leaves its plots where it runs.
measure_machine() {
    local program
    program=$(realpath "$lockstep")
    (cd "$(dirname "$machine")" && "$program" doctor --machine-file "${machine##*/}") >&2
}

# GF/s of multiply-adds on all cores, over these moments.
rate() {
    "$lockstep" bench rate --json | sed 's/.*"gflops": *\([0-9.]*\).*/\1/'
}

# GF/s of multiply-adds that the file's peak stands for: it counts an instruction for pairs of bf16 twice, AMX's 16 times.
peak_of_machine() {
    local times=1
    if grep -qw avx512_bf16 /proc/cpuinfo; then times=2; fi
    if grep -qw amx_bf16 /proc/cpuinfo; then times=16; fi
    awk -v times=$times '/^(devices|peak_tflops) / { product = (product ? product : 1000) * $3 } END { print product / times }' \
        "$machine"
}

# Trains; leaves the rates before and after in FOLDER/rate. A run during which the rate changes by more than 5 % is made again.
timed_run() { # folder, ranks, settings
    local run=$1 ranks=$2 attempt before after
    shift 2
    for attempt in 1 2 3 4; do
        rm -rf "$run"
        before=$(rate)
        "$lockstep" train --ranks "$ranks" data.dir="$data" log.dir="$run" "$@" train.max_iters="$steps" \
            train.log_interval=1 train.eval_interval=1000000 train.eval_iters=1 sample.tokens=0 >"$run.log" 2>&1 ||
            fail "${run##*/}: see $run.log"
        after=$(rate)
        if awk -v a="$before" -v b="$after" 'BEGIN { exit !(a >= 0.95 * b && b >= 0.95 * a) }'; then break; fi
        [ "$attempt" = 4 ] || echo "${run##*/}: the machine's speed changed by more than 5 %: once more" >&2
    done
    echo "$before $after" >"$run/rate"
}

# What plan check says of a run, as a line of JSON.
checked() { # folder
    "$lockstep" plan check "$1" --machine "$machine" >"$1.check" &&
        tail -n 1 "$(dirname "$1")/predictions.jsonl"
}

# Seconds of a run's step, at the rate that the machine's file has.
step_seconds() { # folder
    checked "$1" | grep -o '"step": *{[^}]*}' | sed 's/.*"measured": *\([-0-9.e+]*\).*/\1/' |
        awk -v rates="$(cat "$1/rate")" -v peak="$(peak_of_machine)" '{ split(rates, r, " "); print $1 * (r[1] + r[2]) / 2 / peak }'
}
