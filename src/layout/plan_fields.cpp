#include "layout/plan_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace lockstep::layout {
namespace {

using Rule = ValueRule;

template <class Member>
Value<PlanWish> parallel(Rule rule, Member ParallelWish::* member) {
  return value_of<PlanWish>(std::move(rule), [member](auto& wish) -> auto& { return wish.parallel.*member; });
}
template <class Member>
Value<PlanWish> memory(Rule rule, Member MemoryWish::* member) {
  return value_of<PlanWish>(std::move(rule), [member](auto& wish) -> auto& { return wish.memory.*member; });
}
template <class Member>
Value<PlanWish> own(Rule rule, Member PlanWish::* member) {
  return value_of<PlanWish>(std::move(rule), [member](auto& wish) -> auto& { return wish.*member; });
}

constexpr std::int64_t most_ranks = 64;  // of a degree in the words of a layout
constexpr std::int64_t most_started = 1 << 20;

std::vector<FieldRow> degree_rows() {
  using enum PlanField;
  const Rule any = Rule::any();
  return {
      {dp, "parallel.dp", "ranks",
       "groups of ranks that train on samples of their own (data parallelism); null: what the other degrees leave of the ranks",
       parallel(Rule::between(1, most_started), &ParallelWish::dp), 10, "dp", "data-parallel ranks (1)", "", most_ranks},
      {tp, "parallel.tp", "ranks",
       "that divide every layer among them by heads, features and tokens of the vocabulary (tensor parallelism)",
       parallel(Rule::between(1, 1024), &ParallelWish::tp), 20, "tp", "tensor-parallel ranks, which split layers (1)", "",
       most_ranks},
      {cp, "parallel.cp", "ranks",
       "that divide the positions of every sequence among them, each a part from the front and one from the back (context "
       "parallelism)",
       parallel(Rule::between(1, 1024), &ParallelWish::cp), 40, "cp", "context-parallel ranks, which split every sequence (1)",
       "", most_ranks},
      {context, "parallel.context", "",
       "of parallel.cp: how these ranks attend together. Each gets all keys and values, or all positions of some heads, or the "
       "others' keys as they pass by. Or positions are exchanged for heads inside a host, and keys pass by from other hosts",
       parallel(any, &ParallelWish::context), 50, "context",
       "of cp: keys are gathered, positions exchanged for heads, keys passed round, or both by hosts (allgather)", "", 0, false,
       cp},
      {sequence, "parallel.sequence", "",
       "of parallel.tp: these ranks divide the positions where each would do the same work (norms, dropout, residuals)",
       parallel(any, &ParallelWish::sequence), 30, "sequence", "of tp: tokens are split where layers are not", "", 0, true},
      {allow_tp_across_hosts, "parallel.allow_tp_across_hosts", "",
       "of parallel.tp: layers may be divided over several hosts, whose network then carries every layer's sums",
       parallel(any, &ParallelWish::allow_tp_across_hosts), 25},
      {pp, "parallel.pp", "ranks",
       "that divide the model's layers among them, each with its stages (pipeline parallelism); optimizer.gas micro-batches go "
       "through all of them",
       parallel(Rule::between(1, 512), &ParallelWish::pp), 60, "pp",
       "pipeline ranks, which divide the blocks, and who works on what when (1, 1f1b)", "N or N:SCHEDULE", most_ranks},
      {schedule, "parallel.schedule", "",
       "of parallel.pp, who works on what when: gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-v, dualpipe-v or "
       "file:TABLE.csv (lockstep plan draws them); the bits are the same",
       parallel(any, &ParallelWish::schedule), 65, "", "", "", 0, false, pp},
      {virtual_stages, "parallel.virtual_stages", "stages",
       "of parallel.pp: parts of the model that each rank has; null: 2 where the schedule has several, else 1",
       parallel(Rule::between(1, 64), &ParallelWish::virtual_stages), 70, "virtual_stages",
       "of pp: stages of each rank (2 where the schedule has several)"},
      {split, "parallel.split", "layers",
       "of parallel.pp: layers of each stage, as 4,4,3,1; null: so that all ranks have as much to compute, the head included",
       parallel(any, &ParallelWish::split), 80, "split", "of pp: blocks of each stage (as even as they can be)", "N+N+..."},
  };
}

std::vector<FieldRow> reduction_rows() {
  using enum PlanField;
  const Rule any = Rule::any(), positive = Rule::between(1, kMany);
  return {
      {reduce,
       "parallel.reduce",
       "",
       "when gradients are added over ranks: once a step, or each micro-batch (other bits)",
       parallel(any, &ParallelWish::reduce),
       100,
       "reduce",
       "when gradients are added over ranks (step)",
       "",
       0,
       false,
       {},
       FieldBits::other},
      {bucket_bytes, "parallel.bucket_bytes", "bytes", "neighbouring units share a reduction until they have as many",
       parallel(positive, &ParallelWish::bucket_bytes), 200, "bucket", "of gradients that are added together (in verify 65536)",
       "BYTES", 1 << 30},
      {overlap, "parallel.overlap", "", "reduce while backward goes on; false: wait, with the same bits",
       parallel(any, &ParallelWish::overlap), 190, "overlap", "gradients are added while backward goes on (true)"},
      {ranks_per_host, "parallel.ranks_per_host", "ranks",
       "that count as those of one host, for what is laid out by hosts; null: NGPU_PER_HOST, or as they were started",
       parallel(Rule::between(1, most_started), &ParallelWish::ranks_per_host), 130, "ranks_per_host",
       "that count as one host's (2 x tp where hosts matter)", "", most_ranks},
  };
}

std::vector<FieldRow> memory_rows() {
  using enum PlanField;
  const Rule any = Rule::any();
  return {
      {recompute, "memory.recompute", "",
       "what blocks make again in their backward pass instead of keeping it; the bits are the same. It is none, selective (what "
       "goes into the MLP's activation), full (all but their input) or every:k (all but the input of each k-th block)",
       memory(any, &MemoryWish::recompute), 160, "recompute", "what blocks make again in backward (none)",
       "none|selective|full|every:K"},
      {zero, "memory.zero", "",
       "what ranks share out instead of each keeping it (ZeRO): 0: nothing, 1: the optimizer's state, 2: gradients too, 3: "
       "weights too. The bits are the same. Null: what train.backend names",
       memory(Rule::between(0, 3), &MemoryWish::zero), 110, "zero",
       "what ranks cut: 1 the optimizer's state, 2 gradients too, 3 weights too (0)", "0..3"},
      {zero_group, "memory.zero_group", "",
       "of memory.zero: all ranks share out, or those of each host by themselves (HYBRID_SHARD, hpZ; parallel.ranks_per_host)",
       memory(any, &MemoryWish::zero_group), 120, "zero_group", "over whom: all ranks, or those of a host (all)"},
      {prefetch, "memory.prefetch", "leases",
       "of memory.zero=3: weights that are gathered before they are needed; each takes the memory of a block",
       memory(Rule::between(0, 64), &MemoryWish::prefetch), 140, "prefetch", "of zero=3: leases gathered ahead (1)"},
      {reshard, "memory.reshard_after_forward", "",
       "of memory.zero=3: gathered weights make room for the next ones; false: they stay until the update, and backward does "
       "not gather them again",
       memory(any, &MemoryWish::reshard_after_forward), 150, "reshard", "of zero=3: gathered weights go after forward (true)"},
      {offload_optimizer, "memory.offload_optimizer", "",
       "where the optimizer's state (master copies and slots) and gradients lie between uses; the same bits. On the device, in "
       "the host's memory, or in a file in memory.nvme_path, read ahead of its use",
       memory(any, &MemoryWish::offload_optimizer), 180},
      {offload_params, "memory.offload_params", "",
       "where weights lie when no layer reads them, likewise (several ranks: with memory.zero=3); memory.prefetch says how many "
       "leases they are read ahead",
       memory(any, &MemoryWish::offload_params), 181},
      {offload_activations, "memory.offload_activations", "",
       "where what blocks keep for their backward pass lies until then, likewise; memory.recompute says what they keep",
       memory(any, &MemoryWish::offload_activations), 182},
      {tiles, "memory.tiles", "",
       "of memory.zero=3 and memory.offload_params: into how many tiles the matrix of a block's linear layer is cut; the same "
       "bits. Tiles of in-features x tiles of out-features (1x4), cut at multiples of 256; one is gathered or read after the "
       "other",
       memory(any, &MemoryWish::tiles), 170, "tiles",
       "of zero=3 and offload=params: tiles of linear layers' matrices, leased one by one (1x1)", "INxOUT"},
      {max_tile_bytes, "memory.max_tile_bytes", "bytes",
       "of memory.tiles: matrices of so many bytes, as a rank has them, and smaller ones stay whole",
       memory(Rule::between(0, kMany), &MemoryWish::max_tile_bytes), 175},
  };
}

std::vector<FieldRow> other_rows() {
  using enum PlanField;
  return {
      {gas, "optimizer.gas", "micro-batches", "gradient accumulation: micro-batches of one step",
       own(Rule::between(1, most_gas), &PlanWish::gas), 90, "gas",
       "micro-batches of a step, on each data-parallel rank (in verify those that make 4 on all; as pp needs)", "", 1024},
      {canonical,
       "numerics.canonical",
       "",
       "sums that a layout may divide are made by 8 fixed ranges, which are added as a tree; takes time, and memory for "
       "gradients. At one global batch parallel.tp, parallel.sequence, parallel.cp and parallel.dp x optimizer.gas change no bit",
       own(Rule::any(), &PlanWish::canonical),
       210,
       "canonical",
       "sums by fixed ranges, in what is compared with too: dp, gas, tp, sequence and cp promise bits as well",
       "",
       0,
       true,
       {},
       FieldBits::another_run},
  };
}

class SettingsGrammar : public PlanGrammar {
 public:
  std::string name(PlanField field) const override { return std::string(row_of(field).setting); }
  std::string has(PlanField field, std::string_view value) const override { return fmt::format("{} = {}", name(field), value); }
  std::string set(PlanField field, std::string_view value) const override { return fmt::format("{}={}", name(field), value); }
  std::string unset(PlanField field) const override { return set(field, "null"); }
  std::string set_layers(std::int64_t layers) const override { return fmt::format("model.n_layer={}", layers); }
  std::string positions() const override { return "model.block_size"; }
  std::string unserved() const override { return "train.backend=DDP"; }
};

}  // namespace

