#include "lab/collectives/collective_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/checked.h"
#include "base/error.h"
#include "base/timer.h"
#include "comm/text.h"
#include "io/file.h"

namespace lockstep::lab {
namespace {

using comm::Collective;

constexpr std::array collectives{Collective::all_reduce,     Collective::reduce, Collective::broadcast, Collective::all_gather,
                                 Collective::reduce_scatter, Collective::gather, Collective::scatter,   Collective::all_to_all,
                                 Collective::send,           Collective::barrier};
constexpr std::int64_t tile = std::int64_t{1} << 16;  // elements

// Element `index` of what `rank` gives: small whole numbers, so that sums are exact in any order.
float value_of(int rank, std::int64_t index) { return static_cast<float>((rank + 1) * static_cast<int>((index & 7) + 1)); }

float sum_of(int ranks, std::int64_t index) {
  return static_cast<float>(ranks * (ranks + 1) / 2 * static_cast<int>((index & 7) + 1));
}

template <class Work>
void in_tiles(Team& team, std::int64_t count, const Work& work) {
  team.for_each(div_up(count, tile), [&](std::int64_t i, int) { work(i * tile, std::min(count, (i + 1) * tile)); });
}

std::span<float> floats(const Memory& memory, std::int64_t count) {
  return {reinterpret_cast<float*>(memory.data()), static_cast<std::size_t>(count)};
}

Tensor tensor(std::span<float> values) { return view(values, Shape{std::ssize(values)}); }

}  // namespace

std::span<const Collective> tried_collectives() { return collectives; }

Collective collective_from_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Collective op : collectives) {
    if (name_of(op) == name) return op;
    names.push_back(name_of(op));
  }
  throw UserError(fmt::format("unknown collective '{}'", name), fmt::format("choose one of {}", fmt::join(names, ", ")));
}

std::int64_t trial_bytes(Collective op, std::int64_t bytes, int ranks) {
  switch (op) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      return bytes;
    case Collective::all_to_all:
    case Collective::send:
      return 2 * bytes;
    case Collective::barrier:
      return 0;
    default:
      return bytes + div_up(bytes, ranks);
  }
}

CollectiveTrial::CollectiveTrial(Collective op, int root, std::int64_t most_elements, comm::Communicator& world, Team& team,
                                 MemorySource& memory)
    : op_(op), root_(root), world_(world), team_(team), counts_(static_cast<std::size_t>(world.size())) {
  if (op == Collective::barrier) return;
  MemorySource& source = world.window(memory);
  const std::int64_t bytes = most_elements * static_cast<std::int64_t>(sizeof(float));
  whole_ = source.allocate(static_cast<std::size_t>(bytes));
  const std::int64_t other = trial_bytes(op, bytes, world.size()) - bytes;
  if (other > 0) other_ = source.allocate(static_cast<std::size_t>(other));
}

bool CollectiveTrial::has_root() const {
  return op_ == Collective::reduce || op_ == Collective::broadcast || op_ == Collective::gather || op_ == Collective::scatter;
}

std::span<float> CollectiveTrial::whole() const { return floats(whole_, elements_); }

std::span<float> CollectiveTrial::part() const {
  const bool whole = op_ == Collective::all_to_all || op_ == Collective::send;
  return floats(other_, whole ? elements_ : elements_ / world_.size());
}

std::span<const float> CollectiveTrial::given() const {
  switch (op_) {
    case Collective::all_gather:
    case Collective::gather:
      return part();
    case Collective::broadcast:
    case Collective::scatter:
      return world_.rank() == root_ ? whole() : std::span<float>{};
    case Collective::send:
      return world_.size() > 1 ? whole() : std::span<float>{};
    default:
      return whole();
  }
}

std::span<const float> CollectiveTrial::got() const {
  switch (op_) {
    case Collective::send:
      return world_.size() > 1 ? part() : std::span<float>{};
    case Collective::reduce:
    case Collective::gather:
      return world_.rank() == root_ ? whole() : std::span<float>{};
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return part();
    default:
      return whole();
  }
}

void CollectiveTrial::fill(std::int64_t elements) {
  ensure(elements % world_.size() == 0, "the payload divides by the ranks");
  elements_ = op_ == Collective::barrier ? 0 : elements;
  if (elements_ == 0) return;
  std::ranges::fill(counts_, elements / world_.size());
  const auto set = [&](std::span<float> values, auto value) {
    in_tiles(team_, std::ssize(values), [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) values[static_cast<std::size_t>(i)] = value(i);
    });
  };
  const int rank = world_.rank();
  const std::span<const float> mine = given();
  const auto own = [rank](std::int64_t i) { return value_of(rank, i); };
  const auto nothing = [](std::int64_t) { return 0.0F; };
  mine.data() == whole().data() ? set(whole(), own) : set(whole(), nothing);
  if (other_.data() != nullptr) mine.data() == part().data() ? set(part(), own) : set(part(), nothing);
}

