#include "checkpoint/copies/piece.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/find.h"
#include "io/checksum.h"
#include "io/folder_entries.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view piece_prefix = "piece_";
constexpr std::size_t sum_length = 16;

std::string sum_of(std::string_view text) { return fmt::format("{:016x}", io::checksum(std::as_bytes(std::span(text)), 1, 0)); }

CopiedPart part_from(const Json& json) {
  const Json::Array& values = json.array();
  const auto number = [&](std::size_t i) { return values.at(i).integer(); };
  return {values.at(0).string(), number(1), number(2), number(3), number(4), static_cast<std::uint64_t>(number(5))};
}

}  // namespace

std::string mark_of(const io::Path& checkpoint) { return sum_of(io::read_document(checkpoint / manifest_file)); }

std::string piece_text(const Piece& piece) {
  Json::Array parts;
  for (const CopiedPart& part : piece.parts)
    parts.emplace_back(Json::Array{part.tensor, part.first, part.rows, part.columns, part.stride, part.checksum});
  const std::string text =
      Json(Json::Object{{"rank", piece.rank}, {"ranks", piece.ranks}, {"follows", piece.follows}, {"parts", std::move(parts)}})
          .dump();
  return text + sum_of(text);
}

Piece parse_piece(std::string_view text, std::string_view path) {
  const std::string_view body = text.substr(0, text.size() - std::min(text.size(), sum_length));
  if (text.substr(body.size()) != sum_of(body)) throw UserError(fmt::format("{}: it was damaged", path));
  const Json json = Json::parse(body, path);
  Piece piece{
      static_cast<int>(json.at("rank").integer()), static_cast<int>(json.at("ranks").integer()), json.at("follows").string(), {}};
  for (const Json& part : json.at("parts").array()) piece.parts.push_back(part_from(part));
  return piece;
}

void write_piece(const io::Path& folder, const Piece& piece) {
  io::replace_file(folder / fmt::format("{}{}.json", piece_prefix, piece.rank), piece_text(piece));
}

std::vector<io::Path> pieces_in(const io::Path& folder) {
  std::error_code unknown;
  std::vector<io::Path> all = io::entries_of(folder, unknown);
  std::erase_if(all, [](const io::Path& path) {
    return !path.filename().string().starts_with(piece_prefix) || path.extension() != ".json";
  });
  return all;
}

CopyFiles::CopyFiles(const io::Path& folder) : reader_(folder), tables_(tables_of(reader_.manifest())) {
  files_.reserve(tables_.size());  // writers refer to them
  for (const FileTable& table : tables_) {
    files_.push_back(io::File::open_to_write(folder / table.name));
    writers_.push_back(writer_of(files_.back(), table, manifest().step));
    for (std::size_t i = 0; i < table.tensors.size(); ++i) places_.emplace(table.tensors[i].name, Place{files_.size() - 1, i});
  }
}

HeldTensor CopyFiles::hold(const CopiedPart& part, std::span<std::byte> bytes) const {
  const StoredTensor* stored = reader_.find(part.tensor);
  ensure(stored != nullptr, "what a piece tells of stands in the manifest");
  Tensor values;
  values.data = bytes.data();
  values.shape = part.stride != 0 ? Shape{part.rows, part.columns} : Shape{part.columns};
  values.dtype = stored->tensor.dtype;
  HeldTensor held{stored->tensor, {{part.first, values, part.stride}}};
  check_range(held.ranges.front(), stored->tensor);
  return held;
}

std::size_t CopyFiles::bytes_of(const CopiedPart& part) const { return hold(part, {}).ranges.front().values.bytes(); }

void CopyFiles::demand(const CopiedPart& part, std::uint64_t checksum) const {
  if (checksum == part.checksum) return;
  throw SystemError(fmt::format("{}: tensor \"{}\" has other bytes from element {} on than were written",
                                reader_.folder().string(), part.tensor, part.first));
}

HeldTensor CopyFiles::read(const CopiedPart& part, std::span<std::byte> bytes) const {
  HeldTensor held = hold(part, bytes);
  std::uint64_t checksum = 0;
  for_each_run(held.ranges.front(),
               [&](std::int64_t first, const Tensor& values) { checksum += reader_.read_range(part.tensor, {first, values}); });
  demand(part, checksum);
  return held;
}

void CopyFiles::write(const CopiedPart& part, std::span<std::byte> bytes) {
  const Place& place = places_.at(part.tensor);
  demand(part, writers_[place.file].write(place.index, hold(part, bytes).ranges.front()));
}

}  // namespace lockstep::checkpoint
