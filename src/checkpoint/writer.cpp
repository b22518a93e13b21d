#include "checkpoint/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/timer.h"
#include "base/units.h"
#include "checkpoint/find.h"

namespace lockstep::checkpoint {
namespace {

std::uint64_t bytes_of(std::span<const HeldTensor> tensors) {
  std::uint64_t bytes = 0;
  for (const HeldTensor& held : tensors) {
    for (const HeldRange& range : held.ranges) bytes += range.values.bytes();
  }
  return bytes;
}

io::Path swept(io::Path checkpoints) {
  io::make_folders(checkpoints);
  io::remove_dead_folders(checkpoints);
  return checkpoints;
}

}  // namespace

void check_space(const io::Path& folder, std::uint64_t needed, std::string_view what) {
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  if (!unknown && space.available < needed) {
    throw UserError(fmt::format("{}: {} needs {}, the file system has {} left", folder.string(), what, format_bytes(needed),
                                format_bytes(space.available)),
                    "free some space, or choose a folder on another file system");
  }
}

Writer::Writer(const io::Path& checkpoints, std::int64_t step)
    : target_(swept(checkpoints) / folder_name(step)), step_(step), folder_(target_) {}

void Writer::write(std::string_view file, std::span<const HeldTensor> tensors, cpu::Team& team) {
  for (const HeldTensor& held : tensors) {
    if (std::any_of(written_.tensors.begin(), written_.tensors.end(),
                    [&](const StoredTensor& stored) { return stored.tensor.name == held.tensor.name; })) {
      throw UserError(fmt::format("two files of a checkpoint have a tensor \"{}\"", held.tensor.name),
                      "give every tensor its own name");
    }
  }
  open_.push_back(io::File::create(folder_.path() / file));
  TensorFileWriter writer(open_.back(), logical(tensors),
                          {{"format", "pt"}, {"step", fmt::format("{}", step_)}});  // "pt": what other readers look for
  writer.write(tensors, team);
  written_.files.push_back({std::string(file), writer.header().file_bytes, writer.header_checksum()});
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    written_.tensors.push_back({tensors[index].tensor, std::string(file), writer.checksum(index)});
  }
}

io::Path Writer::commit(Manifest manifest) {
  for (io::File& file : open_) {
    file.sync();
    file.close();
  }
  manifest.step = step_;
  manifest.files = std::move(written_.files);
  manifest.tensors = std::move(written_.tensors);
  io::replace_file(folder_.path() / manifest_file, manifest_text(manifest));
  folder_.commit();
  return target_;
}

SaveReport save(const io::Path& run, const Content& content, Manifest manifest, cpu::Team& team) {
  const double start = now_seconds();
  SaveReport report;
  const io::Path checkpoints = run / checkpoints_folder;
  Writer writer(checkpoints, manifest.step);
  check_space(checkpoints, bytes_of(content.model) + bytes_of(content.optimizer), "a checkpoint");
  writer.write(model_file, content.model, team);
  writer.write(optimizer_file, content.optimizer, team);
  report.written_seconds = now_seconds() - start;
  report.folder = writer.commit(std::move(manifest));
  report.bytes = read_manifest(report.folder).bytes();
  report.durable_seconds = now_seconds() - start;
  return report;
}

}  // namespace lockstep::checkpoint
