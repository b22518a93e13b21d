#pragma once

// Reads ranges of named tensors out of a checkpoint, whatever layout wrote it, and verifies every byte on the way: the
// manifest, the files' headers, and the checksum of every tensor that is asked for.

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/weight_source.h"

namespace lockstep::checkpoint {

class Reader final : public WeightSource {
 public:
  /// Opens the folder of a checkpoint; throws UserError when it is none, or its manifest or the header of a file is damaged, or
  /// a file is missing or has another length.
  explicit Reader(io::Path folder);

  const io::Path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// The tensor of that name, or null. "<name>.master" finds "<name>" where the model's file has the fp32 weights.
  const StoredTensor* find(std::string_view name) const;

  /// Throws UserError, listing what differs, unless the checkpoint's model has exactly these tensors, of types
  /// that read() takes.
  void check_model(std::span<const LogicalTensor> wanted) const;

  void read_model(std::span<const HeldTensor> weights, cpu::Team& team) const override;

  /// Fills all ranges, f32 from bf16 and bf16 (rounded to the nearest) from f32 where the types differ, and verifies the tensors
  /// they belong to, all elements of them. Throws UserError before reading when a tensor is missing or has another shape or type,
  /// and when one is damaged; then the contents of all ranges are undefined.
  void read(std::span<const HeldTensor> tensors, cpu::Team& team) const;

  /// Fills one range of a tensor that find() finds, of its type, and returns the range's share of the tensor's checksum: who
  /// reads all of a tensor compares their sum. For tensors larger than memory.
  std::uint64_t read_range(std::string_view name, const HeldRange& range) const;

  /// Verifies every tensor; the names of the damaged ones.
  std::vector<std::string> verify(cpu::Team& team) const;

 private:
  struct Place {
    const StoredTensor* stored;
    const io::File* file;
    std::uint64_t offset;
  };
  const Place* find_place(std::string_view name) const;
  void open_file(const StoredFile& stored);
  std::vector<std::string> read_pieces(std::span<const HeldTensor> tensors, cpu::Team& team) const;

  io::Path folder_;
  Manifest manifest_;
  std::vector<io::File> files_;
  std::unordered_map<std::string, Place> places_;
};

}  // namespace lockstep::checkpoint