std::span<const FieldRow> plan_fields() {
  static const std::vector<FieldRow> all = [] {
    std::vector<FieldRow> table;
    for (const auto& part : {degree_rows(), reduction_rows(), memory_rows(), other_rows()})
      table.insert(table.end(), part.begin(), part.end());
    return table;
  }();
  return all;
}

std::vector<const FieldRow*> listed_fields() {
  std::vector<const FieldRow*> rows;
  for (const FieldRow& row : plan_fields()) rows.push_back(&row);
  std::ranges::sort(rows, {}, &FieldRow::place);
  return rows;
}

const FieldRow& row_of(PlanField field) {
  const FieldRow& row = plan_fields()[static_cast<std::size_t>(field)];
  ensure(row.field == field, "rows stand in the order of the fields");
  return row;
}

const PlanGrammar& settings_grammar() {
  static const SettingsGrammar grammar;
  return grammar;
}

std::vector<Problem> check_served(const PlanWish& wish, const PlanGrammar& say, bool adapters) {
  constexpr auto reasons = std::to_array<std::pair<PlanField, std::string_view>>(
      {{PlanField::tp, "parameter servers serve workers that have whole layers"},
       {PlanField::sequence, "workers of parameter servers have whole sequences"},
       {PlanField::cp, "parameter servers serve workers that have whole sequences"},
       {PlanField::pp, "parameter servers serve workers that have all layers"},
       {PlanField::reduce, "parameter servers get one gradient a step"},
       {PlanField::zero, "parameter servers have the optimizer's state, and their workers all weights"},
       {PlanField::offload_optimizer, "parameter servers have the optimizer's state"},
       {PlanField::offload_params, "workers of parameter servers keep all weights in memory"},
       {PlanField::canonical, "parameter servers add up gradients by workers, not by the fixed ranges of canonical sums"}});
  PlanWish usual;
  usual.memory.zero = 0;
  std::vector<Problem> problems;
  if (adapters) {
    problems.push_back({"adapter.rank: parameter servers have the optimizer's state of all weights, not of adapters alone",
                        fmt::format("{}, or adapter.rank=0", say.unserved())});
  }
  for (const auto& [field, why] : reasons) {
    const auto text = [&row = row_of(field)](const PlanWish& of) {
      const Json value = row.value.get(of);
      return value.is_string() ? value.string() : value.dump();
    };
    const std::string value = text(wish), without = text(usual);
    if (value == without || value == "null") continue;
    problems.push_back({fmt::format("{}: {}", say.has(field, std::string_view(value)), why),
                        fmt::format("{}, or {}", say.unserved(), say.set(field, std::string_view(without)))});
  }
  return problems;
}

}  // namespace lockstep::layout
