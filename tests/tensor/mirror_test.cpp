#include "tensor/mirror.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "device/runtime.h"
#include "device/team.h"
#include "tensor/arena.h"
#include "tensor/host_pieces.h"

namespace lockstep {
namespace {

constexpr Device elsewhere{DeviceKind::cuda, 1};

/// Memory that passes for a device's.
class OtherSource final : public MemorySource {
 public:
  Memory allocate(std::size_t size) override { return host_memory().allocate(size); }
  Device device() const override { return elsewhere; }

 private:
  void release(std::byte*, std::size_t) noexcept override {}
};

class OtherRuntime final : public Runtime {
 public:
  Device device() const override { return elsewhere; }
  std::unique_ptr<Stream> make_stream() override { return make_immediate_stream(); }
  Team& team() override { return team_; }
  std::string description() const override { return "another device"; }

 private:
  MemorySource& source(Space space) override { return space == Space::device ? memory_ : host_memory(); }

  OtherSource memory_;
  Team team_{1};
};

TEST(Copy, TakesTheElementsOfDenseTensorsOfOneTypeAndSize) {
  const auto stream = make_immediate_stream();
  std::array<float, 6> from{1, 2, 3, 4, 5, 6}, to{};
  const Tensor x = view(std::span<float>(from), Shape{2, 3}), y = view(std::span<float>(to), Shape{6});
  copy(*stream, y, x);
  EXPECT_EQ(to, from);
  copy(*stream, x, x);
  EXPECT_EQ(to, from);
  EXPECT_THROW(copy(*stream, y.flat(0, 5), x), BrokenRule);
  EXPECT_THROW(copy(*stream, y.reshape(Shape{3, 2}).slice_columns(0, 1), x.slice_columns(0, 1)), BrokenRule);
  std::array<std::int32_t, 6> other{};
  EXPECT_THROW(copy(*stream, view(std::span<std::int32_t>(other), Shape{6}), x), BrokenRule);
}

TEST(Mirror, IsOneTensorWhereTheDevicesMemoryIsTheHosts) {
  const auto runtime = open_runtime({}, {.threads = 1});
  Arena arena("numbers", MemoryKind::workspace);
  Mirror numbers;
  arena.declare(numbers, "numbers", Shape{20}, DType::f32);
  Ledger before, after;
  arena.enter(before, runtime->device());
  arena.commit(*runtime, after);
  EXPECT_EQ(numbers.device.data, numbers.host.data);
  EXPECT_EQ(before.total(), 128);
  EXPECT_EQ(after.total(), 128);
}

TEST(Mirror, HasATwinThatCopiesKeepAlikeWhereItIsNot) {
  OtherRuntime runtime;
  const auto stream = runtime.make_stream();
  Arena arena("numbers", MemoryKind::workspace);
  Mirror numbers, others;
  Tensor alone;
  arena.declare(alone, "alone", Shape{100}, DType::f32);
  arena.declare(numbers, "numbers", Shape{20}, DType::f32);
  arena.declare(others, "others", Shape{1}, DType::f64);
  Ledger before, after;
  arena.enter(before, runtime.device());
  arena.commit(runtime, after);
  EXPECT_EQ(before.table(), after.table());
  EXPECT_EQ(after.total(), 448 + 128 + 64 + 128 + 64);
  EXPECT_NE(after.table().find("numbers, host's side 192 B"), std::string::npos) << after.table();

  for (const Tensor& tensor : {alone, numbers.device, others.device}) EXPECT_EQ(tensor.device, elsewhere);
  EXPECT_THROW(elements<float>(numbers.device), BrokenRule);
  const std::span<float> values = elements<float>(numbers.host);
  values[3] = 7;
  upload(*stream, numbers.flat(3, 1));
  values[3] = 8;
  upload(*stream, numbers.flat(4, 16));  // others
  download(*stream, numbers);
  EXPECT_EQ(values[3], 7);
  EXPECT_EQ(others.host.data, numbers.host.data + 128);
}

TEST(Mirror, OfADeviceNeedsMemoryOfBoth) {
  OtherSource source;
  Arena arena("numbers", MemoryKind::workspace);
  Mirror numbers;
  arena.declare(numbers, "numbers", Shape{20}, DType::f32);
  Ledger ledger;
  EXPECT_THROW(arena.commit(source, ledger), BrokenRule);
  EXPECT_NO_THROW(arena.commit(host_memory(), ledger));
  EXPECT_EQ(numbers.device.data, numbers.host.data);
}

TEST(HostPieces, AreWholeTensorsWhereTheDevicesMemoryIsTheHosts) {
  const auto stream = make_immediate_stream();
  Arena pinned("pieces", MemoryKind::workspace);
  Tensor buffer;
  HostPieces::declare(pinned, buffer, {});
  const HostPieces pieces(*stream, buffer);
  EXPECT_EQ(pinned.bytes(), 0);
  std::vector<float> numbers(HostPieces::buffer_bytes / 2);
  const Tensor values = view(std::span(numbers), Shape{std::ssize(numbers)});
  int calls = 0;
  pieces.change(values, [&](const Tensor& piece, std::int64_t first) {
    ++calls;
    EXPECT_EQ(first, 0);
    EXPECT_EQ(piece.data, values.data);
    EXPECT_EQ(piece.elements(), values.elements());
  });
  EXPECT_EQ(calls, 1);
}

TEST(HostPieces, GoThroughTheBufferWhereItIsNot) {
  OtherRuntime runtime;
  const auto stream = runtime.make_stream();
  constexpr std::int64_t most = HostPieces::buffer_bytes / 4, count = 2 * most + 5;
  Arena arena("numbers", MemoryKind::workspace), pinned("pieces", MemoryKind::workspace);
  Tensor values, buffer;
  arena.declare(values, "values", Shape{count}, DType::f32);
  HostPieces::declare(pinned, buffer, runtime.device());
  const HostPieces pieces(*stream, buffer);
  Ledger ledger;
  arena.commit(runtime, ledger);
  EXPECT_THROW(pieces.read(values, [](const Tensor&, std::int64_t) {}), BrokenRule);
  pinned.commit(runtime.memory(Space::pinned), ledger);
  std::vector<std::int64_t> firsts;
  pieces.change(values, [&](const Tensor& piece, std::int64_t first) {
    firsts.push_back(first);
    const std::span<float> part = elements<float>(piece);
    EXPECT_EQ(std::ssize(part), std::min(most, count - first));
    for (std::size_t i = 0; i < part.size(); ++i) part[i] += static_cast<float>((first + static_cast<std::int64_t>(i)) % 1000);
  });
  EXPECT_EQ(firsts, (std::vector<std::int64_t>{0, most, 2 * most}));
  std::int64_t wrong = 0;
  pieces.read(values, [&](const Tensor& piece, std::int64_t first) {
    const std::span<const float> part = elements<const float>(piece);
    for (std::size_t i = 0; i < part.size(); ++i)
      wrong += part[i] == static_cast<float>((first + static_cast<std::int64_t>(i)) % 1000) ? 0 : 1;
    elements<float>(piece)[0] = -1;  // does not go back
  });
  pieces.read(values, [&](const Tensor& piece, std::int64_t) { wrong += elements<float>(piece)[0] == -1 ? 1 : 0; });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lockstep
