#include "data/text/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/text/utf8.h"
#include "base/units.h"
#include "data/bpe/words.h"
#include "data/text/list_rows.h"
#include "io/folder_entries.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t searched_bytes = 4096;  // at a time, for a cut

std::span<std::byte> writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

class FolderWalk {
 public:
  FolderWalk(io::Path root, const TextRules& rules, const io::Path& except) : root_(std::move(root)), rules_(rules) {
    std::error_code none;
    except_ = fs::weakly_canonical(except, none);
    visit(root_);
  }
  TextSource take() { return std::move(source_); }

 private:
  void visit(const io::Path& folder) {
    std::error_code error;
    std::vector<io::Path> paths = io::entries_of(folder, error);
    if (error) return skip(folder, "cannot be read");
    std::sort(paths.begin(), paths.end());
    for (const io::Path& path : paths) {
      const fs::directory_entry entry(path, error);
      if (entry.is_directory(error)) {
        visit_folder(entry);
      } else {
        visit_file(entry);
      }
    }
  }

  void visit_folder(const fs::directory_entry& entry) {
    std::error_code none;
    if (hidden(entry)) return skip(entry, "hidden");
    if (entry.is_symlink(none)) return skip(entry, "a link to a folder");
    if (fs::weakly_canonical(entry, none) == except_) return skip(entry, "the output folder");
    visit(entry);
  }

  void visit_file(const fs::directory_entry& entry) {
    std::error_code none;
    if (hidden(entry)) return skip(entry, "hidden");
    if (!entry.is_regular_file(none)) return skip(entry, "not a regular file");
    if (!seen_.insert(fs::canonical(entry, none)).second) return skip(entry, "met before by another name");
    const Look look = look_or_skip(entry.path());
    if (!look.reason.empty()) return skip(entry, look.reason);
    source_.files.push_back({entry.path(), entry.path().string(), entry.file_size(), look.compression, look.rows});
  }

  // One that cannot be opened is skipped; one that is compressed and damaged is not.
  Look look_or_skip(const io::Path& path) const {
    try {
      io::File::open_to_read(path);
    } catch (const std::runtime_error&) {
      return {.reason = "cannot be read"};
    }
    Look look = look_at(path, path.string(), rules_);
    if (rules_.format == TextFormat::jsonl && look.rows == Rows::none && look.reason.empty()) look.reason = "not .jsonl";
    return look;
  }

  static bool hidden(const fs::directory_entry& entry) { return entry.path().filename().string().starts_with('.'); }
  void skip(const io::Path& path, const std::string& reason) {
    source_.skipped.push_back({path.lexically_relative(root_).string(), reason});
  }

  io::Path root_, except_;
  const TextRules& rules_;
  std::set<io::Path> seen_;
  TextSource source_;
};

// The format of files that are to say it.
TextFormat format_of(const TextSource& source, const io::Path& folder) {
  const auto jsonl = std::ranges::count_if(source.files, [](const TextFile& file) { return file.rows != Rows::none; });
  if (jsonl == 0) return TextFormat::text;
  if (jsonl == std::ssize(source.files)) return TextFormat::jsonl;
  throw UserError(fmt::format("{} has {} files of JSONL and {} other text files", folder.string(), format_count(jsonl),
                              format_count(std::ssize(source.files) - jsonl)),
                  "--format jsonl takes the documents of the former alone, --format text the bytes of all");
}

// The split of a data set that a file is named after: "train-00000-of-00002.jsonl", "validation.txt"; empty: none.
std::string_view split_of(const TextFile& file) {
  const std::string name = file.path.filename().string();
  const std::string_view first = std::string_view(name).substr(0, name.find_first_of(".-_"));
  constexpr std::array<std::string_view, 7> splits = {"train", "validation", "valid", "val", "dev", "test", "eval"};
  const auto* const found = std::ranges::find(splits, first);
  return found == splits.end() ? "" : *found;
}

void warn_of_splits(const TextSource& source, Log& log) {
  std::map<std::string_view, std::string> named;  // a file of each
  for (const TextFile& file : source.files) named.emplace(split_of(file), file.name);
  named.erase("");
  const auto train = named.find("train");
  if (train == named.end() || named.size() == 1) return;
  const std::string& other = std::next(train) != named.end() ? std::next(train)->second : named.begin()->second;
  log.warning(
      fmt::format("{} and {} are read as one text, whose last tenth is for validation; to leave a split out, prepare {} alone",
                  train->second, other, train->second));
}

// 1 + the line feeds before a byte.
std::int64_t line_of(const io::File& file, std::uint64_t place) {
  std::string block;
  std::int64_t line = 1;
  for (std::uint64_t at = 0; at < place; at += block.size()) {
    block.resize(static_cast<std::size_t>(std::min(TextPieces::piece_bytes, place - at)));
    file.read_at(at, writable(block));
    line += std::count(block.begin(), block.end(), '\n');
  }
  return line;
}

}  // namespace

std::uint64_t TextSource::bytes() const {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const TextFile& file) { return sum + file.bytes; });
}

