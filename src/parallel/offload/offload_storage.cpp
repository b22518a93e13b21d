#include "parallel/offload/offload_storage.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "base/units.h"
#include "io/checksum.h"

namespace lockstep::parallel {
namespace {

using Kinds = OffloadStorage::Kinds;

std::size_t index(OffloadKind kind) { return static_cast<std::size_t>(kind); }
std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

/// What is in a buffer.
struct Held {
  std::size_t record = 0;
  Kinds kinds = {};
};

/// In pinned memory of the host; copies have the order of the stream.
class HostStorage final : public OffloadStorage {
 public:
  HostStorage(const OffloadMemory& memory, Stream& stream) : memory_(memory), stream_(stream) {}

  void bring(std::size_t buffer, std::size_t record, const Kinds& kinds) override {
    held_[buffer] = {record, kinds};
    move(buffer, [&](const Tensor& device, const Tensor& host) { copy(stream_, device, host); });
  }
  void arrive(std::size_t /*buffer*/) override {}
  void put_away(std::size_t buffer) override {
    move(buffer, [&](const Tensor& device, const Tensor& host) { copy(stream_, host, device); });
  }
  void leave(std::size_t /*buffer*/) override {}
  std::byte* at(std::size_t buffer, OffloadKind kind) override {
    return memory_.buffers[buffer].device.data + memory_.records[held_[buffer].record].begin(kind);
  }
  std::string description() const override { return fmt::format("{} in the host's memory", bytes_text(memory_.bytes())); }

 private:
  template <class Copy>
  void move(std::size_t buffer, const Copy& copy) {
    const OffloadRecord& record = memory_.records[held_[buffer].record];
    for (const OffloadKind kind : offload_kinds) {
      const std::int64_t bytes = record.bytes_of(kind);
      if (bytes == 0 || !held_[buffer].kinds.has(kind)) continue;
      copy(memory_.buffers[buffer].device.flat(record.begin(kind), bytes),
           memory_.kept.flat(record.offset + record.begin(kind), bytes));
    }
  }

  const OffloadMemory& memory_;
  Stream& stream_;
  std::array<Held, OffloadMemory::buffer_count> held_ = {};
};

/// In a file. Each kind of a record has a checksum from when it was written until it is read.
class DiskStorage final : public OffloadStorage {
 public:
  DiskStorage(const OffloadMemory& memory, const std::vector<layout::Unit>& units, Stream& stream)
      : memory_(memory),
        units_(units),
        stream_(stream),
        file_(memory.options.folder, static_cast<std::uint64_t>(memory.bytes()), memory.options.ways),
        written_(memory.records.size()) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const Mirror& whole = memory.buffers[b];
      const auto misfit = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(whole.host.data) % io::SpillFile::block);
      const std::int64_t first = misfit == 0 ? 0 : static_cast<std::int64_t>(io::SpillFile::block) - misfit;
      buffers_[b].blocks = whole.flat(first, whole.host.elements() - static_cast<std::int64_t>(io::SpillFile::block));
    }
  }

  void bring(std::size_t b, std::size_t record, const Kinds& kinds) override {
    Buffer& buffer = buffers_[b];
    buffer.held = {record, kinds};
    settle(stream_, buffer.blocks);
    for_each_kind(buffer, [&](OffloadKind kind, const Mirror& part) {
      if (written_[record][index(kind)]) {
        buffer.moves[index(kind)] = file_.begin_read(place(buffer, kind), elements<std::byte>(part.host));
      } else {
        std::memset(part.host.data, 0, part.host.bytes());
      }
    });
  }
  void arrive(std::size_t b) override {
    Buffer& buffer = buffers_[b];
    for_each_kind(buffer, [&](OffloadKind kind, const Mirror& part) {
      if (finish(buffer, kind)) check(buffer, kind, part);
      upload(stream_, part);
    });
  }
  void put_away(std::size_t b) override {
    Buffer& buffer = buffers_[b];
    for_each_kind(buffer, [&](OffloadKind kind, const Mirror& part) {
      download(stream_, part);
      written_[buffer.held.record][index(kind)] = checksum(part);
      buffer.moves[index(kind)] = file_.begin_write(place(buffer, kind), elements<std::byte>(part.host));
    });
  }
  void leave(std::size_t b) override {
    for (const OffloadKind kind : offload_kinds) finish(buffers_[b], kind);
  }
  std::byte* at(std::size_t b, OffloadKind kind) override {
    return buffers_[b].blocks.device.data + memory_.records[buffers_[b].held.record].begin(kind);
  }
  std::string description() const override {
    return fmt::format("{} in a file in {}, by {}", bytes_text(memory_.bytes()), memory_.options.folder.string(), file_.way());
  }

 private:
  struct Buffer {
    Mirror blocks;
    Held held = {};
    std::array<std::optional<int>, 2> moves = {};  ///< of each kind, under way
  };

  template <class Use>
  void for_each_kind(const Buffer& buffer, const Use& use) {
    const OffloadRecord& record = memory_.records[buffer.held.record];
    for (const OffloadKind kind : offload_kinds) {
      const std::int64_t bytes = record.bytes_of(kind);
      if (bytes > 0 && buffer.held.kinds.has(kind)) use(kind, buffer.blocks.flat(record.begin(kind), bytes));
    }
  }
  std::uint64_t place(const Buffer& buffer, OffloadKind kind) const {
    const OffloadRecord& record = memory_.records[buffer.held.record];
    return static_cast<std::uint64_t>(record.offset + record.begin(kind));
  }
  static std::uint64_t checksum(const Mirror& part) { return io::checksum(elements<std::byte>(part.host), 4, 0); }
  /// False when nothing was under way.
  bool finish(Buffer& buffer, OffloadKind kind) {
    std::optional<int>& move = buffer.moves[index(kind)];
    if (!move) return false;
    const int number = *move;
    move.reset();  // one that failed is over, too
    file_.finish(number);
    return true;
  }
  void check(const Buffer& buffer, OffloadKind kind, const Mirror& part) const {
    const std::uint64_t expected = written_[buffer.held.record][index(kind)].value(), found = checksum(part);
    if (found == expected) return;
    const OffloadRecord& record = memory_.records[buffer.held.record];
    throw SystemError(fmt::format(
        "offloaded {} of {}, elements {} to {}: the file in {} gives other bytes than were written (checksum {:016x}, not "
        "{:016x}); the disk or the memory is faulty: resume from the last checkpoint, elsewhere",
        kind == OffloadKind::masters ? "master weights" : "optimizer slots",
        units_[static_cast<std::size_t>(record.unit.value)].name, record.range.first, record.range.end(),
        memory_.options.folder.string(), found, expected));
  }

  const OffloadMemory& memory_;
  const std::vector<layout::Unit>& units_;
  Stream& stream_;
  io::SpillFile file_;
  std::vector<std::array<std::optional<std::uint64_t>, 2>> written_;  ///< by record and kind: the checksum; none: never
  std::array<Buffer, OffloadMemory::buffer_count> buffers_ = {};
};

}  // namespace

std::unique_ptr<OffloadStorage> open_offload_storage(const OffloadMemory& memory, const std::vector<layout::Unit>& units,
                                                     Stream& stream) {
  if (memory.needs.tier == layout::Tier::host) return std::make_unique<HostStorage>(memory, stream);
  return std::make_unique<DiskStorage>(memory, units, stream);
}

}  // namespace lockstep::parallel
