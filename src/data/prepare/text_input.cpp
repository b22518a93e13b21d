#include "data/prepare/text_input.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <span>

#include "base/error.h"
#include "io/checksum.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse_device(const std::string& name) {
  throw UserError(fmt::format("{} is a device, and its text may have no end", name),
                  "put what is needed of it into a file (head -c), and name that");
}

// A terminal ends when its user says so; other devices do not.
void check_standard_input(std::FILE* file) {
  struct stat status{};
  const int descriptor = ::fileno(file);
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 || ::isatty(descriptor) == 1) return;
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) refuse_device("standard input");
}

}  // namespace

TextSource find_text(const PrepareOptions& options, const TextRules& rules, Log& log) {
  if (!io::exists(options.input)) {
    throw UserError(fmt::format("there is no text {}", options.input), "name a file, a folder, or - for standard input");
  }
  const auto type = std::filesystem::status(options.input).type();
  if (type == std::filesystem::file_type::character || type == std::filesystem::file_type::block) refuse_device(options.input);
  if (io::is_special(options.input)) return {};
  if (!io::is_folder(options.input)) return file_source(options.input, options.input, rules);
  TextSource source = folder_source(options.input, rules, options.out);
  log_found(source, log);
  return source;
}

void refuse_zeros(const TextPieces::Piece& piece) {
  const std::size_t zero = piece.text.find('\0');
  if (zero == std::string_view::npos) return;
  throw UserError(fmt::format("{} is no text: its byte {} is zero", piece.file->name, piece.begin + zero),
                  "name text or JSONL; --binary takes any file's bytes as they are, with --tokenizer byte");
}

std::uint64_t checksum_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const std::size_t words = bytes.size() / 8 * 8;
  return io::checksum(bytes.first(words), 8, 0) + io::checksum(bytes.subspan(words), 1, words);
}

std::uint64_t least_token_bytes(TokenizerChoice::Kind kind, std::uint64_t text_bytes, std::int64_t characters) {
  using Kind = TokenizerChoice::Kind;
  if (kind == Kind::bytes) return 2 * text_bytes;
  if (kind != Kind::characters) return text_bytes / 16;
  return characters > 0 ? 2 * static_cast<std::uint64_t>(characters) : text_bytes / 2;
}

TextSource Spools::stream(const TextRules& rules) {
  const bool standard = options_.input == "-";
  if (standard) check_standard_input(options_.standard_input);
  // Who writes into a pipe may take as long as it takes: like standard input.
  const std::unique_ptr<io::ByteStream> stream =
      standard ? io::stream_of(options_.standard_input) : io::open_stream(options_.input, {.silent = std::nullopt});
  const std::string name = standard ? "standard input" : options_.input;
  return file_source(keep(*stream, name), name, rules);
}

void Spools::unpack(TextSource& source) {
  for (TextFile& file : source.files) {
    if (file.plain()) continue;
    file.path = keep(*open_text(file), file.name);
    file.bytes = io::File::open_to_read(file.path).size();
  }
}

io::Path Spools::keep(io::ByteStream& stream, const std::string& name) {
  const io::Path path = folder_ / fmt::format(".text-{}", spools_.size());
  return spools_.emplace_back(std::make_unique<Spool>(stream, name, path, options_.free_bytes))->path();
}

}  // namespace lockstep::data
