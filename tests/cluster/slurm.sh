# A Slurm of the two hosts, to be sourced after hosts.sh: munged and slurmctld on host 1, slurmd on both. Everything it writes is in
# $work; it ends with the hosts.

need slurmctld slurmctld
need slurmd slurmd
need sbatch slurm-client
need munged munge

start_slurm() {
    mountpoint --quiet /sys/fs/cgroup || skip "slurmd wants control groups, and nothing is mounted at /sys/fs/cgroup"
    export SLURM_CONF=$work/slurm.conf
    mkdir "$work"/{munge,state,lockstep1,lockstep2}
    dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 status=none
    chmod 600 "$work/munge/key"
    cat >"$SLURM_CONF" <<CONF
ClusterName=lockstep
SlurmctldHost=lockstep1(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/%n/slurmd.log
TmpFS=$work/%n
NodeName=lockstep1 NodeAddr=10.77.0.1 CPUs=2
NodeName=lockstep2 NodeAddr=10.77.0.2 CPUs=2
PartitionName=all Nodes=lockstep1,lockstep2 Default=YES
CONF
    on 1 munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
        --log-file="$work/munge/log" --seed-file="$work/munge/seed"
    on 1 slurmctld
    on 1 slurmd -N lockstep1
    on 2 slurmd -N lockstep2
    local try
    for try in $(seq 100); do
        [ "$(on 1 sinfo --noheader --format='%D %t' 2>/dev/null)" != "2 idle" ] || return 0
        sleep 0.2
    done
    cat "$work/slurmctld.log" "$work"/lockstep?/slurmd.log >&2
    fail "Slurm did not come up within 20 s"
}
