// Every operation with elements of every type, and sequences of all operations.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <type_traits>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;
using comm::Reduction;

std::vector<std::int64_t> uneven(int ranks) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back(r == 1 ? 0 : 97 * r + 5);
  return counts;
}

std::int64_t before(const std::vector<std::int64_t>& counts, int rank) {
  std::int64_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += counts[static_cast<std::size_t>(r)];
  return sum;
}

template <class T>
void expect_part(const std::vector<T>& values, std::int64_t at, int rank, std::int64_t count, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<std::size_t>(at + i)], element<T>(rank, first + i));
}

template <class T>
void check_moves(Communicator& world) {
  constexpr std::int64_t count = 1001;
  const int n = world.size(), me = world.rank();
  std::vector<T> x = elements_of<T>(me, count);
  world.broadcast(tensor_of(x), n - 1).wait();
  expect_part(x, 0, n - 1, count);

  const std::vector<std::int64_t> counts = uneven(n);
  const std::int64_t mine = counts[static_cast<std::size_t>(me)];
  std::vector<T> part = elements_of<T>(me, mine), whole(static_cast<std::size_t>(before(counts, n)));
  world.all_gather(tensor_of(whole), tensor_of(part), counts).wait();
  for (int r = 0; r < n; ++r) expect_part(whole, before(counts, r), r, counts[static_cast<std::size_t>(r)]);

  std::vector<T> one = elements_of<T>(me, count), all(me == 0 ? static_cast<std::size_t>(count * n) : 0), back(one.size());
  world.gather(tensor_of(all), tensor_of(one), 0).wait();
  for (int r = 0; me == 0 && r < n; ++r) expect_part(all, r * count, r, count);
  world.scatter(tensor_of(back), tensor_of(all), 0).wait();
  expect_part(back, 0, me, count);

  std::vector<T> in = elements_of<T>(me, 33 * n), out(in.size());
  world.all_to_all(tensor_of(out), tensor_of(in)).wait();
  for (int r = 0; r < n; ++r) expect_part(out, 33 * r, r, 33, 33 * me);

  if (n == 1) return;
  std::vector<T> sent = elements_of<T>(me, count), received(sent.size());
  comm::Request receive = world.receive(tensor_of(received), (me + n - 1) % n);
  world.send(tensor_of(sent), (me + 1) % n).wait();
  receive.wait();
  expect_part(received, 0, (me + n - 1) % n, count);
}

template <class T>
void check_reductions(Communicator& world) {
  const int n = world.size(), me = world.rank();
  for (const Reduction rule : {Reduction::sum, Reduction::mean, Reduction::min, Reduction::max}) {
    if (rule == Reduction::mean && std::is_integral_v<T>) continue;
    std::vector<T> x = elements_of<T>(me, 1001);
    world.all_reduce(tensor_of(x), rule).wait();
    for (std::int64_t i = 0; i < 1001; ++i) ASSERT_EQ(x[static_cast<std::size_t>(i)], reduced<T>(n, i, rule));

    std::vector<T> rooted = elements_of<T>(me, 1001);
    world.reduce(tensor_of(rooted), rule, n - 1).wait();
    for (std::int64_t i = 0; i < 1001; ++i) {
      ASSERT_EQ(rooted[static_cast<std::size_t>(i)], me == n - 1 ? reduced<T>(n, i, rule) : element<T>(me, i));
    }

    const std::vector<std::int64_t> counts = uneven(n);
    std::vector<T> in = elements_of<T>(me, before(counts, n)),
                   part(static_cast<std::size_t>(counts[static_cast<std::size_t>(me)]));
    world.reduce_scatter(tensor_of(part), tensor_of(in), counts, rule).wait();
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], reduced<T>(n, before(counts, me) + static_cast<std::int64_t>(i), rule));
    }
  }
}

class AllTypes : public testing::TestWithParam<int> {};

TEST_P(AllTypes, AreMoved) {
  on_ranks(GetParam(), [](Communicator& world) {
    check_moves<float>(world);
    check_moves<BFloat16>(world);
    check_moves<double>(world);
    check_moves<std::int32_t>(world);
    check_moves<std::int64_t>(world);
    check_moves<std::uint16_t>(world);
    check_moves<std::uint8_t>(world);
  });
}

