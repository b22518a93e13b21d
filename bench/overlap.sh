#!/usr/bin/env bash
# How much of the exchange of gradients a training step hides behind its backward pass, on two hosts (network namespaces, one rank
# with half of the processors on each) behind a slow network. Needs root and Open MPI.
#
#   bench/overlap.sh [--rate RATE] [--shape SHAPE] [--bucket-bytes N] [--rounds N] [--json]
#
#   --rate          of the network, as tc writes it (default: 1gbit)
#   --shape         default: char-12x64
#   --bucket-bytes  default: 1048576
#   --rounds        steps of either kind, in turns (default: 7)
#
# hidden = (communication - exposed) / min(communication, backward after the first unit's gradient is complete), where communication
# is what a step waits for when each bucket is waited for at once. LOCKSTEP is the program (default build/lockstep).
set -euo pipefail
source "$(dirname "$0")/../tests/cluster/hosts.sh"
rate=1gbit shape=char-12x64 bucket=1048576 rounds=7 json=()
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        --json) json=(--json); shift; continue ;;
        --rate | --shape | --bucket-bytes | --rounds) [ $# -ge 2 ] || fail "$1 wants a value; --help lists the options" ;;
        *) fail "unknown option '$1'; --help lists the options" ;;
    esac
    case $1 in
        --rate) rate=$2 ;;
        --shape) shape=$2 ;;
        --bucket-bytes) bucket=$2 ;;
        --rounds) rounds=$2 ;;
    esac
    shift 2
done
need mpirun openmpi-bin
need tc iproute2
make_hosts
for i in 1 2; do tc -n lockstep$i qdisc add dev cable$i root tbf rate "$rate" burst 128kb latency 50ms; done
on 1 mpirun --host lockstep1,lockstep2 -n 2 --bind-to none "$lockstep" bench overlap --shape "$shape" --bucket-bytes "$bucket" \
    --rounds "$rounds" "${json[@]}"
