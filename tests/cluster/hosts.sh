# Two hosts on one machine, to be sourced: network namespaces lockstep1 (10.77.0.1) and lockstep2 (10.77.0.2) with a cable between
# them, a good one or one that faults can be made in, each with its host name and half of the processors. The file system is shared, as it is on a cluster. Needs root; exit
# code 77 where something is missing. They are removed, with all that runs in them, when the script ends, however it ends.

readonly skipped=77
cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lockstep=$(realpath -m "${LOCKSTEP:-$cluster/../../build/lockstep}")
work= cable_process=

skip() {
    echo "$(basename "$0"): skipped: $1"
    exit $skipped
}

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}

# need PROGRAM PACKAGE: or the script is skipped.
need() {
    command -v "$1" >/dev/null || skip "'$1' is missing (Debian: apt install $2)"
}

# on HOST COMMAND...: runs it on host 1 or 2. In the background of the script, so that a signal ends the script at once.
on() {
    "$cluster/rsh" "lockstep$1" "exec $(printf '%q ' "${@:2}")" 9>&- &
    wait $!
}

# pids_of HOST NAME: the processes of that name on the host; Linux knows its first 15 letters.
pids_of() {
    local pid
    for pid in $(ip netns pids "lockstep$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "${2:0:15}" ] || echo "$pid"
    done
}

remove_hosts() {
    local host pids
    for host in lockstep1 lockstep2; do
        [ -e "/run/netns/$host" ] || continue
        pids=$(ip netns pids "$host")
        [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
        ip netns delete "$host"
    done
}

tear_down() {
    trap - EXIT
    trap '' INT TERM HUP
    [ -z "$cable_process" ] || kill "$cable_process" 2>/dev/null || true
    remove_hosts
    [ -z "$work" ] || rm -rf "$work"
}

# The first half of the processors is host 1's, the rest host 2's; a single one is shared.
share_processors() {
    local range all=() half
    for range in $(taskset --cpu-list --pid $$ | sed 's/.*: //; s/,/ /g'); do all+=($(seq "${range%-*}" "${range#*-}")); done
    half=$((${#all[@]} / 2))
    export processors_of_lockstep1 processors_of_lockstep2
    processors_of_lockstep1=$(IFS=,; echo "${all[*]:0:half > 0 ? half : 1}")
    processors_of_lockstep2=$(IFS=,; echo "${all[*]:half}")
}

good_cable() {
    ip link add cable1 netns lockstep1 type veth peer name cable2 netns lockstep2
}

# cable COMMAND: delay MILLISECONDS, loss SHARE, cut [1|2], join; see cable.cpp. It returns once that holds.
cable() {
    local answer
    echo "$*" >&7
    read -r -t 10 -u 8 answer || fail "the cable does not answer to '$*'"
}

faulty_cable() {
    local program=$(dirname "$lockstep")/cable
    [ -x "$program" ] || fail "no program at '$program'; build it (scripts/build release cable)"
    mkfifo "$work/cable.in" "$work/cable.out"
    exec 7<>"$work/cable.in" 8<>"$work/cable.out"
    "$program" lockstep1 lockstep2 <&7 >&8 9>&- &
    cable_process=$!
    cable join
}

# make_hosts [good_cable|faulty_cable]: makes the hosts and the folder $work that both see.
make_hosts() {
    [ "$(id -u)" = 0 ] || skip "only root can make network namespaces"
    need ip iproute2
    need nsenter util-linux
    need flock util-linux
    need taskset util-linux
    [ -x "$lockstep" ] || fail "no program at '$lockstep'; build it (make) or set LOCKSTEP"
    exec 9>/run/lock/lockstep-hosts
    flock --nonblock 9 || fail "another script uses these hosts"
    trap tear_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    remove_hosts # of a script that was killed
    work=$(mktemp -d)
    ip netns add lockstep1 2>/dev/null || skip "this system does not allow network namespaces"
    ip netns add lockstep2
    "${1:-good_cable}"
    share_processors
    local i
    for i in 1 2; do
        ip -n lockstep$i address add 10.77.0.$i/24 dev cable$i
        ip -n lockstep$i link set cable$i up
        ip -n lockstep$i link set lo up
    done
    export hosts_file=$work/hosts
    printf '127.0.0.1 localhost\n10.77.0.1 lockstep1\n10.77.0.2 lockstep2\n' >"$hosts_file"
    # Open MPI starts the ranks of the other host with `rsh` beside this file, and speaks through the cable alone.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=$cluster/rsh
    export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_pml=ob1
}
