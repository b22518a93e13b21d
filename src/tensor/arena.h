#pragma once

// Memory is declared by name and owner first, measured, and allocated once (ARCHITECTURE.md, "Memory").
// Every allocating part exports a `declare(arena, ...)`; a planner runs the same declarations and never commits.
//
// Lifetimes that do not overlap share bytes: what is declared after `rewind(mark)` lies where the things declared after
// `mark()` lay. The arena's size is the high-water mark.

#include <cstdint>
#include <string>
#include <vector>

#include "device/memory.h"
#include "tensor/ledger.h"
#include "tensor/mirror.h"
#include "tensor/tensor.h"

namespace lockstep {

class Runtime;

class Arena {
 public:
  /// Addresses are aligned to 64 bytes; sizes are rounded up to a multiple of that.
  static constexpr std::int64_t alignment = 64;

  Arena(std::string owner, MemoryKind kind) : owner_(std::move(owner)), kind_(kind) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Reserves a tensor. `out` gets shape and type at once and its address at commit(): it must not move until then.
  void declare(Tensor& out, std::string name, Shape shape, DType dtype);
  /// Reserves a matrix that need not be dense. A cache line lies between rows that would begin a multiple of 1 KiB apart. A cache
  /// has few places for such addresses, and a product reads columns.
  void declare_spread(Tensor& out, std::string name, Shape shape, DType dtype);
  /// Reserves a tensor that the host writes or reads. Its twin is committed only where the device's memory is not the host's.
  void declare(Mirror& out, std::string name, Shape shape, DType dtype);

  /// What is declared while this lives belongs to a layer of the model ("h.0"), and is entered under its name.
  class InLayer {
   public:
    InLayer(Arena& arena, std::string layer) : arena_(arena) { arena_.layer_ = std::move(layer); }
    InLayer(const InLayer&) = delete;
    InLayer& operator=(const InLayer&) = delete;
    ~InLayer() { arena_.layer_.clear(); }

   private:
    Arena& arena_;
  };
  /// A layer's part of a tensor.
  struct Part {
    std::string layer;
    std::int64_t bytes;
  };
  /// Says that several layers have the tensor that was declared last. It is entered as their parts, which add up to it.
  void divide(std::string name, const std::vector<Part>& parts);

  using Mark = std::int64_t;
  Mark mark() const { return top_; }
  void rewind(Mark to);
  /// Ends sharing: what is declared from now on shares bytes with nothing declared so far. It moves the cursor to the
  /// high-water mark; call it after your last rewind() if others declare after you.
  void keep() { top_ = high_; }

  std::int64_t bytes() const { return high_; }
  /// Allocates bytes() from the runtime's device memory, and twins from its pinned memory where that is apart. Fills in the
  /// addresses and enters them into the ledger. It may be called once.
  void commit(Runtime& runtime, Ledger& ledger);
  /// Commits with the device's memory from `source`, which is on the runtime's device.
  void commit(Runtime& runtime, MemorySource& source, Ledger& ledger);
  /// Commits with all memory from `source`. An arena with twins needs the host's memory here.
  void commit(MemorySource& source, Ledger& ledger);
  /// What a commit() to a device's memory enters into the ledger, before or after it.
  void enter(Ledger& ledger, Device device = {}) const;
  bool committed() const { return memory_.data() != nullptr; }
  /// What was declared, in order: the ledger's entries, without allocating.
  const std::vector<LedgerEntry>& entries() const { return entries_; }

 private:
  struct Reservation {
    Tensor* out;
    std::int64_t offset;
  };
  struct Twin {
    Mirror* mirror;
    std::int64_t offset;
  };
  void reserve(Tensor& out, std::string name, Shape shape, DType dtype, std::int64_t row_stride);
  void allocate(MemorySource& source, MemorySource* pinned, Ledger& ledger);
  std::string twin_owner() const { return owner_ + ", host's side"; }

  std::string owner_, layer_;
  MemoryKind kind_;
  std::int64_t top_ = 0, high_ = 0;
  std::vector<Reservation> reservations_;
  std::vector<LedgerEntry> entries_;
  std::int64_t twin_bytes_ = 0;
  std::vector<Twin> twins_;
  std::vector<LedgerEntry> twin_entries_;
  Memory memory_, twin_memory_;
};

}  // namespace lockstep
