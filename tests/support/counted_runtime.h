#pragma once

// A runtime that counts the bytes of memory taken from it, in all its spaces.

#include "device/runtime.h"

namespace lockstep::support {

class CountedRuntime final : public Runtime {
 public:
  /// `inner` outlives it.
  explicit CountedRuntime(Runtime& inner)
      : inner_(inner),
        device_(inner.memory(Space::device)),
        pinned_(inner.memory(Space::pinned)),
        host_(inner.memory(Space::host)) {}

  std::int64_t taken() const { return device_.bytes + pinned_.bytes + host_.bytes; }
  Device device() const override { return inner_.device(); }
  std::unique_ptr<Stream> make_stream() override { return inner_.make_stream(); }
  Team& team() override { return inner_.team(); }
  std::string description() const override { return inner_.description(); }

 private:
  struct Counted final : MemorySource {
    explicit Counted(MemorySource& from) : source(from) {}
    Memory allocate(std::size_t size) override {
      bytes += static_cast<std::int64_t>(size);
      return source.allocate(size);
    }
    Device device() const override { return source.device(); }
    void release(std::byte* /*data*/, std::size_t /*size*/) noexcept override {}  // the source hands out what is its own
    MemorySource& source;
    std::int64_t bytes = 0;
  };
  MemorySource& source(Space space) override {
    return space == Space::device ? device_ : space == Space::pinned ? pinned_ : host_;
  }

  Runtime& inner_;
  Counted device_, pinned_, host_;
};

}  // namespace lockstep::support
