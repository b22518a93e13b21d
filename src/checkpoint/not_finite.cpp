#include "checkpoint/not_finite.h"

#include <fmt/format.h>

#include "checkpoint/problems.h"
#include "comm/agreement.h"
#include "tensor/finite.h"

namespace lockstep::checkpoint {

void NotFinite::look(const std::string& tensor, std::span<const std::byte> bytes, DType type) {
  if (all_finite(bytes, type)) return;
  const std::lock_guard lock(mutex_);
  tensors_.insert(tensor);
}

void NotFinite::refuse(const std::string& source, const std::string& remedy) const {
  if (tensors_.empty()) return;
  std::vector<Problem> problems;
  for (const std::string& tensor : tensors_)
    problems.push_back({fmt::format("{}: tensor \"{}\" has weights that are not finite", source, tensor), remedy});
  throw_first(std::move(problems));
}

void NotFinite::refuse(comm::Communicator& ranks, const std::string& source, const std::string& remedy) const {
  comm::together(ranks, [&] { refuse(source, remedy); });
}

}  // namespace lockstep::checkpoint
