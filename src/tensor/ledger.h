#pragma once

// Every byte has an owner: a table of bytes by kind, owner (an arena), layer of the model and tensor.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer, activations, workspace, data };
std::string_view name_of(MemoryKind kind);

struct LedgerEntry {
  MemoryKind kind;
  std::string owner;  ///< "weights bf16", "activations"
  std::string name;   ///< "pre_activation"
  std::int64_t bytes;
  std::string layer = {};  ///< "h.0", "head"; empty: it belongs to no single layer
  /// The part of `bytes` that no earlier entry of the owner shares. An owner's parts add up to the bytes that its entries take.
  std::int64_t taken = 0;
};

/// A tensor of all layers that have one of the name.
struct LedgerTensor {
  MemoryKind kind;
  std::string name;
  std::int64_t layers = 0;  ///< 0: the tensor belongs to no single layer
  std::int64_t bytes = 0;   ///< bytes that it takes in all layers together
};

class Ledger {
 public:
  /// `total` bytes of `kind` for `owner` were taken (overlapping entries make total less than their sum).
  void add(MemoryKind kind, const std::string& owner, std::int64_t total, const std::vector<LedgerEntry>& entries);
  std::int64_t total() const;
  std::int64_t total(MemoryKind kind) const;
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  /// Everything by tensor, the largest first; bytes that an owner has not told the names of are under its own.
  std::vector<LedgerTensor> tensors() const;
  /// Tables for people. A line for each kind with its largest owners, and the sum.
  std::string table() const;
  /// A line for each layer with a column for each kind, and the sum. Neighbouring layers that take the same share a line.
  std::string layer_table() const;
  /// A line for each tensor, the largest first, and one for all small tensors.
  std::string tensor_table() const;

 private:
  struct Sum {
    MemoryKind kind;
    std::string owner;
    std::int64_t bytes;
  };
  /// Bytes of `sum` that its entries do not account for.
  std::int64_t unnamed(const Sum& sum) const;

  std::vector<Sum> sums_;
  std::vector<LedgerEntry> entries_;
};

}  // namespace lockstep
