#!/usr/bin/env bash
# What a GPU has to show, in parts of a few minutes each; the last line says which ran, and how they ended.
#
#   bench/gpu.sh [PROGRAM [PART...]]
#
#   PROGRAM    a build with CUDA; default build-cuda/lockstep
#   PART       doctor: every kernel beside the processor's, and their rates
#              verify: layouts on the GPU beside one rank on the processor (fp32) or on the GPU (bf16)
#              train: one run on both devices in fp32, whose losses must be equal, and one in bf16
#              step: tokens/s of whole steps in bf16 and fp32
#              seed: 300 steps of configs/seed.toml in bf16; with Tiny Shakespeare as TEXT, beside the losses of four A100s
#              ladder: its rate with each optimisation that a GPU has, one after the other
#              scaling: tokens/s of the processor beside it on 1, 2, 4, ... of its cores
#              torch: the same steps by PyTorch; PEERS=FOLDER names the one with torch_gpt.py
#              sanitizer: two steps under compute-sanitizer
#              default: all; those whose tools are missing are left out
#
# OUT keeps what is printed (default runs/gpu), TEXT is trained on (default: words of a made-up language), LIMIT ends a part
# after so many seconds (540). MODELS (gpt2 llama) are verified, and SHAPES timed. No network is needed.
set -uo pipefail

fail() {
    echo "gpu.sh: $1" >&2
    exit 2
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit
fi
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath -- "${1:-$root/build-cuda/lockstep}" 2>/dev/null) || program=${1:-}
[ -x "$program" ] || fail "no program at '${1:-build-cuda/lockstep}': make cuda builds it"
[ $# = 0 ] || shift
all=(doctor verify train step seed ladder scaling torch sanitizer)
[ $# -gt 0 ] || set -- "${all[@]}"
for part in "$@"; do
    [[ " ${all[*]} " == *" $part "* ]] || fail "'$part' is no part: choose from ${all[*]}"
done
out=${OUT:-$root/runs/gpu}
limit=${LIMIT:-540}
[[ $limit =~ ^[1-9][0-9]*$ ]] || fail "LIMIT=$limit: must be a number of seconds above 0"
read -ra models <<<"${MODELS:-gpt2 llama}"
read -ra shapes <<<"${SHAPES:-seed:64x1024 gpt2:64x1024 char qwen0.5b:16x1024 qwen1.5b:9x2048}"
mkdir -p "$out"

# Lines of words, each of which is often followed by a few others: a function of nothing, that can be learnt.
made_up_text() {
    awk 'BEGIN {
        state = 1
        for (line = 0; line < 20000; ++line) {
            text = ""
            for (word = 0; word < 9; ++word) {
                state = (state * 16807) % 2147483647
                at = (at * 5 + state % 3) % 211
                text = text (word ? " " : "") substr("bdfgklmnprstvz", at % 14 + 1, 1) substr("aeiou", at % 5 + 1, 1) \
                    substr("lmnrst", at % 6 + 1, 1)
            }
            print text "."
        }
    }'
}

prepare() {
    [ ! -f "$out/text/tokens.json" ] || return 0
    if [ -n "${TEXT:-}" ]; then cp -- "$TEXT" "$out/text.txt"; else made_up_text >"$out/text.txt"; fi &&
        "$program" prepare "$out/text.txt" --tokenizer char --out "$out/text"
}

run() { # name, device, then settings: a run that begins anew
    local name=$1 device=$2
    shift 2
    rm -rf -- "${out:?}/$name"
    "$program" train --config "$root/configs/first.toml" "data.dir=$out/text" "log.dir=$out/$name" log.name=null train.init_from=scratch \
        "train.device=$device" train.max_iters=200 optimizer.lr_decay_iters=200 train.eval_interval=100 train.log_interval=1 "$@"
}

losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([-0-9.e]*\),.*/\1 \2/p' "$out/$1/metrics.jsonl"; }

doctor() { "$program" doctor --device cuda; }

verify() {
    local status=0 model
    for dtype in fp32 bf16; do
        for model in "${models[@]}"; do "$program" verify --device cuda --dtype "$dtype" --model "$model" || status=1; done
    done
    return $status
}

train() {
    prepare && run on-gpu cuda && run on-cpu cpu && losses on-gpu >"$out/losses-gpu" && losses on-cpu >"$out/losses-cpu" || return
    [ -s "$out/losses-gpu" ] || return
    diff "$out/losses-cpu" "$out/losses-gpu" && echo "all $(wc -l <"$out/losses-gpu") losses are equal on both devices" || return
    run in-bf16 cuda train.dtype=bfloat16
}

step() {
    local status=0 shape
    for shape in "${shapes[@]}"; do
        for dtype in bf16 fp32; do
            "$program" bench step --device cuda --shape "$shape" --dtype "$dtype" --seconds 10 --details || status=1
        done
    done
    return $status
}

# Steps of the seed's model; 256 samples each, as four GPUs had.
of_seed() { # name, then settings
    local name=$1
    shift
    rm -rf -- "${out:?}/$name"
    "$program" train --config "$root/configs/seed.toml" data.dataset=null "data.dir=$out/text" "log.dir=$out/$name" log.name=null \
        train.init_from=scratch train.device=cuda train.dtype=bf16 optimizer.gas=4 sample.tokens=0 "$@"
}

seed() {
    prepare && of_seed seed train.max_iters=300 train.eval_iters=50 || return
    [[ $(sha256sum <"$out/text.txt") == 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed* ]] || return 0
    local step loss ours status=0
    while read -r step loss; do
        ours=$(sed -n "s/.*\"step\":$step,.*\"val_loss\":\([0-9.]*\),.*/\1/p" "$out/seed/metrics.jsonl")
        awk -v step="$step" -v ours="$ours" -v theirs="$loss" 'BEGIN {
            apart = ours - theirs
            printf "step %d: validation loss %.4f, on four A100s %.4f\n", step, ours, theirs
            exit !(ours != "" && apart < 0.1 && apart > -0.1)
        }' || status=1
    done <<<"100 2.478951
200 2.148510
300 1.713714"
    return $status
}

