#include "app/settings/entry.h"

namespace lockstep::settings {

using app::RunConfig;

std::vector<Key> parallel_keys() {
  const Rule any = Rule::any(), positive = Rule::between(1, kMany), counted = Rule::between(0, kMany);
  return {
      key<&RunConfig::parallel, &RunConfig::Parallel::dp>("parallel.dp", positive, loose, "ranks",
                                                          "groups of ranks that train on samples of their own (data "
                                                          "parallelism); null: what the other degrees leave of the ranks"),
      key<&RunConfig::parallel, &RunConfig::Parallel::tp>(
          "parallel.tp", Rule::between(1, 1024), loose, "ranks",
          "that divide every layer among them by heads, features and tokens of the vocabulary (tensor parallelism)"),
      key<&RunConfig::parallel, &RunConfig::Parallel::cp>(
          "parallel.cp", Rule::between(1, 1024), loose, "ranks",
          "that divide the positions of every sequence among them, each a part from the front and one from the back (context "
          "parallelism)"),
      key<&RunConfig::parallel, &RunConfig::Parallel::context>(
          "parallel.context", any, loose, "",
          "of parallel.cp: how these ranks attend together: each gets all keys and values, all positions of some heads, those of "
          "others as they pass by, or heads inside a host and what passes by from others"),
      key<&RunConfig::parallel, &RunConfig::Parallel::sequence>(
          "parallel.sequence", any, loose, "",
          "of parallel.tp: these ranks divide the positions where each would do the same work (norms, dropout, residuals)"),
      key<&RunConfig::parallel, &RunConfig::Parallel::allow_tp_across_hosts>(
          "parallel.allow_tp_across_hosts", any, loose, "",
          "of parallel.tp: layers may be divided over several hosts, whose network then carries every layer's sums"),
      key<&RunConfig::parallel, &RunConfig::Parallel::pp>("parallel.pp", Rule::between(1, 512), loose, "ranks",
                                                          "that divide the model's layers among them, each with its stages "
                                                          "(pipeline parallelism); optimizer.gas micro-batches go "
                                                          "through all of them"),
      key<&RunConfig::parallel, &RunConfig::Parallel::schedule>(
          "parallel.schedule", any, loose, "",
          "of parallel.pp, who works on what when: gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-v, dualpipe-v or "
          "file:TABLE.csv (lockstep plan draws them); the bits are the same"),
      key<&RunConfig::parallel, &RunConfig::Parallel::virtual_stages>(
          "parallel.virtual_stages", Rule::between(1, 64), loose, "stages",
          "of parallel.pp: parts of the model that each rank has; null: 2 where the schedule has several, else 1"),
      key<&RunConfig::parallel, &RunConfig::Parallel::split>(
          "parallel.split", any, loose, "layers",
          "of parallel.pp: layers of each stage, as 4,4,3,1; null: so that all ranks have as much to compute, the head included"),
      key<&RunConfig::parallel, &RunConfig::Parallel::reduce>(
          "parallel.reduce", any, learns, "",
          "when gradients are added over ranks: once a step, or each micro-batch (other bits)"),
      key<&RunConfig::parallel, &RunConfig::Parallel::bucket_bytes>(
          "parallel.bucket_bytes", positive, loose, "bytes", "neighbouring units share a reduction until they have as many"),
      key<&RunConfig::parallel, &RunConfig::Parallel::overlap>("parallel.overlap", any, loose, "",
                                                               "reduce while backward goes on; false: wait, with the same bits"),
      key<&RunConfig::parallel, &RunConfig::Parallel::broadcast_start>(
          "parallel.broadcast_start", any, loose, "",
          "rank 0 sends the state that the run starts with to all ranks; false: each draws or reads its own, and all are "
          "compared; "
          "null: drawn start values are sent, files are read by all ranks"),
      key<&RunConfig::parallel, &RunConfig::Parallel::ranks_per_host>(
          "parallel.ranks_per_host", positive, loose, "ranks",
          "that count as those of one host, for what is laid out by hosts; null: NGPU_PER_HOST, or as they were started"),
      key<&RunConfig::parallel, &RunConfig::Parallel::servers>(
          "parallel.servers", Rule::between(1, 1023), loose, "ranks",
          "of train.backend=ps: the last ranks share the parameters by ranges and serve the others, which train; null: 1"),
      key<&RunConfig::parallel, &RunConfig::Parallel::ps>(
          "parallel.ps", any, learns, "",
          "of train.backend=ps: servers add up all workers' gradients and update once (as DDP does), average weights that each "
          "worker has updated, or update as each gradient arrives; null: gradients"),
      key<&RunConfig::parallel, &RunConfig::Parallel::staleness>(
          "parallel.staleness", counted, learns, "steps",
          "of parallel.ps=async: how far a worker may be ahead of the slowest one; 0: not at all; null: no bound"),
  };
}

std::vector<Key> memory_keys() {
  using Memory = RunConfig::Memory;
  const Rule any = Rule::any();
  return {
      key<&RunConfig::memory, &Memory::recompute>(
          "memory.recompute", any, loose, "",
          "what blocks make again in their backward pass instead of keeping it: none, selective (what goes into the MLP's "
          "activation), full (all but their input) or every:k (all but the input of each k-th block); the bits are the same"),
      key<&RunConfig::memory, &Memory::zero>(
          "memory.zero", Rule::between(0, 3), loose, "",
          "what ranks share out instead of each keeping it (ZeRO): 0: nothing, 1: the optimizer's state, 2: gradients too, 3: "
          "weights too; the same bits; null: what train.backend names"),
      key<&RunConfig::memory, &Memory::zero_group>("memory.zero_group", any, loose, "",
                                                   "of memory.zero: all ranks share out, or those of each host by themselves "
                                                   "(HYBRID_SHARD, hpZ; parallel.ranks_per_host)"),
      key<&RunConfig::memory, &Memory::prefetch>(
          "memory.prefetch", Rule::between(0, 64), loose, "leases",
          "of memory.zero=3: weights that are gathered before they are needed; each takes the memory of a block"),
      key<&RunConfig::memory, &Memory::reshard_after_forward>(
          "memory.reshard_after_forward", any, loose, "",
          "of memory.zero=3: gathered weights make room for the next ones; false: they stay until the update, and backward does "
          "not gather them again"),
      key<&RunConfig::memory, &Memory::limit>(
          "memory.limit", any, loose, "bytes",
          "what the ranks of a host may take together (4GiB): a run that needs more is refused before it starts, with the "
          "settings that would save how much; null: no limit"),
      key<&RunConfig::memory, &Memory::offload_optimizer>(
          "memory.offload_optimizer", any, loose, "",
          "where the optimizer's state (master copies and slots) and gradients lie "
          "between uses: on the device, in the host's memory, or in "
          "a file in memory.nvme_path, read ahead of its use; the same bits"),
      key<&RunConfig::memory, &Memory::offload_params>("memory.offload_params", any, loose, "",
                                                       "where weights lie when no layer reads them, likewise (several ranks: "
                                                       "with memory.zero=3); memory.prefetch says how many "
                                                       "leases they are read ahead"),
      key<&RunConfig::memory, &Memory::offload_activations>(
          "memory.offload_activations", any, loose, "",
          "where what blocks keep for their backward pass lies until then, likewise; memory.recompute says what they keep"),
      key<&RunConfig::memory, &Memory::nvme_path>("memory.nvme_path", any, loose, "",
                                                  "folder on a fast disk for what is offloaded; its files are unlinked at once"),
      key<&RunConfig::memory, &Memory::tiles>(
          "memory.tiles", any, loose, "",
          "of memory.zero=3 and memory.offload_params: into how many tiles the matrix of a block's linear layer is cut, of its "
          "in-features x of its out-features (1x4), at multiples of 256: one is gathered or read after the other; the same bits"),
      key<&RunConfig::memory, &Memory::max_tile_bytes>(
          "memory.max_tile_bytes", Rule::between(0, kMany), loose, "bytes",
          "of memory.tiles: matrices of so many bytes, as a rank has them, and smaller ones stay whole"),
  };
}

}  // namespace lockstep::settings
