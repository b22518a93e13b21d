// Ranks that do not agree, do not come, or end: every other rank ends too, and the report says who and what.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/timer.h"
#include "comm/errors.h"
#include "comm/thread/thread_world.h"
#include "support/patience.h"
#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;
using comm::Reduction;

// What the run ends with.
template <class Error>
std::string report_of(int ranks, const std::function<void(Communicator&)>& body, double timeout = 60) {
  try {
    comm::run_ranks(ranks, {.timeout = timeout}, body);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "the run did not fail";
  return {};
}

void expect_says(const std::string& report, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(report.find(part), std::string::npos) << part << " is not in: " << report;
}

TEST(Failure, AnotherOperation) {
  const std::string report = report_of<comm::RunAborted>(3, [](Communicator& world) {
    std::vector<float> x(10);
    if (world.rank() == 2) {
      world.broadcast(tensor_of(x), 0).wait();
    } else {
      world.all_reduce(tensor_of(x), Reduction::sum).wait();
    }
  });
  expect_says(report, {"ranks 0 and 2", "all_reduce (sum, 10 F32)", "broadcast (10 F32, root 0)", "operation 0 of 'world'"});
}

TEST(Failure, AnotherSizeTypeRootOrReduction) {
  const auto with = [](const std::function<comm::Request(Communicator&, std::vector<float>&, std::vector<double>&)>& issue) {
    return report_of<comm::RunAborted>(2, [&](Communicator& world) {
      std::vector<float> x(static_cast<std::size_t>(10 + world.rank()));
      std::vector<double> y(10);
      issue(world, x, y).wait();
    });
  };
  expect_says(with([](Communicator& w, auto& x, auto&) { return w.all_reduce(tensor_of(x), Reduction::sum); }),
              {"10 F32", "11 F32"});
  expect_says(with([](Communicator& w, auto& x, auto& y) {
                return w.all_reduce(w.rank() == 0 ? tensor_of(x) : tensor_of(y), Reduction::sum);
              }),
              {"10 F32", "10 F64"});
  expect_says(with([](Communicator& w, auto&, auto& y) { return w.broadcast(tensor_of(y), w.rank()); }), {"root 0", "root 1"});
  expect_says(with([](Communicator& w, auto&, auto& y) {
                return w.all_reduce(tensor_of(y), w.rank() == 0 ? Reduction::min : Reduction::max);
              }),
              {"min", "max"});
}

// Rank 0 waits for rank 1, and that for rank 2, which never comes: the first to say so is rank 0.
TEST(Failure, TheRankThatIsWaitedForWaitsItself) {
  const std::string report = report_of<comm::RunAborted>(
      3,
      [](Communicator& world) {
        std::vector<float> x(10);
        const auto first = world.split(world.rank() < 2 ? 0 : 1, world.rank());
        const auto last = world.split(world.rank() == 0 ? 0 : 1, world.rank());
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          last->all_reduce(tensor_of(x), Reduction::sum).wait();
        }
        if (world.rank() < 2) first->all_reduce(tensor_of(x), Reduction::sum).wait();
        if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(2));
      },
      1);
  expect_says(report, {"not entered by rank 1 (which waits for rank 2)"});
}

TEST(Failure, OtherCountsByRank) {
  expect_says(report_of<comm::RunAborted>(2,
                                          [](Communicator& world) {
                                            std::vector<float> out(10), part(5);
                                            std::vector<std::int64_t> counts{5, 5};
                                            if (world.rank() == 1) {
                                              counts = {2, 8};
                                              part.resize(8);
                                            }
                                            world.all_gather(tensor_of(out), tensor_of(part), counts).wait();
                                          }),
              {"all_gather", "other counts by rank"});
  expect_says(report_of<comm::RunAborted>(2,
                                          [](Communicator& world) {
                                            std::vector<float> in(4), out(6);
                                            const std::vector<std::int64_t> sent{2, 2}, expected{3, 3};
                                            world.all_to_all(tensor_of(out), expected, tensor_of(in), sent).wait();
                                          }),
              {"all_to_all", "sends 2 elements", "expects 3"});
}

TEST(Failure, AMessageThatDoesNotFit) {
  expect_says(report_of<comm::RunAborted>(2,
                                          [](Communicator& world) {
                                            std::vector<float> x(3);
                                            std::vector<double> y(4);
                                            if (world.rank() == 0) world.send(tensor_of(x), 1).wait();
                                            if (world.rank() == 1) world.receive(tensor_of(y), 0).wait();
                                          }),
              {"rank 0 sends 3 F32 to rank 1, which expects 4 F64"});
}

