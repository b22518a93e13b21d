#pragma once

// A parameter store that lends each lease a copy of its part, and writes down what it is asked for. The copy becomes NaN when the
// lease has ended. So a read of weights outside of a lease, or of more than was leased, gives NaN. Ranks must have equal records:
// otherwise they would wait for each other for ever where a lease is a collective.

#include <algorithm>
#include <cstdlib>
#include <list>
#include <memory>
#include <vector>

#include "parallel/stores.h"

namespace lockstep::support {

/// One thing that a rank asked of its store.
struct StoreCall {
  enum class Kind : std::uint8_t { begin, lease, release, updated } kind;
  layout::Access access = {};              ///< of a lease or of a lease's end
  std::vector<layout::Access> order = {};  ///< of a call that announces leases
  friend bool operator==(const StoreCall&, const StoreCall&) = default;
};
using StoreCalls = std::vector<StoreCall>;

class CheckingStore final : public parallel::ParameterStore {
 public:
  using Kind = StoreCall::Kind;
  /// `calls` outlives the store.
  CheckingStore(std::unique_ptr<parallel::ParameterStore> store, StoreCalls& calls) : store_(std::move(store)), calls_(calls) {}

  const std::vector<layout::Unit>& units() const override { return store_->units(); }
  DType dtype() const override { return store_->dtype(); }
  DType owned_dtype() const override { return store_->owned_dtype(); }
  Shard shard(UnitIndex unit) override { return store_->shard(unit); }
  void add_packed(UnitIndex unit, const parallel::PackedMatrix& matrix) override { store_->add_packed(unit, matrix); }
  void begin(const std::vector<layout::Access>& order) override {
    ensure(lent_.empty(), "every lease of a step ends in it");
    calls_.push_back({.kind = Kind::begin, .order = order});
    store_->begin(order);
  }
  void updated(Changed what) override {
    ensure(lent_.empty(), "weights that are lent do not change");
    calls_.push_back({.kind = Kind::updated});
    store_->updated(what);
  }
  parallel::Lease lease(const layout::Access& access) override {
    calls_.push_back({.kind = Kind::lease, .access = access});
    const Lent& lent = lent_.emplace_back(access, store_->lease(access), buffer());
    Tensor copy = lent.own.flat();
    ensure(copy.bytes() <= buffer_bytes(), "a buffer has room for every unit");
    copy.data = lent.buffer.get();
    std::copy_n(lent.own.flat().data, copy.bytes(), copy.data);
    return {this, access, copy, lent.own.packed()};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  using Buffer = std::unique_ptr<std::byte, Free>;
  struct Lent {
    Lent(const layout::Access& of, parallel::Lease lease, Buffer memory)
        : access(of), own(std::move(lease)), buffer(std::move(memory)) {}
    layout::Access access;
    parallel::Lease own;
    Buffer buffer;
  };

  std::size_t buffer_bytes() const {
    std::int64_t most = 0;
    for (const layout::Unit& unit : units()) most = std::max(most, unit.elements);
    return static_cast<std::size_t>(most) * size_of(dtype());
  }
  /// A buffer that has been given back, so that other weights get the same address, or else a new one.
  Buffer buffer() {
    if (free_.empty()) {
      Buffer made(static_cast<std::byte*>(std::aligned_alloc(64, buffer_bytes())));
      spoil(made);
      return made;
    }
    Buffer last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  // Not a number, in fp32 and in bf16.
  void spoil(const Buffer& buffer) const noexcept { std::fill_n(buffer.get(), buffer_bytes(), std::byte{0xFF}); }
  void release(const layout::Access& access) noexcept override {
    calls_.push_back({.kind = Kind::release, .access = access});
    const auto lent = std::ranges::find(lent_, access, &Lent::access);
    spoil(lent->buffer);
    free_.push_back(std::move(lent->buffer));
    lent_.erase(lent);
  }

  std::unique_ptr<parallel::ParameterStore> store_;
  StoreCalls& calls_;
  std::list<Lent> lent_;
  std::vector<Buffer> free_;
};

/// The most elements that were leased at a time, of units from `first` to before `end`.
inline std::int64_t most_leased(const StoreCalls& calls, UnitIndex first, UnitIndex end) {
  std::int64_t now = 0, most = 0;
  for (const StoreCall& call : calls) {
    const layout::Part& part = call.access.part;
    if (part.unit.value < first.value || part.unit.value >= end.value) continue;
    if (call.kind == StoreCall::Kind::lease) now += part.count();
    if (call.kind == StoreCall::Kind::release) now -= part.count();
    most = std::max(most, now);
  }
  return most;
}

/// What each rank asked for.
class StoreRecords {
 public:
  explicit StoreRecords(int ranks) : calls_(static_cast<std::size_t>(ranks)) {}
  /// Makes the plan's store and checks it.
  parallel::StoreFactory checked() {
    return [this](const parallel::ParameterMemory& memory, const parallel::Groups& groups, Stream& stream) {
      StoreCalls& calls = calls_[static_cast<std::size_t>(groups.all().rank())];
      return std::make_unique<CheckingStore>(parallel::make_parameter_store(memory, groups, stream), calls);
    };
  }
  const StoreCalls& of(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(calls_.size()); }

 private:
  std::vector<StoreCalls> calls_;
};

}  // namespace lockstep::support
