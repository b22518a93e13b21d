#include "checkpoint/huggingface/import.h"

#include <fmt/format.h>

#include "arch/config_json.h"
#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/writer.h"
#include "io/new_folder.h"
#include "io/space.h"

namespace lockstep::checkpoint::huggingface {
namespace {

void write_piece(TensorFileWriter& writer, std::size_t index, std::int64_t first, std::span<float> values, DType type) {
  const Shape shape{std::ssize(values)};
  if (type == DType::f32) return static_cast<void>(writer.write(index, {first, view(values, shape)}));
  std::vector<std::byte> rounded(values.size() * size_of(type));
  static_cast<void>(round_to(values, ElementType::bf16, rounded));
  Tensor narrow;
  narrow.data = rounded.data();
  narrow.shape = shape;
  narrow.dtype = type;
  writer.write(index, {first, narrow});
}

}  // namespace

void demand_new(const io::Path& folder) {
  std::error_code ignored;
  if (folder.empty() || std::filesystem::exists(std::filesystem::symlink_status(folder, ignored))) {
    throw UserError(fmt::format("{}: there is something of that name already", folder.string()),
                    "name a folder that is to be made");
  }
}

std::uint64_t import_model(const Weights& weights, const io::Path& folder, DType type, const Json& run, Team& team) {
  ensure(type == DType::f32 || type == DType::bf16, "weights are fp32 or bf16");
  demand_new(folder);
  std::vector<LogicalTensor> tensors;
  for (const auto& parameter : weights.parameters()) tensors.push_back({parameter.name, parameter.shape, type});
  io::make_folders(io::folder_of(folder));
  io::NewFolder target(folder);
  io::File file = io::File::create(target.path() / model_file);
  TensorFileWriter writer(file, tensors, {{"format", "pt"}, {"step", "0"}});
  io::demand_space(io::folder_of(folder), writer.header().file_bytes, "the checkpoint");
  writer.lay_out();
  weights.for_each_piece(team, [&](std::size_t index, std::int64_t first, std::span<float> values) {
    write_piece(writer, index, first, values, type);
  });
  file.sync();
  file.close();
  Manifest manifest;
  manifest.model = arch::to_json(weights.config());
  manifest.run = run;
  manifest.dtype = type;
  manifest.master_is_model = type == DType::f32;
  manifest.files.push_back({std::string(model_file), writer.header().file_bytes, writer.header_checksum()});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    manifest.tensors.push_back({tensors[i], std::string(model_file), writer.tallies()[i].checksum});
  io::replace_file(target.path() / manifest_file, manifest_text(manifest));
  target.commit();
  return writer.header().file_bytes;
}

}  // namespace lockstep::checkpoint::huggingface
