# The options that the scripts of curves have: reference.sh and optimizers.sh source it with their own arguments. They set `root`
# to the project's folder, and `only`, `out` and `results` to their defaults. It sets `text` and `lockstep` too, and has fail().

script=$(basename "$0")
fail() {
    echo "$script: $1" >&2
    exit 2
}

lockstep=${LOCKSTEP:-$root/build/lockstep}
text=
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --only | --text | --out | --results) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
        *) fail "unknown option '$1'; --help lists the options" ;;
    esac
    case $1 in
        --only) only=$2 ;;
        --text) text=$2 ;;
        --out) out=$2 ;;
        --results) results=$2 ;;
    esac
    shift 2
done
