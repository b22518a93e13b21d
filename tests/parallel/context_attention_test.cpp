// The ways in which ranks that divide positions attend together, by themselves: what they make, what its gradient is, and what
// they send for it.

#include "parallel/context_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "comm/thread/thread_world.h"
#include "parallel/context/split_positions.h"
#include "support/documents.h"
#include "support/machine.h"
#include "support/ops.h"

namespace lockstep::parallel {
namespace {

using comm::Collective;
using comm::Purpose;
using comm::Traffic;
using layout::ContextMethod;
using test::HostTensor;

/// What is attended to, whole.
struct Task {
  std::int64_t samples = 2, positions = 11;
  layout::ShardedDims dims{.heads = 6, .kv_heads = 2, .head_size = 3, .heads_per_kv = 3};
  DType type = DType::f32;
  float dropped = 0.3F;
  bool reference = false;                  ///< kernels
  std::vector<std::int64_t> lengths = {};  ///< of documents; empty: samples are one

  HostTensor random(std::int64_t heads, std::uint32_t seed) const {
    return HostTensor::random({samples * positions, heads * dims.head_size}, seed, 2);
  }
};
struct Inputs {
  HostTensor q, k, v, d_o;
  explicit Inputs(const Task& task)
      : q(task.random(task.dims.heads, 1)),
        k(task.random(task.dims.kv_heads, 2)),
        v(task.random(task.dims.kv_heads, 3)),
        d_o(task.random(task.dims.heads, 4)) {}
};
struct Answer {
  HostTensor o, dq, dk, dv;
  Traffic forward, backward;  ///< of rank 0
};

void take_rows(HostTensor& whole, const Tensor& own, const std::vector<std::int64_t>& rows) {
  HostTensor wide(own.shape);
  const auto ops = ops::make_reference_ops();
  ops->elementwise().cast(wide, own);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor from = wide.tensor().slice_rows(static_cast<std::int64_t>(i), 1);
    std::ranges::copy(elements<float>(from), elements<float>(whole.tensor().slice_rows(rows[i], 1)).begin());
  }
}

/// Which positions each rank has.
std::vector<ops::Positions> parts_of(const Task& task, const layout::ParallelPlan& plan) {
  std::vector<ops::Positions> parts(static_cast<std::size_t>(plan.cp));
  split_all_positions(parts, task.positions);
  if (task.lengths.empty() || !splits_by_documents(plan.context)) return parts;
  support::Documents documents(task.lengths, task.samples);
  DocumentSplit(plan.cp).split(parts, task.positions, elements<const std::int32_t>(documents.starts()));
  return parts;
}

AttentionCall call_of(const Task& task, const ops::Positions& own) {
  AttentionCall call{.shape = {.samples = task.samples,
                               .queries = own.count(),
                               .keys = own.count(),
                               .key_rows = own.count(),
                               .heads = task.dims.heads,
                               .kv_heads = task.dims.kv_heads,
                               .head_size = task.dims.head_size},
                     .positions = own,
                     .dropout = {.p = task.dropped, .first_sample = 3, .index_stride = task.positions + 1}};
  ops::make_key(call.dropout.key, 7, 3, 1, ops::Site::attention_weights);
  return call;
}

/// One rank's share, on tensors of its own.
void attend(const Task& task, const layout::ParallelPlan& plan, const Inputs& in, comm::Communicator& world, Answer& answer) {
  support::Machine machine(1);
  if (task.reference) machine.ops = ops::make_reference_ops();
  world.attach(*machine.stream, machine.runtime->team());
  const std::vector<ops::Positions> parts = parts_of(task, plan);
  const ops::Positions own = parts[static_cast<std::size_t>(world.rank())];
  const std::unique_ptr<ContextAttention> attention = make_attention(plan, {.cp = world.rank()}, task.positions);
  const auto mine = [&](const HostTensor& whole) { return test::rows_of(whole, task.positions, own).as(task.type); };
  const HostTensor q = mine(in.q), k = mine(in.k), v = mine(in.v), d_o = mine(in.d_o), o = q, dq = q, dk = k, dv = v;
  Arena arena("attention", MemoryKind::activations);
  AttentionSaved saved;
  const AttentionSizes sizes{q.tensor().rows(), task.dims, task.type};
  attention->declare(arena, saved, sizes);
  attention->declare(arena, sizes);
  Ledger ledger;
  arena.commit(*machine.runtime, ledger);
  attention->connect(world);
  const AttentionTensors x{q, k, v, o}, d{dq, dk, dv, d_o};
  support::Documents documents(task.lengths.empty() ? std::vector{task.positions} : task.lengths, task.samples);
  AttentionCall call = call_of(task, own);
  if (!task.lengths.empty()) {
    call.starts = documents.starts();
    call.parts = parts;
  }
  const Traffic before = world.traffic();
  attention->forward(*machine.ops, x, saved, call);
  const Traffic between = world.traffic();
  attention->backward(*machine.ops, d, x, saved, call);
  if (world.rank() == 0) answer.forward = between - before, answer.backward = world.traffic() - between;
  const std::vector<std::int64_t> rows = test::rows_at(task.samples, task.positions, own);
  take_rows(answer.o, o, rows);
  take_rows(answer.dq, dq, rows);
  take_rows(answer.dk, dk, rows);
  take_rows(answer.dv, dv, rows);
}

Answer attend(const Task& task, const layout::ParallelPlan& plan, const Inputs& in) {
  Answer answer{in.q, in.q, in.k, in.k, {}, {}};
  comm::run_ranks(plan.cp, {.timeout = 60}, [&](comm::Communicator& world) { attend(task, plan, in, world, answer); });
  return answer;
}

std::vector<layout::ParallelPlan> plans() {
  std::vector<layout::ParallelPlan> all;
  for (const ContextMethod method : {ContextMethod::allgather, ContextMethod::ulysses, ContextMethod::ring}) {
    for (const int ranks : {2, 3, 5}) all.push_back({.cp = ranks, .context = method, .ranks_per_host = ranks});
  }
  for (const auto& [ranks, of_host] : {std::pair{4, 2}, {3, 1}, {3, 3}})
    all.push_back({.cp = ranks, .context = ContextMethod::ulysses_ring, .ranks_per_host = of_host});
  return all;
}

void expect_near(const Answer& a, const Answer& b, double tolerance) {
  EXPECT_LE(test::distance(a.o.values(), b.o.values()), tolerance);
  EXPECT_LE(test::distance(a.dq.values(), b.dq.values()), tolerance);
  EXPECT_LE(test::distance(a.dk.values(), b.dk.values()), tolerance);
  EXPECT_LE(test::distance(a.dv.values(), b.dv.values()), tolerance);
}

TEST(ContextMethods, MakeWhatOneRankMakes) {
  const std::vector<Task> tasks{{},
                                {.samples = 1, .positions = 260, .dropped = 0},
                                {.dims = {.heads = 5, .kv_heads = 5, .head_size = 8, .heads_per_kv = 1}},
                                {.positions = 140, .type = DType::bf16},
                                {.lengths = {1, 4, 3, 3}},
                                {.positions = 260, .lengths = {90, 1, 129, 40}},
                                {.positions = 140, .type = DType::bf16, .lengths = {63, 66, 11}}};
  for (const Task& task : tasks) {
    const Inputs in(task);
    const Answer one = attend(task, {}, in);
    for (const layout::ParallelPlan& plan : plans()) {
      SCOPED_TRACE(testing::Message() << task.positions << " positions, " << layout::describe(plan));
      expect_near(attend(task, plan, in), one, task.type == DType::bf16 ? 2e-2 : 5e-6);
    }
  }
}

TEST(ContextMethods, HaveTheGradientsOfFiniteDifferences) {
  const Task task{
      .samples = 1, .positions = 7, .dims = {.heads = 3, .kv_heads = 1, .head_size = 2, .heads_per_kv = 3}, .reference = true};
  for (const layout::ParallelPlan& plan : plans()) {
    if (plan.cp != 2) continue;
    SCOPED_TRACE(layout::describe(plan));
    Inputs in(task);
    const Answer answer = attend(task, plan, in);
    const auto loss = [&] { return test::inner(attend(task, plan, in).o, in.d_o); };
    test::expect_gradient(answer.dq, in.q, loss, 1e-2F, 5e-4);
    test::expect_gradient(answer.dk, in.k, loss, 1e-2F, 5e-4);
    test::expect_gradient(answer.dv, in.v, loss, 1e-2F, 5e-4);
  }
}

std::int64_t keys(const Traffic& traffic, Collective kind) { return traffic.at(Purpose::keys, kind).sent; }

/// Samples add up; dropout and the type of activations do not matter but for their size.
TEST(ContextMethods, SendWhatTheirFormulasSay) {
  const Task task{.positions = 24, .dims = {.heads = 6, .kv_heads = 6, .head_size = 4, .heads_per_kv = 1}, .type = DType::bf16};
  const std::int64_t rows = task.samples * task.positions, h = task.dims.attention_width(), k = task.dims.kv_width();
  const Inputs in(task);
  for (const std::int64_t n : {2, 3}) {
    const auto sent = [&](ContextMethod method) {
      return attend(task, {.cp = static_cast<int>(n), .context = method, .ranks_per_host = static_cast<int>(n)}, in);
    };
    const Answer gathering = sent(ContextMethod::allgather);
    EXPECT_EQ(keys(gathering.forward, Collective::all_gather), 2 * rows * k * (n - 1) / n * 2);
    EXPECT_EQ(keys(gathering.backward, Collective::reduce_scatter), 2 * rows * k * (n - 1) / n * 4);
    const Answer exchanging = sent(ContextMethod::ulysses);
    EXPECT_EQ(keys(exchanging.forward, Collective::all_to_all), 2 * (h + k) * rows / n * (n - 1) / n * 2);
    EXPECT_EQ(keys(exchanging.backward, Collective::all_to_all), 2 * (h + k) * rows / n * (n - 1) / n * 2);
    const Answer passing = sent(ContextMethod::ring);
    EXPECT_EQ(keys(passing.forward, Collective::send), 2 * rows * k * (n - 1) / n * 2);
    EXPECT_EQ(keys(passing.backward, Collective::send), 2 * rows * k * (n - 1) / n * 2 + 2 * rows * k * 4);
    EXPECT_EQ(passing.forward.total().sent, keys(passing.forward, Collective::send));
  }
}

// 8 ranks with 1K of 8K positions each get 16 of 128 heads for all of them.
TEST(ContextMethods, EightRanksExchangeAThousandPositionsForSixteenHeads) {
  const layout::ShardedDims dims{.heads = 128, .kv_heads = 128, .head_size = 1, .heads_per_kv = 1};
  support::Machine machine(1);
  for (int rank = 0; rank < 8; ++rank) {
    const auto attention = make_attention({.cp = 8, .context = ContextMethod::ulysses, .ranks_per_host = 8}, {.cp = rank}, 8192);
    const std::int64_t own = split_positions(8192, rank, 8).count();
    EXPECT_EQ(own, 1024);
    Arena arena("attention", MemoryKind::activations);
    AttentionSaved saved;
    attention->declare(arena, saved, {own, dims, DType::f32});
    Ledger ledger;
    arena.commit(*machine.runtime, ledger);
    EXPECT_EQ(saved.beside.q.shape, (Shape{8192, 16}));
    EXPECT_EQ(saved.beside.k.shape, (Shape{8192, 16}));
  }
}

/// A host's ranks exchange what they have; the keys of a part of the heads go round the hosts.
TEST(ContextMethods, SendKeysOfFewerHeadsBetweenHosts) {
  const Task task{.positions = 24, .dims = {.heads = 6, .kv_heads = 6, .head_size = 4, .heads_per_kv = 1}};
  const std::int64_t rows = task.samples * task.positions, h = task.dims.attention_width(), k = task.dims.kv_width();
  const Answer both = attend(task, {.cp = 6, .context = ContextMethod::ulysses_ring, .ranks_per_host = 3}, Inputs(task));
  EXPECT_EQ(keys(both.forward, Collective::all_to_all), 2 * (h + k) * rows / 6 * 2 / 3 * 4);
  EXPECT_EQ(keys(both.forward, Collective::send), 2 * (rows / 2) * (k / 3) * 4);
  EXPECT_EQ(keys(both.backward, Collective::send), 2 * (rows / 2) * (k / 3) * 4 + 2 * 2 * (rows / 2) * (k / 3) * 4);
}

TEST(ContextMethods, AreOneWhereHostsDoNotMatter) {
  const Task task;
  const Inputs in(task);
  const auto by_hosts = [&](int of_host) {
    return attend(task, {.cp = 3, .context = ContextMethod::ulysses_ring, .ranks_per_host = of_host}, in);
  };
  expect_near(by_hosts(3), attend(task, {.cp = 3, .context = ContextMethod::ulysses, .ranks_per_host = 3}, in), 0);
  expect_near(by_hosts(1), attend(task, {.cp = 3, .context = ContextMethod::ring, .ranks_per_host = 3}, in), 0);
}

}  // namespace
}  // namespace lockstep::parallel
