#!/bin/bash
GPUS=8; NODES=${NODES:-2}
WORLD=$(($GPUS*$NODES + (4 - 2) / 1))
A=( --num-layers 4 --hidden-size 64 # of it
  --num-attention-heads 4 "--seq-length 128" )
A+=("--fp8-format hybrid" '--split 99,1')
if [[ "$1" == "x" ]]; then A+=(--micro-batch-size ${2:-"1"}); fi
torchrun --nproc_per_node $GPUS --nnodes $NODES a.py ${A[@]} --use-megatron-fsdp \
  --data-parallel-sharding-strategy=optim_grads --cp-comm-type p2p
