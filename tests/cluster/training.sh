# Small trainings, to be sourced after hosts.sh: their text, their settings, and whether two of them ended with the same bits.

# Prepares $work/data.
prepare_text() {
    awk 'BEGIN { for (i = 0; i < 4000; ++i) print "the quick brown fox", i * i % 97, "jumps over the lazy dog", i * 7 % 31 "." }' >"$work/text"
    "$lockstep" prepare "$work/text" --tokenizer char --out "$work/data" >"$work/prepare.log" 2>&1 || fail "$(cat "$work/prepare.log")"
}

steps=200 # of a run

# settings NAME: the words behind `lockstep train` for a run of so many steps in $work/NAME.
settings() {
    echo data.dir="$work/data" log.dir="$work/$1" model.n_layer=3 model.n_head=4 model.n_embd=64 model.block_size=32 \
        model.batch_size=4 model.dropout=0.1 optimizer.gas=2 train.max_iters=$steps train.eval_interval=100 train.eval_iters=2 \
        train.log_interval=10 train.warmup_iters=2 checkpoint.interval=50 sample.tokens=20 parallel.bucket_bytes=65536
}

# trained NAME COMMAND...: runs it to its end; shows the last of what it printed when it fails.
trained() {
    local name=$1 started=$SECONDS
    shift
    if ! "$@" >>"$work/$name.log" 2>&1 </dev/null; then
        tail -n 40 "$work/$name.log" >&2
        fail "$name: this command failed: $*"
    fi
    [ -f "$work/$name/checkpoints/step_$steps/manifest.json" ] || fail "$name: there is no checkpoint of the last step"
    printf '%-34s ended after %2d s, loss %s\n' "$name" $((SECONDS - started)) "$(sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$work/$name/metrics.jsonl" | tail -n 1)"
}

# under_way NAME FILE: waits until the run has written the file, and a step into its metrics.
under_way() {
    local try
    for try in $(seq 300); do
        case $2 in
            metrics.jsonl) grep -qs '"loss"' "$work/$1/$2" && return 0 ;;
            *) [ ! -s "$work/$1/$2" ] || return 0 ;;
        esac
        sleep 0.1
    done
    tail -n 40 "$work/$1.log" >&2
    fail "$1 has no $2 after 30 s"
}

# same REFERENCE NAME: weights and moments after the last step are equal, bit for bit.
same() {
    local file
    for file in model.safetensors optimizer.safetensors; do
        cmp "$work/$1/checkpoints/step_$steps/$file" "$work/$2/checkpoints/step_$steps/$file" || fail "$2 and $1 differ in $file"
    done
    printf '%-34s has the weights and moments of %s, bit for bit\n' "$2" "$1"
}
