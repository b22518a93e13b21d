#pragma once

// Writes one checkpoint: `<run>/checkpoints/step_N/` with its files and, last, the manifest. Each rank writes the ranges that it
// holds, at the places that follow from the tables of all tensors. Rank 0 makes the folder and gives it its name. The folder is
// hidden and gets its name only when everything is on the device. So a save that is interrupted at any point, or fails on any
// rank, leaves the earlier checkpoints as they were.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/agreement.h"
#include "io/new_folder.h"

namespace lockstep::checkpoint {

/// A file of a checkpoint, the same on every rank. A tensor's name is unique over all files.
struct FileTable {
  std::string name;
  std::vector<LogicalTensor> tensors;
};

/// The files that a checkpoint with this manifest has.
std::vector<FileTable> tables_of(const Manifest& manifest);
/// Writes the table's file in a checkpoint of that step.
TensorFileWriter writer_of(io::File& file, const FileTable& table, std::int64_t step);

struct SaveReport {
  io::Path folder;
  std::uint64_t bytes = 0;     ///< of all files
  double durable_seconds = 0;  ///< until all was on the device, from the start
  double waited_seconds = 0;   ///< the part of that time that the caller waited
};

class Writer {
 public:
  /// Starts the checkpoint of `step` of a run. Rank 0 makes its hidden folder, lays out the files in it, and deletes what dead
  /// saves left. Throws UserError on every rank when the file system has not enough space, or a rank cannot write the files.
  /// `whole`: `ranks` write all of it. Else others write the rest into a folder of their own, and this one has holes. Collective
  /// over `ranks`, which outlives this.
  Writer(comm::Communicator& ranks, const io::Path& run, std::int64_t step, std::vector<FileTable> files, bool whole = true);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Writes those of the ranges that count; all ranks together write every element of every tensor once. Not collective: what
  /// fails is said by commit(), so that the ranks stay together.
  void write(std::span<const HeldTensor> tensors, Team& team);

  /// Syncs the files; then rank 0 writes the manifest (its step, files and tensors are filled in) and gives the folder its name.
  /// What fails on one rank is thrown on all, and nothing is left behind. Collective.
  SaveReport commit(Manifest manifest);

  // The same in steps that are not collective, for threads beside the rank's own. What fails is thrown where it fails.
  struct Place {
    std::size_t file, index;
  };
  /// At most part_bytes of one of this rank's ranges, and the tensor of a table that it is of.
  struct Part {
    Place place;
    HeldRange range;
  };
  const std::string& name_of(const Place& place) const { return tables_[place.file].tensors[place.index].name; }
  /// The parts of those ranges of `tensors` that count.
  std::vector<Part> parts_of(std::span<const HeldTensor> tensors) const;
  /// Writes a part and returns its checksum. Several threads may call it at once.
  std::uint64_t write(const Part& part) { return writers_[part.place.file].write(part.place.index, part.range); }
  /// Throws SystemError where the file's bytes of the part do not have that checksum.
  void verify(const Part& part, std::uint64_t checksum) const;
  /// Returns when what this rank wrote is on the device.
  void sync();
  /// When all ranks have written all: the manifest with its step, files and tensors. Collective over `all` that wrote.
  Manifest completed(Manifest manifest, comm::Communicator& all);
  /// Whether this is rank 0, which makes the folder.
  bool publishes() const { return folder_ != nullptr; }
  /// Rank 0, when all ranks have synced: writes the completed manifest and gives the folder its name. Elsewhere nothing.
  void publish(const Manifest& manifest);
  /// The report of the checkpoint that `manifest` completes, as of now.
  SaveReport report(const Manifest& manifest) const;

 private:
  void lay_out(const io::Path& run, bool whole);
  void open_files();
  void write_ranges(std::span<const HeldTensor> tensors, Team& team);

  double start_;
  comm::Communicator& ranks_;
  io::Path target_, partial_;
  std::int64_t step_;
  std::vector<FileTable> tables_;
  std::unique_ptr<io::NewFolder> folder_;  ///< rank 0's
  std::vector<io::File> files_;
  std::vector<TensorFileWriter> writers_;
  std::unordered_map<std::string_view, Place> places_;
  comm::Attempts attempts_;
};

}  // namespace lockstep::checkpoint
