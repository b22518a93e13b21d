// Every operation on every transport: values, orders of additions, sizes, roots and groups.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;
using comm::Reduction;

constexpr std::int64_t sizes[] = {0, 1, 17, 1000, 70001};

class Collectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  void on_all(const std::function<void(Communicator&)>& body) const { on_ranks(ranks(), body); }
};

// Rank r's count in an uneven cut; some are 0.
std::vector<std::int64_t> uneven(int ranks, std::int64_t scale) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back((r * 7 + 3) % 5 == 0 ? 0 : scale * ((r * 3) % 4) + r);
  return counts;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}
std::int64_t before(const std::vector<std::int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

template <class T>
void expect_reduced(const std::vector<T>& values, int ranks, Reduction reduction, std::int64_t first = 0) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], reduced<T>(ranks, first + static_cast<std::int64_t>(i), reduction)) << "element " << i;
  }
}

template <class T>
void check_all_reduce(Communicator& world, Reduction reduction) {
  for (const std::int64_t count : sizes) {
    std::vector<T> x = elements_of<T>(world.rank(), count);
    world.all_reduce(tensor_of(x), reduction).wait();
    expect_reduced(x, world.size(), reduction);
  }
}

TEST_P(Collectives, AllReduceHasOneOrder) {
  on_all([](Communicator& world) {
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::min, Reduction::max}) {
      check_all_reduce<float>(world, reduction);
      check_all_reduce<BFloat16>(world, reduction);
      check_all_reduce<double>(world, reduction);
      if (reduction == Reduction::mean) continue;
      check_all_reduce<std::int32_t>(world, reduction);
      check_all_reduce<std::int64_t>(world, reduction);
    }
  });
}

TEST_P(Collectives, ReduceChangesTheRootOnly) {
  on_all([](Communicator& world) {
    for (int root = 0; root < world.size(); ++root) {
      for (const std::int64_t count : sizes) {
        std::vector<float> x = elements_of<float>(world.rank(), count);
        world.reduce(tensor_of(x), Reduction::sum, root).wait();
        if (world.rank() == root) {
          expect_reduced(x, world.size(), Reduction::sum);
        } else {
          EXPECT_EQ(x, elements_of<float>(world.rank(), count));
        }
      }
    }
  });
}

TEST_P(Collectives, BroadcastComesFromItsRoot) {
  on_all([](Communicator& world) {
    for (int root = 0; root < world.size(); ++root) {
      for (const std::int64_t count : sizes) {
        std::vector<std::int32_t> x = elements_of<std::int32_t>(world.rank(), count);
        world.broadcast(tensor_of(x), root).wait();
        EXPECT_EQ(x, elements_of<std::int32_t>(root, count));
      }
    }
  });
}

TEST_P(Collectives, AllGatherOfUnevenParts) {
  on_all([](Communicator& world) {
    const std::vector<std::int64_t> counts = uneven(world.size(), 1000);
    const std::int64_t mine = counts[static_cast<std::size_t>(world.rank())];
    std::vector<BFloat16> expected;
    for (int r = 0; r < world.size(); ++r) {
      const std::vector<BFloat16> part = elements_of<BFloat16>(r, counts[static_cast<std::size_t>(r)]);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<BFloat16> part = elements_of<BFloat16>(world.rank(), mine), out(expected.size());
    world.all_gather(tensor_of(out), tensor_of(part), counts).wait();
    EXPECT_EQ(out, expected);

    std::vector<BFloat16> in_place(expected.size());
    std::ranges::copy(part, in_place.begin() + before(counts, world.rank()));
    world.all_gather(tensor_of(in_place), tensor_of(in_place).flat(before(counts, world.rank()), mine), counts).wait();
    EXPECT_EQ(in_place, expected);
  });
}

TEST_P(Collectives, ReduceScatterOfUnevenParts) {
  on_all([](Communicator& world) {
    for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
      const std::vector<std::int64_t> counts = uneven(world.size(), 1000);
      const std::int64_t first = before(counts, world.rank()), mine = counts[static_cast<std::size_t>(world.rank())];
      std::vector<float> in = elements_of<float>(world.rank(), total(counts)), part(static_cast<std::size_t>(mine));
      world.reduce_scatter(tensor_of(part), tensor_of(in), counts, reduction).wait();
      expect_reduced(part, world.size(), reduction, first);
      EXPECT_EQ(in, elements_of<float>(world.rank(), total(counts)));

      world.reduce_scatter(tensor_of(in).flat(first, mine), tensor_of(in), counts, reduction).wait();
      const std::vector<float> kept = elements_of<float>(world.rank(), total(counts));
      for (std::int64_t i = 0; i < total(counts); ++i) {
        const bool own = i >= first && i < first + mine;
        ASSERT_EQ(in[static_cast<std::size_t>(i)],
                  own ? reduced<float>(world.size(), i, reduction) : kept[static_cast<std::size_t>(i)]);
      }
    }
  });
}

