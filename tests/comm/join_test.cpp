// Streams that wait for an operation, and the group for what the host has.

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/runtime.h"
#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;
using comm::Request;

TEST(Join, OnTheCpuTheOperationHasEnded) {
  on_ranks(3, [](Communicator& world) {
    const auto stream = make_immediate_stream();
    auto x = elements_of<double>(world.rank(), 1000);
    world.all_reduce(tensor_of(x), comm::Reduction::sum).join(*stream);
    for (std::int64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ(x[static_cast<std::size_t>(i)], reduced<double>(3, i, comm::Reduction::sum));
    }
    EXPECT_GT(world.waited_seconds(), 0);
    Request finished;
    finished.join(*stream);
  });
}

/// An operation of a transport whose streams can wait.
class Queued final : public Request::Pending {
 public:
  explicit Queued(std::vector<const Stream*>& joined) : joined_(joined) {}
  void wait() override { joined_.push_back(nullptr); }
  void join(Stream& stream) override { joined_.push_back(&stream); }
  bool poll(bool /*patient*/) override { return false; }

 private:
  std::vector<const Stream*>& joined_;
};

TEST(Join, LeavesTheHostToATransportThatKnowsStreams) {
  std::vector<const Stream*> joined;
  const auto stream = make_immediate_stream();
  {
    Request request(std::make_unique<Queued>(joined));
    request.join(*stream);
    EXPECT_TRUE(request.finished());
  }
  EXPECT_EQ(joined, std::vector<const Stream*>{stream.get()});
}

TEST(Join, ThrowsWhatWentWrong) {
  class Broken final : public Request::Pending {
    void wait() override { throw SystemError("a rank is no more"); }
    bool poll(bool /*patient*/) override { return false; }
  };
  const auto stream = make_immediate_stream();
  Request request(std::make_unique<Broken>());
  EXPECT_THROW(request.join(*stream), SystemError);
}

TEST(HostGroup, IsTheGroupItselfWhereItCarriesHostMemory) {
  on_ranks(2, [](Communicator& world) {
    EXPECT_EQ(&world.host(), &world);
    const auto alone = world.split(world.rank(), 0);
    EXPECT_EQ(&alone->host(), alone.get());
  });
}

/// Counts what goes through a stream.
class CountingStream final : public Stream {
 public:
  std::unique_ptr<Event> make_event() override { return inner_->make_event(); }
  void record(Event& event) override { inner_->record(event); }
  void wait(const Event& event) override { inner_->wait(event); }
  void synchronize() override { inner_->synchronize(); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    copied += to == from ? 0 : bytes;
    inner_->copy(to, from, bytes);
  }
  std::size_t copied = 0;

 private:
  std::unique_ptr<Stream> inner_ = make_immediate_stream();
};

TEST(Self, CopiesOnItsStream) {
  CountingStream stream;
  const auto runtime = open_runtime({}, {.threads = 1});
  const auto alone = comm::make_self();
  alone->attach(stream, runtime->team());
  const auto group = alone->split(0, 0);
  stream.copied = 0;
  std::vector<float> from{1, 2, 3}, to(3);
  const std::vector<std::int64_t> counts{3};
  group->all_gather(tensor_of(to), tensor_of(from), counts).join(stream);
  EXPECT_EQ(to, from);
  EXPECT_EQ(stream.copied, 12U);
  group->all_reduce(tensor_of(to), comm::Reduction::sum).join(stream);
  EXPECT_EQ(stream.copied, 12U);
}

}  // namespace
}  // namespace lockstep::test
