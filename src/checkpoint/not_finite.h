#pragma once

// Weights that are not finite are refused wherever weights are read: a model that has one computes nothing.

#include <cstddef>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace lockstep::checkpoint {

/// The tensors of a source in which weights were met that are not finite.
class NotFinite {
 public:
  /// Looks at f32 or bf16 elements of a tensor. Several threads may call it at once.
  void look(const std::string& tensor, std::span<const std::byte> bytes, DType type);
  /// Throws UserError that names these tensors, unless there is none. `source` is what was read.
  void refuse(const std::string& source, const std::string& remedy) const;
  /// Throws the same on every rank when one of them met such weights. Collective.
  void refuse(comm::Communicator& ranks, const std::string& source, const std::string& remedy) const;
  const std::set<std::string>& tensors() const { return tensors_; }

 private:
  std::mutex mutex_;
  std::set<std::string> tensors_;
};

}  // namespace lockstep::checkpoint
