#pragma once

// Reads ranges of named tensors out of a checkpoint, whatever layout wrote it. Every byte is verified on the way: the manifest,
// the files' headers, and the checksum of every tensor that is asked for.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/not_finite.h"
#include "checkpoint/weight_source.h"

namespace lockstep::checkpoint {

class Reader final : public WeightSource {
 public:
  /// Opens the folder of a checkpoint. Throws UserError when it is none, its manifest or the header of a file is damaged, or a
  /// file is missing or has another length.
  explicit Reader(io::Path folder);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const io::Path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// The tensor of that name, or null. "<name>.master" finds "<name>" where the model's file has the fp32 weights.
  const StoredTensor* find(std::string_view name) const;

  /// Throws UserError, listing what differs, unless the checkpoint's model has exactly these tensors, of types
  /// that read() takes.
  void check_model(std::span<const LogicalTensor> wanted) const;

  /// A model with a shorter table of learned positions gets the first rows of the stored one.
  std::unique_ptr<RangeReader> read_model(std::span<const LogicalTensor> weights) const override;

  /// Reads these tensors: f32 from bf16 and bf16 (rounded to the nearest) from f32 where the types differ. Throws UserError when
  /// one is missing or has another shape or type.
  std::unique_ptr<RangeReader> read(std::span<const LogicalTensor> tensors) const;

  /// Fills one range of a tensor that find() finds, of its type, and returns the range's share of the tensor's checksum. A caller
  /// that reads all of a tensor compares the sum of the shares. For tensors larger than memory.
  std::uint64_t read_range(std::string_view name, const HeldRange& range) const;

  /// Verifies every tensor and returns the names of the damaged ones. `not_finite` learns which have elements that are not
  /// finite.
  std::vector<std::string> verify(Team& team, NotFinite* not_finite = nullptr) const;

 private:
  class Ranges;
  struct Place {
    const StoredTensor* stored;
    const io::File* file;
    std::uint64_t offset;
    /// Fills `bytes` from element `first` on; returns their share of the checksum.
    std::uint64_t read(std::int64_t first, std::span<std::byte> bytes) const;
  };
  void check_tensors(std::span<const LogicalTensor> wanted, bool crops) const;
  const Place* find_place(std::string_view name) const;
  void open_file(const StoredFile& stored);

  io::Path folder_;
  Manifest manifest_;
  std::vector<io::File> files_;
  std::unordered_map<std::string, Place> places_;
};

/// Opens a checkpoint on every rank; throws UserError on all of them when one cannot, or finds another one there than rank 0.
/// Collective.
std::unique_ptr<Reader> open_together(comm::Communicator& ranks, const io::Path& folder);

}  // namespace lockstep::checkpoint
