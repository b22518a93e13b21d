#pragma once

// Every byte has an owner: a table of bytes by kind, owner and name.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer, activations, workspace, data };
std::string_view name_of(MemoryKind kind);

struct LedgerEntry {
  MemoryKind kind;
  std::string owner;  ///< "h.0", "head", "optimizer"
  std::string name;   ///< "pre_activation"
  std::int64_t bytes;
};

class Ledger {
 public:
  /// `total` bytes of `kind` for `owner` were taken (overlapping entries make total less than their sum).
  void add(MemoryKind kind, const std::string& owner, std::int64_t total, const std::vector<LedgerEntry>& entries);
  std::int64_t total() const;
  std::int64_t total(MemoryKind kind) const;
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  /// A table for people: a line a kind with its largest owners, and the sum.
  std::string table() const;

 private:
  struct Sum {
    MemoryKind kind;
    std::string owner;
    std::int64_t bytes;
  };
  std::vector<Sum> sums_;
  std::vector<LedgerEntry> entries_;
};

}  // namespace lockstep