// Who polls serves others, who may compute for longer than an operation may take.
TEST(Failure, PollingEndsWithTheRankThatIsWaitedForAndNotBefore) {
  const auto poll = [](Communicator& world) {
    std::vector<float> x(3);
    comm::Request request = world.receive(tensor_of(x), 1);
    const std::array<comm::Request*, 1> all{&request};
    comm::wait_any(all);
  };
  expect_says(report_of<comm::RunAborted>(2,
                                          [&](Communicator& world) {
                                            if (world.rank() == 0) poll(world);
                                          }),
              {"rank 1 has ended", "a message between ranks 0 and 1"});
  comm::run_ranks(2, {.timeout = 0.05}, [&](Communicator& world) {
    if (world.rank() == 0) return poll(world);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::vector<float> x(3);
    world.send(tensor_of(x), 0).wait();
  });
}

TEST(Failure, PollingHasADeadlineUnlessItIsPatient) {
  std::atomic<bool> over{false};
  expect_says(report_of<comm::RunAborted>(
                  2,
                  [&](Communicator& world) {
                    std::vector<float> x(3);
                    if (world.rank() == 1) {
                      EXPECT_TRUE(support::comes_true([&] { return over.load(); }));
                      return;
                    }
                    try {
                      comm::Request request = world.receive(tensor_of(x), 1);
                      while (!request.poll()) std::this_thread::yield();
                    } catch (const comm::RunAborted&) {
                      over = true;
                      throw;
                    }
                  },
                  0.2),
              {"a message between ranks 0 and 1", "did not end within comm.timeout = 0.2 s"});
}

TEST(Failure, ARankThatDoesNotCome) {
  std::atomic<int> ended{0};
  std::atomic<bool> leave{false};
  const std::string report = report_of<comm::RunAborted>(
      3,
      [&](Communicator& world) {
        std::vector<float> x(10);
        world.broadcast(tensor_of(x), 0).wait();
        if (world.rank() == 1) {
          EXPECT_TRUE(support::comes_true([&] { return leave.load(); }));
          return;
        }
        try {
          world.all_reduce(tensor_of(x), Reduction::sum).wait();
        } catch (const comm::RunAborted&) {
          if (++ended == 2) leave = true;
          throw;
        }
      },
      0.2);
  EXPECT_EQ(ended, 2);
  expect_says(report, {"all_reduce (sum, 10 F32), operation 1 of 'world'", "comm.timeout = 0.2 s", "not entered by rank 1",
                       "rank 1: entered broadcast (10 F32, root 0), operation 0", "did its share"});
}

TEST(Failure, ARankThatEnds) {
  const std::string report = report_of<comm::RunAborted>(2, [](Communicator& world) {
    std::vector<float> x(10);
    if (world.rank() == 0) world.all_reduce(tensor_of(x), Reduction::sum).wait();
  });
  expect_says(report, {"rank 1 has ended, but rank 0 waits for it", "rank 1: has entered nothing"});
}

TEST(Failure, AReceiveWithoutASend) {
  expect_says(report_of<comm::RunAborted>(2,
                                          [](Communicator& world) {
                                            std::vector<float> x(10);
                                            if (world.rank() == 0) world.receive(tensor_of(x), 1).wait();
                                          }),
              {"rank 1 has ended", "a message between ranks 0 and 1"});
}

// The error is the one of the rank that failed, and the others leave what they wait for within seconds.
TEST(Failure, ARankThatThrowsEndsTheOthers) {
  const double start = now_seconds();
  std::atomic<int> told{0};
  const std::string report = report_of<UserError>(4, [&](Communicator& world) {
    std::vector<float> x(1000), y(1000);
    world.all_reduce(tensor_of(x), Reduction::sum).wait();
    if (world.rank() == 2) throw UserError("no room for the checkpoint", "free some");
    try {
      comm::Request a = world.all_reduce(tensor_of(x), Reduction::sum);
      comm::Request b = world.all_reduce(tensor_of(y), Reduction::sum);
      b.wait();
    } catch (const comm::RunAborted& error) {
      expect_says(error.what(), {"rank 2 ended with an error: no room for the checkpoint"});
      ++told;
      throw;
    }
  });
  expect_says(report, {"no room for the checkpoint"});
  EXPECT_EQ(told, 3);
  EXPECT_LT(now_seconds() - start, 30);
}

