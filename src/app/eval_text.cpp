#include "app/eval_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/shell.h"
#include "data/formats/known_format.h"
#include "data/prepare/encoded_part.h"
#include "data/text/source.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

/// Ids of 4 bytes as a token file has them.
class TokensInMemory final : public io::ByteSource {
 public:
  explicit TokensInMemory(std::span<const std::int32_t> ids) : ids_(ids.begin(), ids.end()) {}
  std::uint64_t size() const override { return std::as_bytes(std::span(ids_)).size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    std::ranges::copy(std::as_bytes(std::span(ids_)).subspan(offset, out.size()), out.begin());
  }

 private:
  std::vector<std::int32_t> ids_;
};

}  // namespace

bool is_plain_text(const std::string& path) {
  const io::Path file = path, folder = file.has_parent_path() ? file.parent_path() : io::Path(".");
  if (!io::exists(file) || io::is_special(file) || io::is_folder(file)) return false;
  const std::optional<data::TokenDescription> described = data::read_description(folder);
  if (described && described->find(file.filename().string()) != nullptr) return false;
  const data::FileStart start = data::start_of(io::FileBytes(file));
  const data::PlainText text = data::plain_text(start.bytes);
  const std::size_t cut_off = start.whole() ? 0 : data::longest_tail;  // bytes of the start's last character
  constexpr std::uint64_t many_bytes = 16;                             // ids are seldom all like letters
  const bool like_text = text.of > 0 && !text.zero() && text.strange <= cut_off;
  return like_text && data::known_format(start) == nullptr && (start.size >= many_bytes || file.extension() != ".bin");
}

data::TokenText tokenise(const std::string& path, const LoadedModel& loaded, const std::string& model) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  if (tokenizer == nullptr) {
    throw UserError(fmt::format("{} is text, and {}", path, loaded.no_tokenizer),
                    fmt::format("prepare it with the tokenizer that the model was trained with: {}, then {}",
                                own_command({"prepare", path, "--tokenizer", "hf:FILE", "--out", "DATA"}),
                                own_command({"eval", model, "DATA"})));
  }
  const data::TextSource source = data::file_source(path, path, {.utf8 = false});
  if (source.format == data::TextFormat::jsonl) {
    throw UserError(fmt::format("{} has a document a row, and no text", path),
                    "judge the model by its documents: " + own_command({"eval", model, "--task", path}));
  }
  const data::TextPieces pieces(source, data::Cut::word, data::TextPieces::piece_bytes, tokenizer);
  data::EncodedPart part;
  std::string buffer;
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    const data::TextPieces::Piece piece = pieces.read(i, buffer);
    part.add_text(*tokenizer, piece.text, piece.begin > 0);
  }
  if (!part.unknown().empty()) {
    throw UserError(fmt::format("{} has characters that the model's tokenizer does not have: {}", path, part.unknown()),
                    "leave them out of the text");
  }
  const auto tokens = static_cast<std::int64_t>(part.ids().size());
  return {.file = {path, {.token_bytes = 4, .vocabulary = tokenizer->vocabulary()}, std::make_unique<TokensInMemory>(part.ids())},
          .text_bytes = static_cast<std::int64_t>(source.bytes()),
          .targets = tokens};
}

}  // namespace lockstep::app
