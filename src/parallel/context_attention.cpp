#include "parallel/context_attention.h"

#include "layout/canonical_grid.h"
#include "parallel/context/canonical_gathering.h"
#include "parallel/context/exchanging_attention.h"
#include "parallel/context/gathering_attention.h"
#include "parallel/context/materialised_attention.h"
#include "parallel/context/ring_attention.h"

namespace lockstep::parallel {
namespace {

static_assert(ops::most_head_ranges == layout::canonical_ranges);

/// Canonical mode (numerics.md section 3.8): gradients of a key/value head are sums over the heads that read it, by ranges of the
/// model's heads. These are the parts of a rank's heads that are summed by themselves; none where each of its key/value heads has
/// one.
std::vector<ops::HeadPart> head_parts(const layout::ShardedDims& dims) {
  std::vector<ops::HeadPart> parts;
  int range = 0;
  for (std::int64_t head = 0; head < dims.heads; ++head) {
    const std::int64_t kv_head = dims.kv_head_of(head);
    const int before = range;
    while (layout::canonical_range(dims.all_heads, range).end() <= dims.first_head + head) ++range;
    if (!parts.empty() && parts.back().kv_head == kv_head && range == before) {
      ++parts.back().count;
    } else {
      parts.push_back({kv_head, head, 1, range});
    }
  }
  if (std::ssize(parts) == dims.kv_heads) parts.clear();
  return parts;
}

class Local final : public ContextAttention {
 public:
  explicit Local(bool canonical) : canonical_(canonical) {}
  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override {
    arena.declare(saved.lse, "lse", Shape{sizes.rows, sizes.dims.heads}, DType::f32);
  }
  void declare(Arena& arena, const AttentionSizes& sizes) override {
    const layout::ShardedDims& dims = sizes.dims;
    arena.declare(delta_, "delta", Shape{sizes.rows, ops::delta_columns(dims.heads, dims.head_size, sizes.type)}, DType::f32);
    if (canonical_) parts_ = head_parts(dims);
    if (parts_.empty()) return;
    const Shape sums{2, sizes.rows, std::ssize(parts_) * dims.head_size};
    arena.declare(part_sums_, "gradients of keys by ranges of heads", sums, DType::f32);
  }
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override {
    demand_all_positions(call);
    ops.attention().forward({.o = x.o,
                             .lse = lse(saved, call),
                             .q = x.q,
                             .k = x.k,
                             .v = x.v,
                             .shape = call.shape,
                             .dropout = call.dropout,
                             .starts = call.starts});
  }
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override {
    demand_all_positions(call);
    ops.attention().backward({.dq = d.q,
                              .dk = d.k,
                              .dv = d.v,
                              .delta = delta_.slice_rows(0, x.q.rows()),
                              .d_o = d.o,
                              .o = x.o,
                              .lse = lse(saved, call),
                              .q = x.q,
                              .k = x.k,
                              .v = x.v,
                              .shape = call.shape,
                              .dropout = call.dropout,
                              .starts = call.starts,
                              .parts = parts_,
                              .part_sums = part_sums(call)});
  }

 private:
  static Tensor lse(const AttentionSaved& saved, const AttentionCall& call) {
    return saved.lse.flat(0, call.shape.samples * call.shape.heads * call.shape.queries);
  }
  Tensor part_sums(const AttentionCall& call) const {
    const std::int64_t rows = call.shape.samples * call.shape.keys;
    return parts_.empty() ? Tensor{} : part_sums_.flat(0, 2 * rows * std::ssize(parts_) * call.shape.head_size);
  }
  bool canonical_;
  std::vector<ops::HeadPart> parts_;
  Tensor delta_;      ///< [R, ops::delta_columns] f32
  Tensor part_sums_;  ///< [2, R, parts * D] f32
};

}  // namespace

std::unique_ptr<ContextAttention> make_local_attention(bool canonical) { return std::make_unique<Local>(canonical); }

std::unique_ptr<ContextAttention> make_attention(const layout::ParallelPlan& plan, const layout::Coordinates& at,
                                                 std::int64_t positions) {
  if (plan.attention != layout::AttentionWeights::tiled) {
    ensure(plan.cp == 1 && !plan.canonical, "whole weights are of all positions of samples, and not summed by ranges");
    return std::make_unique<MaterialisedAttention>(positions, plan.attention == layout::AttentionWeights::masked);
  }
  if (plan.cp == 1) return make_local_attention(plan.canonical);
  switch (plan.context) {
    case layout::ContextMethod::allgather:
      if (plan.canonical) return std::make_unique<CanonicalGathering>(positions, at.cp, plan.cp);
      return std::make_unique<GatheringAttention>(positions, at.cp, plan.cp);
    case layout::ContextMethod::ulysses:
      return std::make_unique<ExchangingAttention>(positions, at.cp, plan.cp, 1, plan.canonical);
    case layout::ContextMethod::ring:
      return std::make_unique<RingAttention>(positions, at.cp, plan.cp);
    case layout::ContextMethod::ulysses_ring: {
      const int hosts = layout::context_hosts(plan);
      ensure(hosts > 0, "ranks that divide a sequence lie evenly on hosts");
      if (hosts == plan.cp) return std::make_unique<RingAttention>(positions, at.cp, plan.cp);
      return std::make_unique<ExchangingAttention>(positions, at.cp, plan.cp, hosts);
    }
  }
  throw BrokenRule("a plan names a way of context parallelism");
}

}  // namespace lockstep::parallel