TEST_P(Collectives, GatherAndScatterAreInverse) {
  on_all([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    for (int root = 0; root < world.size(); ++root) {
      for (const std::int64_t count : sizes) {
        std::vector<float> part = elements_of<float>(world.rank(), count), back(part.size());
        std::vector<float> all(world.rank() == root ? part.size() * n : 0);
        world.gather(tensor_of(all), tensor_of(part), root).wait();
        for (std::size_t r = 0; world.rank() == root && r < n; ++r) {
          const auto at = all.begin() + static_cast<std::ptrdiff_t>(r * part.size());
          EXPECT_TRUE(std::equal(at, at + count, elements_of<float>(static_cast<int>(r), count).begin()));
        }
        world.scatter(tensor_of(back), tensor_of(all), root).wait();
        EXPECT_EQ(back, part);
      }
    }
  });
}

TEST_P(Collectives, AllToAllWithEqualAndUnevenPieces) {
  on_all([](Communicator& world) {
    const int n = world.size(), me = world.rank();
    std::vector<std::int64_t> in = elements_of<std::int64_t>(me, 33 * n), out(in.size());
    world.all_to_all(tensor_of(out), tensor_of(in)).wait();
    for (int r = 0; r < n; ++r) {
      for (int i = 0; i < 33; ++i) ASSERT_EQ(out[static_cast<std::size_t>(33 * r + i)], element<std::int64_t>(r, 33 * me + i));
    }
    const auto piece = [](int from, int to) { return std::int64_t{(from * 5 + to * 3) % 7 * 100}; };
    std::vector<std::int64_t> sent, expected;
    for (int r = 0; r < n; ++r) {
      sent.push_back(piece(me, r));
      expected.push_back(piece(r, me));
    }
    std::vector<float> give = elements_of<float>(me, total(sent)), get(static_cast<std::size_t>(total(expected)));
    world.all_to_all(tensor_of(get), expected, tensor_of(give), sent).wait();
    std::size_t at = 0;
    for (int r = 0; r < n; ++r) {
      std::int64_t first = 0;
      for (int before = 0; before < me; ++before) first += piece(r, before);
      for (std::int64_t i = 0; i < piece(r, me); ++i) ASSERT_EQ(get[at++], element<float>(r, first + i));
    }
  });
}

TEST_P(Collectives, MessagesArriveInOrder) {
  on_all([](Communicator& world) {
    const int n = world.size(), next = (world.rank() + 1) % n, previous = (world.rank() + n - 1) % n;
    if (n == 1) return;
    // More letters than a channel holds, their requests waited for in the opposite order.
    std::vector<std::vector<float>> sent, received;
    std::vector<comm::Request> requests;
    for (int k = 0; k < 20; ++k) {
      sent.push_back(elements_of<float>(world.rank(), 100 * k, k));
      received.emplace_back(static_cast<std::size_t>(100 * k));
    }
    for (int k = 0; k < 20; ++k) {
      requests.push_back(world.receive(tensor_of(received[static_cast<std::size_t>(k)]), previous));
      requests.push_back(world.send(tensor_of(sent[static_cast<std::size_t>(k)]), next));
    }
    while (!requests.empty()) {
      requests.back().wait();
      requests.pop_back();
    }
    for (int k = 0; k < 20; ++k) EXPECT_EQ(received[static_cast<std::size_t>(k)], elements_of<float>(previous, 100 * k, k));
  });
}

// Rank 0 takes messages of several ranks as they come; polling blocks no rank and moves collectives too.
TEST_P(Collectives, PollingTakesWhatHasCome) {
  on_all([](Communicator& world) {
    const int n = world.size();
    constexpr std::int64_t messages = 5, count = 3000;
    std::vector<float> sum = elements_of<float>(world.rank(), 100);
    comm::Request reduction = world.all_reduce(tensor_of(sum), Reduction::sum);
    while (!reduction.poll()) std::this_thread::yield();
    EXPECT_TRUE(reduction.finished());
    EXPECT_TRUE(reduction.poll());
    expect_reduced(sum, n, Reduction::sum);
    if (n == 1) return;
    if (world.rank() > 0) {
      for (std::int64_t k = 0; k < messages; ++k) {
        std::vector<float> x = elements_of<float>(world.rank(), count, k);
        comm::Request sent = world.send(tensor_of(x), 0);
        while (!sent.poll()) std::this_thread::yield();
      }
      return world.barrier();
    }
    std::vector<std::vector<float>> got(static_cast<std::size_t>(n), std::vector<float>(count));
    std::vector<std::int64_t> taken(static_cast<std::size_t>(n), 0);
    std::vector<comm::Request> requests(static_cast<std::size_t>(n));
    for (int r = 1; r < n; ++r)
      requests[static_cast<std::size_t>(r)] = world.receive(tensor_of(got[static_cast<std::size_t>(r)]), r);
    for (std::int64_t left = messages * (n - 1); left > 0; --left) {
      std::vector<comm::Request*> open;
      std::vector<std::size_t> from;
      for (std::size_t r = 1; r < requests.size(); ++r) {
        if (taken[r] == messages) continue;
        open.push_back(&requests[r]);
        from.push_back(r);
      }
      const std::size_t r = from[comm::wait_any(open, static_cast<std::size_t>(left))];
      EXPECT_EQ(got[r], elements_of<float>(static_cast<int>(r), count, taken[r]));
      if (++taken[r] < messages) requests[r] = world.receive(tensor_of(got[r]), static_cast<int>(r));
    }
    world.barrier();
  });
}

