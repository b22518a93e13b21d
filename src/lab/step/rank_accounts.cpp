#include "lab/step/rank_accounts.h"

#include <algorithm>

#include "layout/mesh.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/simulation.h"

namespace lockstep::lab {
namespace {

using layout::Action;
using train::ChunkSeconds;

constexpr std::size_t of_rank = 4, of_chunk = 4;  // numbers that travel

std::vector<double> written(const RankAccount& account) {
  std::vector<double> numbers{account.kernels, account.ranks, account.rest, account.list.all};
  for (const ChunkSeconds& chunk : account.list.chunks)
    numbers.insert(numbers.end(), {chunk.forward, chunk.backward, chunk.input_backward, chunk.weight_backward});
  return numbers;
}

RankAccount read(std::span<const double> numbers) {
  RankAccount account{.kernels = numbers[0], .ranks = numbers[1], .rest = numbers[2], .list = {.all = numbers[3]}};
  for (std::size_t at = of_rank; at < numbers.size(); at += of_chunk)
    account.list.chunks.push_back({numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]});
  return account;
}

/// The means over the ranks at one place of the pipeline.
train::ListSeconds mean_list(const std::vector<RankAccount>& accounts, const layout::Mesh& mesh, int place) {
  train::ListSeconds mean;
  const double ranks = static_cast<double>(mesh.ranks()) / mesh.plan().pp;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (mesh.coordinates(rank).pp != place) continue;
    const train::ListSeconds& list = accounts[static_cast<std::size_t>(rank)].list;
    mean.all += list.all / ranks;
    mean.chunks.resize(list.chunks.size());
    for (std::size_t c = 0; c < list.chunks.size(); ++c) {
      const ChunkSeconds& own = list.chunks[c];
      ChunkSeconds& of = mean.chunks[c];
      of.forward += own.forward / ranks;
      of.backward += own.backward / ranks;
      of.input_backward += own.input_backward / ranks;
      of.weight_backward += own.weight_backward / ranks;
    }
  }
  return mean;
}

/// Seconds of one micro-batch in a chunk. Where some backward passes are whole and others in halves, the halves stand for both.
layout::PassSeconds pass_seconds(const ChunkSeconds& chunk, const std::vector<Action>& list, int number) {
  const auto of_one = [&](double seconds, Action::Kind kind) {
    const auto passes =
        std::ranges::count_if(list, [&](const Action& action) { return action.kind == kind && action.chunk == number; });
    return passes == 0 ? 0 : seconds / static_cast<double>(passes);
  };
  const double halves = of_one(chunk.input_backward, Action::Kind::input_backward);
  return {.forward = of_one(chunk.forward, Action::Kind::forward),
          .input_backward = halves > 0 ? halves : of_one(chunk.backward, Action::Kind::backward),
          .weight_backward = of_one(chunk.weight_backward, Action::Kind::weight_backward)};
}

}  // namespace

std::vector<RankAccount> gather_accounts(const RankAccount& own, comm::Communicator& world) {
  std::vector<double> mine = written(own), all(world.rank() == 0 ? mine.size() * static_cast<std::size_t>(world.size()) : 0);
  world.host().gather(view(std::span(all), Shape{std::ssize(all)}), view(std::span(mine), Shape{std::ssize(mine)}), 0).wait();
  std::vector<RankAccount> accounts;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) accounts.push_back(read(std::span(all).subspan(at, mine.size())));
  return accounts;
}

std::vector<StageAccount> stage_accounts(const std::vector<RankAccount>& accounts, const layout::ParallelPlan& plan) {
  if (plan.pp == 1) return {};
  const layout::Mesh mesh(plan);
  const layout::StageMap map = layout::stage_map(plan);
  const std::vector<std::vector<Action>> actions = layout::actions_of(plan);
  std::vector<StageAccount> stages(static_cast<std::size_t>(plan.pp));
  std::vector<layout::PassSeconds> passes(static_cast<std::size_t>(map.stages()));
  double slowest = 0;
  for (int place = 0; place < plan.pp; ++place) {
    const train::ListSeconds list = mean_list(accounts, mesh, place);
    StageAccount& own = stages[static_cast<std::size_t>(place)];
    own.stages = map.stages_of(place);
    slowest = std::max(slowest, list.all);
    for (std::size_t c = 0; c < list.chunks.size(); ++c) {
      own.passes += list.chunks[c].all();
      passes[static_cast<std::size_t>(own.stages[c])] =
          pass_seconds(list.chunks[c], actions[static_cast<std::size_t>(place)], static_cast<int>(c));
    }
  }
  const layout::Timeline measured = layout::simulate(actions, map, passes), equal = layout::simulate(actions, map);
  for (int place = 0; place < plan.pp; ++place) {
    StageAccount& own = stages[static_cast<std::size_t>(place)];
    own.list = slowest;
    own.waiting = slowest > 0 ? 1 - own.passes / slowest : 0;
    own.simulated = layout::bubble(measured, place);
    own.equal = layout::bubble(equal, place);
  }
  return stages;
}

}  // namespace lockstep::lab
