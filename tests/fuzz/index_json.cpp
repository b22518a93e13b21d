// model.safetensors.index.json: which file has which tensor.

#include "checkpoint/huggingface/folder.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const auto shards = checkpoint::huggingface::shards_of_index(text_of(input), "input");
  ensure(!shards.empty(), "an index names a file");
  for (const auto& [file, names] : shards) {
    ensure(io::Path(file).filename() == file && file.front() != '.', "a file lies in the folder");
    ensure(!names.empty(), "a file that is named has a tensor");
  }
}

}  // namespace lockstep::fuzz
