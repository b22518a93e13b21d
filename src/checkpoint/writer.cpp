#include "checkpoint/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/timer.h"
#include "checkpoint/find.h"
#include "checkpoint/room.h"

namespace lockstep::checkpoint {

std::vector<FileTable> tables_of(const Manifest& manifest) {
  std::vector<FileTable> tables;
  for (const StoredFile& file : manifest.files) {
    FileTable& table = tables.emplace_back(FileTable{file.name, {}});
    for (const StoredTensor& stored : manifest.tensors) {
      if (stored.file == file.name) table.tensors.push_back(stored.tensor);
    }
  }
  return tables;
}

TensorFileWriter writer_of(io::File& file, const FileTable& table, std::int64_t step) {
  return {file, table.tensors, {{"format", "pt"}, {"step", fmt::format("{}", step)}}};  // "pt": what other readers look for
}

Writer::Writer(comm::Communicator& ranks, const io::Path& run, std::int64_t step, std::vector<FileTable> files, bool whole)
    : start_(now_seconds()),
      ranks_(ranks),
      target_(run / checkpoints_folder / folder_name(step)),
      partial_(io::NewFolder::path_until_commit(target_)),
      step_(step),
      tables_(std::move(files)) {
  for (std::size_t file = 0; file < tables_.size(); ++file) {
    for (std::size_t index = 0; index < tables_[file].tensors.size(); ++index) {
      const std::string& name = tables_[file].tensors[index].name;
      if (!places_.emplace(name, Place{file, index}).second) {
        throw UserError(fmt::format("a checkpoint would have two tensors \"{}\"", name), "give every tensor its own name");
      }
    }
  }
  comm::together(ranks_, [&] {
    if (ranks_.rank() == 0) lay_out(run, whole);
  });
  comm::together(ranks_, [&] { open_files(); });
}

// The files are closed again: other hosts see their size then.
void Writer::lay_out(const io::Path& run, bool whole) {
  const io::Path checkpoints = run / checkpoints_folder;
  io::make_folder(checkpoints);  // a run's folder that is gone is not made anew
  io::settle_folders(checkpoints);
  folder_ = std::make_unique<io::NewFolder>(target_);
  if (whole) demand_room(checkpoints, tables_);
  for (const FileTable& table : tables_) {
    io::File file = io::File::create(partial_ / table.name);
    writer_of(file, table, step_).lay_out();
    file.close();
  }
}

void Writer::open_files() {
  files_.reserve(tables_.size());  // writers refer to them
  for (const FileTable& table : tables_) {
    const io::Path path = partial_ / table.name;
    std::error_code ignored;
    const bool seen = std::filesystem::exists(path, ignored);
    if (seen) files_.push_back(io::File::open_to_write(path));
    if (seen) writers_.push_back(writer_of(files_.back(), table, step_));
    if (!seen || files_.back().size() != writers_.back().header().file_bytes) {
      throw UserError(fmt::format("{} is not there as rank 0 made it: the ranks see different folders", path.string()),
                      "put the run folder (log.dir) on a file system that all hosts share");
    }
  }
}

void Writer::write(std::span<const HeldTensor> tensors, Team& team) {
  attempts_.run([&] { write_ranges(tensors, team); });
}

std::vector<Writer::Part> Writer::parts_of(std::span<const HeldTensor> tensors) const {
  std::vector<Part> parts;
  for (const HeldTensor& held : tensors) {
    const auto place = places_.find(held.tensor.name);
    ensure(place != places_.end(), "what is written stands in a table");
    for (const HeldRange& range : held.ranges) {
      if (!range.counts) continue;
      for (const HeldRange& part : checkpoint::parts_of(range)) parts.push_back({place->second, part});
    }
  }
  return parts;
}

void Writer::write_ranges(std::span<const HeldTensor> tensors, Team& team) {
  const std::vector<Part> parts = parts_of(tensors);
  team.for_each(std::ssize(parts), [&](std::int64_t i, int) { write(parts[static_cast<std::size_t>(i)]); });
}

void Writer::verify(const Part& part, std::uint64_t checksum) const {
  const std::uint64_t found = writers_[part.place.file].checksum_in_file(part.place.index, part.range);
  if (found == checksum) return;
  const FileTable& table = tables_[part.place.file];
  throw SystemError(fmt::format(
      "{}: of tensor \"{}\", from element {} on, the file has other bytes than were written (checksum {:016x}, not {:016x}); the "
      "disk or the memory is faulty: put log.dir on another disk, and go on from the last checkpoint with train.init_from=resume",
      (partial_ / table.name).string(), table.tensors[part.place.index].name, part.range.first, found, checksum));
}

void Writer::sync() {
  for (io::File& file : files_) {
    file.sync_data();
    file.close();
  }
}

void Writer::publish(const Manifest& manifest) {
  if (!folder_) return;
  io::replace_file(partial_ / manifest_file, manifest_text(manifest));
  folder_->commit();
}

SaveReport Writer::report(const Manifest& manifest) const {
  return {.folder = target_, .bytes = manifest.bytes(), .durable_seconds = now_seconds() - start_};
}

SaveReport Writer::commit(Manifest manifest) {
  // Each host has its own share of the files to bring to the device.
  comm::together(ranks_, [&] {
    attempts_.rethrow();
    sync();
  });
  manifest = completed(std::move(manifest), ranks_);
  comm::together(ranks_, [&] { publish(manifest); });
  SaveReport all = report(manifest);
  all.waited_seconds = all.durable_seconds;
  return all;
}

Manifest Writer::completed(Manifest manifest, comm::Communicator& all) {
  manifest.step = step_;
  manifest.files.clear();
  manifest.tensors.clear();
  for (std::size_t file = 0; file < tables_.size(); ++file) {
    const TensorFileWriter& writer = writers_[file];
    manifest.files.push_back({tables_[file].name, writer.header().file_bytes, writer.header_checksum()});
    std::vector<Tally> tallies = writer.tallies();
    add_over(all, tallies);
    for (std::size_t index = 0; index < tallies.size(); ++index) {
      const LogicalTensor& tensor = tables_[file].tensors[index];
      ensure(tallies[index].elements == tensor.shape.elements(),
             fmt::format("the ranks wrote every element of {} once", tensor.name));
      manifest.tensors.push_back({tensor, tables_[file].name, tallies[index].checksum});
    }
  }
  return manifest;
}

}  // namespace lockstep::checkpoint