TEST_P(AllTypes, ThatAreNumbersAreReduced) {
  on_ranks(GetParam(), [](Communicator& world) {
    check_reductions<float>(world);
    check_reductions<BFloat16>(world);
    check_reductions<double>(world);
    check_reductions<std::int32_t>(world);
    check_reductions<std::int64_t>(world);
  });
}

/// One operation of a random sequence: what it is follows from a generator that all ranks have.
class Step {
 public:
  static constexpr int kinds = 10;  // a message is two operations

  Step(Communicator& world, std::mt19937& draw)
      : world_(world),
        kind_(static_cast<int>(draw() % kinds)),
        root_(static_cast<int>(draw() % static_cast<unsigned>(world.size()))),
        count_(draw() % 3 == 0 ? draw() % 20000 : draw() % 40),
        counts_(static_cast<std::size_t>(world.size()), count_),
        x_(elements_of<float>(world.rank(), count_)),
        wide_(elements_of<float>(world.rank(), count_ * world.size())),
        out_(wide_.size()) {
    issue();
  }

  void check() {
    for (comm::Request& request : requests_) request.wait();
    const int n = world_.size(), me = world_.rank();
    switch (kind_) {
      case 0:
        return expect_values(x_, [&](std::int64_t i) { return reduced<float>(n, i, Reduction::sum); });
      case 1:
        return expect_part(x_, 0, root_, count_);
      case 2:
        return expect_values(
            x_, [&](std::int64_t i) { return me == root_ ? reduced<float>(n, i, Reduction::max) : element<float>(me, i); });
      case 3:
        return expect_all_parts();
      case 4:
        return expect_values(x_, [&](std::int64_t i) { return reduced<float>(n, me * count_ + i, Reduction::sum); });
      case 5:
        return me == root_ ? expect_all_parts() : void();
      case 6:
        return expect_part(x_, 0, root_, count_, me * count_);
      case 7:
        for (int r = 0; r < n; ++r) expect_part(out_, r * count_, r, count_, me * count_);
        return;
      case 8:
        return n > 1 ? expect_part(out_, 0, (me + n - 1) % n, count_) : void();
      default:
        return;
    }
  }

 private:
  void issue() {
    const int n = world_.size(), me = world_.rank();
    const Tensor x = tensor_of(x_), wide = tensor_of(wide_), out = tensor_of(out_);
    if (kind_ == 0) add(world_.all_reduce(x, Reduction::sum));
    if (kind_ == 1) add(world_.broadcast(x, root_));
    if (kind_ == 2) add(world_.reduce(x, Reduction::max, root_));
    if (kind_ == 3) add(world_.all_gather(out, x, counts_));
    if (kind_ == 4) add(world_.reduce_scatter(x, wide, counts_, Reduction::sum));
    if (kind_ == 5) add(world_.gather(out, x, root_));
    if (kind_ == 6) add(world_.scatter(x, wide, root_));
    if (kind_ == 7) add(world_.all_to_all(out, wide));
    if (kind_ == 8 && n > 1) {
      add(world_.receive(out.flat(0, count_), (me + n - 1) % n));
      add(world_.send(x, (me + 1) % n));
    }
    if (kind_ == 9) world_.barrier();
  }
  void add(comm::Request request) { requests_.push_back(std::move(request)); }
  template <class Value>
  static void expect_values(const std::vector<float>& values, const Value& value) {
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value(static_cast<std::int64_t>(i)));
  }
  void expect_all_parts() const {
    for (int r = 0; r < world_.size(); ++r) expect_part(out_, r * count_, r, count_);
  }

  Communicator& world_;
  int kind_, root_;
  std::int64_t count_;
  std::vector<std::int64_t> counts_;
  std::vector<float> x_, wide_, out_;
  std::vector<comm::Request> requests_;
};

TEST_P(AllTypes, RandomSequencesOfAllOperations) {
  on_ranks(GetParam(), [](Communicator& world) {
    std::mt19937 draw(4321);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::unique_ptr<Step>> steps;
      for (auto left = 1 + draw() % 6; left > 0; --left) steps.push_back(std::make_unique<Step>(world, draw));
      std::shuffle(steps.begin(), steps.end(), draw);
      for (const auto& step : steps) step->check();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, AllTypes, testing::Values(1, 2, 3, 5, 8),
                         [](const auto& one) { return std::to_string(one.param) + "Ranks"; });

}  // namespace
}  // namespace lockstep::test