TEST_P(Collectives, ManyUnderWayAtATime) {
  on_all([](Communicator& world) {
    std::vector<std::vector<float>> x;
    for (int k = 0; k < 100; ++k) x.push_back(elements_of<float>(world.rank(), 50 + k, k));
    std::vector<comm::Request> requests;
    for (auto& values : x) requests.push_back(world.all_reduce(tensor_of(values), Reduction::sum));
    for (std::size_t k = 100; k-- > 0;) {
      requests[k].wait();
      expect_reduced(x[k], world.size(), Reduction::sum, static_cast<std::int64_t>(k));
    }
  });
}

TEST_P(Collectives, GroupsWorkBesideEachOther) {
  on_all([](Communicator& world) {
    const int me = world.rank(), n = world.size();
    const std::unique_ptr<Communicator> parity = world.split(me % 2, -me);  // in the opposite order
    const std::unique_ptr<Communicator> half = world.split(me < (n + 1) / 2 ? 0 : 1, me);
    std::vector<int> members;
    for (int r = n - 1; r >= 0; --r) {
      if (r % 2 == me % 2) members.push_back(r);
    }
    ASSERT_EQ(parity->size(), static_cast<int>(members.size()));
    EXPECT_EQ(members[static_cast<std::size_t>(parity->rank())], me);

    std::vector<float> a = elements_of<float>(me, 999), b = elements_of<float>(me, 1234), c = elements_of<float>(me, 10);
    comm::Request first = parity->all_reduce(tensor_of(a), Reduction::sum);
    comm::Request second = half->all_reduce(tensor_of(b), Reduction::max);
    comm::Request third = world.all_reduce(tensor_of(c), Reduction::min);
    third.wait();
    second.wait();
    first.wait();
    const auto at = [&](int r, std::int64_t i) { return element<float>(members[static_cast<std::size_t>(r)], i); };
    for (std::int64_t i = 0; i < 999; ++i) {
      ASSERT_EQ(a[static_cast<std::size_t>(i)],
                (tree<float>(0, parity->size(), Reduction::sum, [&](int r) { return at(r, i); })));
    }
    expect_reduced(c, n, Reduction::min);
    // A group of a group.
    const std::unique_ptr<Communicator> alone = parity->split(parity->rank(), 0);
    EXPECT_EQ(alone->size(), 1);
    std::vector<float> d = elements_of<float>(me, 5);
    alone->all_reduce(tensor_of(d), Reduction::sum).wait();
    EXPECT_EQ(d, elements_of<float>(me, 5));
  });
}

// The same random sequence of operations on every rank, a few of them under way at a time.
TEST_P(Collectives, RandomSequences) {
  on_all([](Communicator& world) {
    std::mt19937 draw(1234);
    struct Step {
      int kind, root;
      std::vector<float> x, out;
      comm::Request request;
    };
    for (int round = 0; round < 40; ++round) {
      std::vector<Step> steps(1 + draw() % 6);
      for (Step& step : steps) {
        step.kind = static_cast<int>(draw() % 4);
        step.root = static_cast<int>(draw() % static_cast<unsigned>(world.size()));
        const std::int64_t count = draw() % 3 == 0 ? draw() % 20000 : draw() % 40;
        step.x = elements_of<float>(world.rank(), count);
        const std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()), count);
        if (step.kind == 0) step.request = world.all_reduce(tensor_of(step.x), Reduction::sum);
        if (step.kind == 1) step.request = world.broadcast(tensor_of(step.x), step.root);
        if (step.kind == 2) step.request = world.reduce(tensor_of(step.x), Reduction::max, step.root);
        if (step.kind == 3) {
          step.out.resize(static_cast<std::size_t>(count * world.size()));
          step.request = world.all_gather(tensor_of(step.out), tensor_of(step.x), counts);
        }
      }
      for (Step& step : steps) {
        step.request.wait();
        const auto count = static_cast<std::int64_t>(step.x.size());
        if (step.kind == 0) expect_reduced(step.x, world.size(), Reduction::sum);
        if (step.kind == 1) {
          EXPECT_EQ(step.x, elements_of<float>(step.root, count));
        }
        if (step.kind == 2 && world.rank() == step.root) expect_reduced(step.x, world.size(), Reduction::max);
        for (std::int64_t i = 0; step.kind == 3 && i < count * world.size(); ++i) {
          ASSERT_EQ(step.out[static_cast<std::size_t>(i)], element<float>(static_cast<int>(i / count), i % count));
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Conformance, Collectives, testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                         [](const auto& one) { return std::to_string(one.param) + "Ranks"; });

}  // namespace
}  // namespace lockstep::test