// An error on one rank while its own operations are under way.
TEST(Failure, AnErrorBetweenIssueAndWait) {
  const std::string report = report_of<UserError>(3, [](Communicator& world) {
    std::vector<float> x(100000), y(100000);
    const comm::Request a = world.all_reduce(tensor_of(x), Reduction::sum);
    const comm::Request b = world.all_reduce(tensor_of(y), Reduction::sum);
    if (world.rank() == 1) throw UserError("stop here");
    world.barrier();
  });
  expect_says(report, {"stop here"});
}

// As is what each of them sends: the ranks leave with the reason that the failing one has, not with its failure alone.
TEST(Failure, TheOthersAreToldWhyARankFailedWithOperationsUnderWay) {
  std::atomic<int> told{0};
  report_of<UserError>(3, [&](Communicator& world) {
    std::vector<float> x(1000);
    if (world.rank() == 1) {
      const comm::Request request = world.all_reduce(tensor_of(x), Reduction::sum);
      throw UserError("no room for the checkpoint", "free some");
    }
    try {
      world.all_reduce(tensor_of(x), Reduction::sum).wait();
      world.barrier();
    } catch (const comm::RunAborted& error) {
      expect_says(error.what(), {"rank 1 ended with an error: no room for the checkpoint"});
      ++told;
      throw;
    }
  });
  EXPECT_EQ(told, 2);
}

// For ThreadSanitizer too: what a rank takes along is used by no other.
TEST(Failure, RanksWithOneRequestEachOfWhichOneThrows) {
  for (int round = 0; round < 20; ++round) {
    report_of<UserError>(4, [&](Communicator& world) {
      std::vector<float> x(std::size_t{1} << 18, 1.0F);
      comm::Request request =
          round % 2 == 0 ? world.all_reduce(tensor_of(x), Reduction::sum) : world.broadcast(tensor_of(x), round % 4);
      if (world.rank() == 2) throw UserError("stop here");
      request.wait();
      std::fill(x.begin(), x.end(), -1.0F);
      world.barrier();
    });
  }
}

// The user has 3 threads at most, of which the program's own is one. Root has no such limit, so it becomes another user.
void run_with_few_threads() {
  const rlimit few{3, 3};
  if (setrlimit(RLIMIT_NPROC, &few) != 0 || (getuid() == 0 && setuid(54321) != 0)) _exit(1);
  const double start = now_seconds();
  try {
    comm::run_ranks(8, {.timeout = 60}, [](Communicator& world) { world.barrier(); });
  } catch (const SystemError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(now_seconds() - start < 30 ? 0 : 2);
  }
  _exit(3);
}

TEST(Failure, ARankWhoseThreadCannotBeStartedEndsTheOthersAtOnce) {
  EXPECT_EXIT(run_with_few_threads(), testing::ExitedWithCode(0),
              "the thread rank-[0-9] cannot be started: Resource temporarily unavailable\n  -> use fewer ranks or threads");
}

TEST(Failure, MisuseIsABrokenRule) {
  on_ranks(2, [](Communicator& world) {
    std::vector<std::int32_t> integers(4);
    std::vector<std::uint16_t> words(4);
    std::vector<float> x(4);
    const std::vector<std::int64_t> short_counts{4}, wrong{1, 2};
    EXPECT_THROW(world.all_reduce(tensor_of(integers), Reduction::mean).wait(), BrokenRule);
    EXPECT_THROW(world.all_reduce(tensor_of(words), Reduction::sum).wait(), BrokenRule);
    EXPECT_THROW(world.broadcast(tensor_of(x), 2).wait(), BrokenRule);
    EXPECT_THROW(world.send(tensor_of(x), world.rank()).wait(), BrokenRule);
    EXPECT_THROW(world.receive(tensor_of(x), world.rank()).wait(), BrokenRule);
    EXPECT_THROW(world.all_gather(tensor_of(x), tensor_of(x), short_counts).wait(), BrokenRule);
    EXPECT_THROW(world.all_gather(tensor_of(x), tensor_of(x), wrong).wait(), BrokenRule);
  });
}

}  // namespace
}  // namespace lockstep::test
