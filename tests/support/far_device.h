#pragma once

// A device whose memory the host cannot reach: its pages are protected but while a kernel or a copy runs. A touch from anywhere
// else ends the program. Copies are done when somebody waits for them (late_streams.h). Its kernels are the CPU's, so that what
// is computed on it has the CPU's bits.

#include <sys/mman.h>

#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "device/team.h"
#include "support/late_streams.h"
#include "support/machine.h"

namespace lockstep::support {

class FarMemory final : public MemorySource {
 public:
  Memory allocate(std::size_t size) override {
    if (size == 0) return {};
    void* data = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw SystemError("no memory");
    taken_[static_cast<std::byte*>(data)] = size;
    return {this, static_cast<std::byte*>(data), size};
  }
  Device device() const override { return {DeviceKind::cuda, 0}; }

  void open() { protect(PROT_READ | PROT_WRITE); }
  void close() noexcept { protect(PROT_NONE); }
  LateWork& work() { return work_; }

 private:
  // Work that is not done may still need it.
  void release(std::byte* data, std::size_t size) noexcept override {
    work_.finish_all();
    taken_.erase(data);
    munmap(data, size);
  }
  void protect(int access) noexcept {
    for (const auto& [data, size] : taken_) mprotect(data, size, access);
  }
  bool has(const std::byte* address) const {
    const auto next = taken_.upper_bound(const_cast<std::byte*>(address));
    return next != taken_.begin() && address < std::prev(next)->first + std::prev(next)->second;
  }

  LateWork work_{{[this] { open(); }, [this] { close(); }, [this](const std::byte* address) { return has(address); }}};
  std::map<std::byte*, std::size_t> taken_;
};

/// Pinned memory of the host. Copies from it may be under way when it is given back.
class FarPinned final : public MemorySource {
 public:
  FarPinned(MemorySource& host, LateWork& work) : host_(host), work_(work) {}
  Memory allocate(std::size_t size) override {
    Memory memory = host_.allocate(size);
    std::byte* const data = memory.data();
    if (data == nullptr) return {};
    taken_[data] = std::move(memory);
    return {this, data, size};
  }

 private:
  void release(std::byte* data, std::size_t /*size*/) noexcept override {
    work_.finish_all();
    taken_.erase(data);
  }

  MemorySource& host_;
  LateWork& work_;
  std::map<std::byte*, Memory> taken_;
};

class FarRuntime final : public Runtime {
 public:
  explicit FarRuntime(int threads) : cpu_(open_runtime({}, {.threads = threads})) {}
  Device device() const override { return memory_.device(); }
  std::unique_ptr<Stream> make_stream() override;
  Team& team() override { return cpu_->team(); }
  std::string description() const override { return "a far device"; }

  FarMemory& far() { return memory_; }
  /// The CPU's runtime, on which the far device's kernels run.
  Runtime& cpu() { return *cpu_; }

 private:
  MemorySource& source(Space space) override {
    if (space == Space::host) return cpu_->memory(space);
    return space == Space::device ? static_cast<MemorySource&>(memory_) : pinned_;
  }

  std::unique_ptr<Runtime> cpu_;
  FarMemory memory_;
  FarPinned pinned_{cpu_->memory(Space::pinned), memory_.work()};
};

inline std::unique_ptr<Stream> FarRuntime::make_stream() { return std::make_unique<LateStream>(memory_.work()); }

/// Opens the memory for kernels, once the work that was issued before them is done.
class FarScopes final : public ops::OpObserver {
 public:
  explicit FarScopes(FarMemory& memory) : memory_(memory) {}
  void begin(const ops::OpCall& /*call*/) override {
    memory_.work().finish_all();
    memory_.open();
  }
  void end(const ops::OpCall& /*call*/) noexcept override { memory_.close(); }

 private:
  FarMemory& memory_;
};

/// Runtime, stream and kernels of one rank on a far device.
class FarMachine {
 public:
  explicit FarMachine(int threads = 2) : FarMachine(std::make_unique<FarRuntime>(threads)) {}
  Machine& machine() { return machine_; }

 private:
  explicit FarMachine(std::unique_ptr<FarRuntime> runtime)
      : scopes_(runtime->far()), machine_(assemble(std::move(runtime), scopes_)) {}
  static Machine assemble(std::unique_ptr<FarRuntime> runtime, FarScopes& scopes) {
    std::unique_ptr<Stream> stream = runtime->make_stream();
    std::unique_ptr<ops::Ops> kernels = ops::make_ops(runtime->cpu(), *stream, {.observer = &scopes});
    return {std::move(runtime), std::move(stream), std::move(kernels)};
  }

  FarScopes scopes_;
  Machine machine_;
};

}  // namespace lockstep::support
