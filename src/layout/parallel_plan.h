#pragma once

// How a run is laid out over its ranks: degrees of each kind of parallelism, what is cut over whom, and where it lies. A plan is
// plain data: it can be checked, printed and costed for a thousand ranks without one of them.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "layout/pipeline/action_table.h"
#include "layout/tiles.h"

namespace lockstep::layout {

class PlanGrammar;  // layout/plan_fields.h
const PlanGrammar& settings_grammar();

/// When gradients are reduced over ranks (numerics.md section 3.3). `step` reduces once a step: ((a0 + a1) + (b0 + b1)).
/// `microbatch` reduces each micro-batch: ((a0 + b0) + (a1 + b1)). With one micro-batch they are the same.
enum class ReduceEvery : std::uint8_t { step, microbatch };

/// Over which of the ranks that share the model's parameters (data x context) a kind of state is cut. `none`: each holds all.
/// `host`: over those of one host, whole on every host (HYBRID_SHARD, hpZ).
enum class CutOver : std::uint8_t { none, host, all };
/// Where a kind of state lies between its uses.
enum class Tier : std::uint8_t { device, host, disk };

struct Placement {
  CutOver cut = CutOver::none;
  Tier tier = Tier::device;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Which activations blocks make again in their backward pass instead of keeping them (Chen et al. 2016); with the same bits.
struct Recompute {
  enum class Kind : std::uint8_t {
    none,
    selective,  ///< what goes into the feed-forward layer's activation: the widest tensor, for one product
    full        ///< all but the input of each `every`-th block of a chunk
  } kind = Kind::none;
  int every = 1;  ///< full: blocks that are run again together
  friend bool operator==(const Recompute&, const Recompute&) = default;
};
/// Reads "none", "selective", "full" or "every:4". Returns nothing for another text.
std::optional<Recompute> recompute_from(std::string_view text);
std::string to_string(const Recompute& recompute);

/// How much of a block is leased at a time: all of it, or one sub-layer, attention or feed-forward, after the other. Leases of
/// sub-layers gather less at a time.
enum class LeaseSize : std::uint8_t { block, sub_layer };

/// How ranks that divide a sequence's positions attend together.
enum class ContextMethod : std::uint8_t {
  allgather,  ///< every rank gets all keys and values (Llama Team 2024)
  ulysses,    ///< positions are exchanged for heads (Jacobs et al. 2023)
  ring,       ///< keys and values pass from rank to rank (Liu et al. 2023)
  /// Positions are exchanged for heads inside each host, and keys pass round a ring of hosts. It is a ring where a host has one
  /// of the ranks, ulysses where it has all.
  ulysses_ring
};

/// How the weights of attention lie in memory between forward and backward pass.
enum class AttentionWeights : std::uint8_t {
  tiled,  ///< made a block of keys at a time, and again in the backward pass (Dao et al. 2022)
  whole,  ///< each block keeps them, of every query for every key
  masked  ///< whole, and beside them a mask that hides later keys
};

/// "allgather", "ulysses", "ring", "ulysses+ring".
std::string_view to_string(ContextMethod method);

struct ParallelPlan {
  int dp = 1;      ///< data-parallel degree
  int tp = 1;      ///< tensor
  int cp = 1;      ///< context
  int pp = 1;      ///< pipeline
  int chunks = 1;  ///< of the model on each pipeline rank (virtual stages)
  ContextMethod context = ContextMethod::allgather;
  bool sequence = false;                  ///< tokens are cut over tp where tensor parallelism would replicate work
  std::string schedule = "1f1b";          ///< a name of layout/pipeline/schedules, or where `table` came from
  std::optional<ActionTable> table = {};  ///< the passes, where they are not those of a named schedule
  std::vector<std::int64_t> split = {};   ///< blocks of each stage; empty: as even as they can be
  int microbatches = 1;                   ///< of a step, on each data-parallel rank
  ReduceEvery reduce = ReduceEvery::step;
  /// `optimizer`: master copies and the optimizer's own state. Gradients lie where it lies.
  Placement parameters = {}, gradients = {}, optimizer = {};
  Tier activations = Tier::device;    ///< what blocks keep for their backward pass
  int prefetch = 1;                   ///< leases of weights that are cut, gathered before they are asked for
  int kept = 0;                       ///< blocks' weights that are gathered and stay as long as it pays, beside those in use
  bool reshard_after_forward = true;  ///< false: what was gathered stays until the weights change
  Recompute recompute = {};
  AttentionWeights attention = AttentionWeights::tiled;  ///< other than tiled only where ranks have all positions
  Tiles tiles = {};                                      ///< of blocks' linear layers, where leases gather or bring weights
  LeaseSize leases = LeaseSize::block;
  int ranks_per_host = 1;  ///< neighbouring ranks that share a host; 0: hosts have different numbers of them
  bool allow_tp_across_hosts = false;
  bool canonical = false;  ///< sums have an order that no degree changes (canonical_grid.h)

  int ranks() const { return static_cast<int>(std::min<std::int64_t>(std::int64_t{dp} * tp * cp * pp, 1 << 30)); }
  /// Parts that the model's blocks are cut into.
  int stages() const { return table ? table->map.stages() : pp * chunks; }
  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// Cuts over `over` what ZeRO does at `level`: from 1 on the optimizer's state, from 2 on gradients too, at 3 parameters too.
void set_zero_level(ParallelPlan& plan, int level, CutOver over = CutOver::all);
/// The level of ZeRO that the plan has, as set_zero_level() sets it.
int zero_level(const ParallelPlan& plan);

/// The number of hosts that the ranks which divide a sequence lie on, with as many ranks on each. 0: the ranks do not lie so.
int context_hosts(const ParallelPlan& plan);

/// What a plan cuts, of the model and the batch.
struct PlanLimits {
  std::int64_t layers = 1, heads = 1, ffn_width = 1, vocabulary = 1, positions = 1;
  std::int64_t in_features = 1, out_features = 1;  ///< the fewest that a linear layer of a block has
  std::int64_t kv_heads = 0;                       ///< 0: as many as heads
  bool adapters = false;                           ///< adapters alone are trained
};

/// Everything that is wrong with the plan for `ranks` ranks, each problem with a remedy, in the words of `say`. Empty when
/// nothing is wrong.
std::vector<Problem> check(const ParallelPlan& plan, const PlanLimits& limits, std::int64_t ranks,
                           const PlanGrammar& say = settings_grammar());

/// Says how the plan differs from one rank that holds everything: "dp=2 tp=4 pp=2 (1f1b) sequence". It is "one rank" when nothing
/// differs.
std::string describe(const ParallelPlan& plan);

}  // namespace lockstep::layout
