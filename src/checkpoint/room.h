#pragma once

// Whether a file system has room for a checkpoint.

#include <cstdint>
#include <vector>

#include "checkpoint/writer.h"
#include "io/space.h"

namespace lockstep::checkpoint {

/// Throws UserError where the file system of `folder` has less space left than the tensors of `files` take.
inline void demand_room(const io::Path& folder, const std::vector<FileTable>& files) {
  std::uint64_t bytes = 0;
  for (const FileTable& table : files) {
    for (const LogicalTensor& tensor : table.tensors)
      bytes += static_cast<std::uint64_t>(tensor.shape.elements()) * size_of(tensor.dtype);
  }
  io::demand_space(folder, bytes, "a checkpoint");
}

}  // namespace lockstep::checkpoint