TextSource file_source(const io::Path& path, std::string name, const TextRules& rules) {
  TextSource source;
  source.format = rules.format;
  const Look look = look_at(path, name, rules);
  if (rules.format == TextFormat::automatic) source.format = look.rows != Rows::none ? TextFormat::jsonl : TextFormat::text;
  if (!look.problem.message.empty()) throw UserError(std::vector<Problem>{look.problem});
  source.files.push_back({path, std::move(name), io::File::open_to_read(path).size(), look.compression, look.rows});
  return source;
}

std::unique_ptr<io::ByteStream> open_text(const TextFile& file) {
  std::unique_ptr<io::ByteStream> stream = io::open_stream(file.path);
  if (file.compression != io::Compression::none) stream = io::unpacked(std::move(stream), file.compression, file.name);
  return file.rows == Rows::list ? rows_of_list(std::move(stream), file.name) : std::move(stream);
}

std::unique_ptr<io::ByteStream> open_text(const io::Path& path) {
  const Look look = look_at(path, path.string(), {});
  return open_text({.path = path, .name = path.string(), .compression = look.compression, .rows = look.rows});
}

TextSource folder_source(const io::Path& folder, const TextRules& rules, const io::Path& except) {
  TextSource source = FolderWalk(folder, rules, except).take();
  if (source.files.empty()) {
    const std::string first =
        source.skipped.empty() ? "" : fmt::format("; {}: {}", source.skipped[0].name, source.skipped[0].reason);
    throw UserError(fmt::format("no text files in {} ({} entries were skipped{})", folder.string(), source.skipped.size(), first),
                    "name a folder that holds text, or one file");
  }
  source.format = rules.format == TextFormat::automatic ? format_of(source, folder) : rules.format;
  return source;
}

void log_found(const TextSource& source, Log& log) {
  constexpr std::size_t named = 3;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const SkippedFile& file : source.skipped) by_reason[file.reason].push_back(file.name);
  for (const auto& [reason, names] : by_reason) {
    std::string list;
    for (std::size_t i = 0; i < std::min(named, names.size()); ++i) list += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > named) list += fmt::format(" and {} more", names.size() - named);
    log.info(fmt::format("skipped, {}: {}", reason, list));
  }
  warn_of_splits(source, log);
}

TextPieces::TextPieces(const TextSource& source, Cut cut, std::uint64_t bytes_a_piece, const Tokenizer* tokenizer)
    : source_(source), cut_(cut), bytes_a_piece_(bytes_a_piece), tokenizer_(tokenizer) {
  for (std::size_t file = 0; file < source.files.size(); ++file) {
    const std::uint64_t size = source.files[file].bytes;
    for (std::uint64_t begin = 0; begin < size; begin += bytes_a_piece) {
      ranges_.push_back({file, begin, std::min(size, begin + bytes_a_piece)});
    }
  }
}

std::uint64_t TextPieces::line_behind(const io::File& file, const TextFile& text, std::uint64_t nominal) const {
  const std::uint64_t size = text.bytes;
  const std::uint64_t last = std::min(size, nominal + longest_line);
  std::string window;
  for (std::uint64_t at = nominal - 1; at < last; at += window.size()) {
    window.resize(static_cast<std::size_t>(std::min(searched_bytes, last - at)));
    file.read_at(at, writable(window));
    if (const std::size_t found = window.find('\n'); found != std::string::npos) return at + found + 1;
  }
  if (last == size) return size;
  throw UserError(
      fmt::format("{}, {} {}: longer than {}", text.name, text.unit(), line_of(file, nominal), format_bytes(longest_line)),
      "cut the document into several; text that is no JSONL is prepared with --format text");
}

// The cut that belongs to a nominal one: the same for the pieces on both its sides.
std::uint64_t TextPieces::cut_behind(const io::File& file, const TextFile& text, std::uint64_t nominal) const {
  const std::uint64_t size = text.bytes;
  if (nominal == 0 || nominal == size) return nominal;
  if (cut_ == Cut::line) return line_behind(file, text, nominal);
  std::string window;
  const auto read = [&](std::uint64_t begin, std::uint64_t bytes) {
    window.resize(static_cast<std::size_t>(std::min(bytes, size - begin)));
    file.read_at(begin, writable(window));
  };
  if (cut_ == Cut::word) {
    const std::uint64_t last = std::min(size, nominal + bytes_a_piece_);
    const auto boundary = [&] { return tokenizer_ != nullptr ? tokenizer_->boundary(window, 1) : bpe::word_boundary(window, 1); };
    for (std::uint64_t at = nominal - 1; at + 1 < last; at += window.size() - 1) {
      read(at, std::min(searched_bytes, last - at));
      if (const std::size_t found = boundary(); found != std::string::npos) return at + found;
    }
    if (last == size) return size;
  }
  read(nominal, longest_tail);
  std::size_t tail = 0;
  while (tail < window.size() && is_continuation(window[tail])) ++tail;
  return nominal + tail;
}

TextPieces::Piece TextPieces::read(std::size_t index, std::string& buffer) const {
  const Range& range = ranges_[index];
  const TextFile& text = source_.files[range.file];
  const io::File file = io::File::open_to_read(text.path);
  const std::uint64_t begin = cut_behind(file, text, range.begin), end = cut_behind(file, text, range.end);
  buffer.resize(static_cast<std::size_t>(end - begin));
  file.read_at(begin, writable(buffer));
  return {buffer, &text, begin};
}

}  // namespace lockstep::data