ladder() {
    prepare || return
    local settings=(train.max_iters=20 train.eval_interval=1000 train.eval_iters=1 train.log_interval=1 kernels.attention=materialised
        train.dtype=fp32 model.batch_size=16 optimizer.gas=16) rung status=0
    for rung in "" kernels.attention=tiled train.dtype=bf16 "model.batch_size=64 optimizer.gas=4"; do
        read -ra rung <<<"$rung"
        settings+=("${rung[@]}")
        of_seed ladder "${settings[@]}" >"$out/ladder.log" 2>&1 || status=1
        echo "${rung[*]:-materialised attention, fp32, 16 samples at a time}: $(sed -n 's/^Speed: *//p' "$out/ladder.log")"
    done
    return $status
}

scaling() { "$program" bench scaling --shape char --seconds 10; }

torch() {
    if ! python3 -c 'import torch' 2>/dev/null || [ ! -f "${PEERS:-}/torch_gpt.py" ]; then return 77; fi
    local status=0 dtype
    for dtype in bf16 fp32; do
        python3 "$PEERS/torch_gpt.py" --device cuda --mode compile --shape seed:64x1024 --dtype "$dtype" --seconds 10 || status=1
    done
    return $status
}

sanitizer() {
    command -v compute-sanitizer >/dev/null || return 77
    prepare || return
    local tool status=0
    for tool in memcheck racecheck synccheck; do
        rm -rf -- "${out:?}/sanitized"
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" train --config "$root/configs/first.toml" "data.dir=$out/text" \
            "log.dir=$out/sanitized" log.name=null train.init_from=scratch train.device=cuda train.max_iters=2 train.eval_iters=1 model.n_layer=2 || status=1
    done
    return $status
}

export program out root
export -f made_up_text prepare run losses of_seed "${all[@]}"
export models_list="${models[*]}" shapes_list="${shapes[*]}"
told=() failed=0
for part in "$@"; do
    echo "== $part"
    started=$SECONDS
    # A shell of its own, which the limit can end.
    timeout "$limit" bash -c 'set -uo pipefail; read -ra models <<<"$models_list"; read -ra shapes <<<"$shapes_list"; '"$part" 2>&1 |
        tee "$out/$part.txt"
    case ${PIPESTATUS[0]} in
        0) word="ok" ;;
        77) word="left out" ;;
        124) word="ended by the limit" failed=1 ;;
        *) word="FAILED" failed=1 ;;
    esac
    told+=("$part $word ($((SECONDS - started)) s)")
done
printf -v line '%s, ' "${told[@]}"
echo "== ${line%, }"
exit $failed