void CollectiveTrial::run() {
  using comm::Reduction;
  switch (op_) {
    case Collective::all_reduce:
      return world_.all_reduce(tensor(whole()), Reduction::sum).wait();
    case Collective::reduce:
      return world_.reduce(tensor(whole()), Reduction::sum, root_).wait();
    case Collective::broadcast:
      return world_.broadcast(tensor(whole()), root_).wait();
    case Collective::all_gather:
      return world_.all_gather(tensor(whole()), tensor(part()), counts_).wait();
    case Collective::reduce_scatter:
      return world_.reduce_scatter(tensor(part()), tensor(whole()), counts_, Reduction::sum).wait();
    case Collective::gather:
      return world_.gather(tensor(whole()), tensor(part()), root_).wait();
    case Collective::scatter:
      return world_.scatter(tensor(part()), tensor(whole()), root_).wait();
    case Collective::all_to_all:
      return world_.all_to_all(tensor(part()), tensor(whole())).wait();
    case Collective::send: {
      if (world_.size() == 1) return;
      comm::Request sent = world_.send(tensor(whole()), neighbour(1));
      world_.receive(tensor(part()), neighbour(-1)).wait();
      return sent.wait();
    }
    case Collective::barrier:
      entered_ = now_seconds();
      world_.barrier();
      left_ = now_seconds();
      return;
    case Collective::receive:
      throw BrokenRule("an operation that can be tried");
  }
}

float CollectiveTrial::expected(std::int64_t index) const {
  const std::int64_t piece = elements_ / world_.size();
  const auto from = static_cast<int>(index / piece);
  switch (op_) {
    case Collective::all_reduce:
    case Collective::reduce:
      return sum_of(world_.size(), index);
    case Collective::broadcast:
      return value_of(root_, index);
    case Collective::all_gather:
    case Collective::gather:
      return value_of(from, index % piece);
    case Collective::reduce_scatter:
      return sum_of(world_.size(), world_.rank() * piece + index);
    case Collective::scatter:
      return value_of(root_, world_.rank() * piece + index);
    case Collective::send:
      return value_of(neighbour(-1), index);
    default:
      return value_of(from, world_.rank() * piece + index % piece);
  }
}

std::optional<std::string> CollectiveTrial::barrier_fault() const {
  const auto size = static_cast<std::size_t>(world_.size());
  // Processes under one boot of one kernel share a monotonic clock.
  const std::vector<std::string> clocks = comm::all_texts(world_, io::read_file("/proc/sys/kernel/random/boot_id"));
  std::vector<double> entered(size);
  double mine = entered_;
  const std::vector<std::int64_t> one(size, 1);
  world_.host().all_gather(view(std::span(entered), Shape{std::ssize(entered)}), view(std::span(&mine, 1), Shape{1}), one).wait();
  if (left_ == 0) return fmt::format("barrier: rank {} has not entered it", world_.rank());
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (clocks[rank] == clocks[static_cast<std::size_t>(world_.rank())] && entered[rank] > left_)
      return fmt::format("barrier: rank {} left it {:.1f} us before rank {} entered it", world_.rank(),
                         1e6 * (entered[rank] - left_), rank);
  }
  return std::nullopt;
}

std::optional<std::string> CollectiveTrial::fault() const {
  if (op_ == Collective::barrier) return barrier_fault();
  const std::span<const float> values = got();
  std::atomic<std::int64_t> first_wrong = std::ssize(values);
  in_tiles(team_, std::ssize(values), [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      if (values[static_cast<std::size_t>(i)] == expected(i)) continue;
      std::int64_t before = first_wrong.load();
      while (i < before && !first_wrong.compare_exchange_weak(before, i)) {
      }
      return;
    }
  });
  const std::int64_t at = first_wrong.load();
  if (at == std::ssize(values)) return std::nullopt;
  return fmt::format("{}{} of {} elements over {} ranks: element {} on rank {} is {}, not {}", name_of(op_),
                     has_root() ? fmt::format(" (root {})", root_) : "", elements_, world_.size(), at, world_.rank(),
                     values[static_cast<std::size_t>(at)], expected(at));
}

}  // namespace lockstep::lab
