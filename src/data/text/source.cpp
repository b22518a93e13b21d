#include "data/text/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/text/utf8.h"
#include "base/units.h"
#include "data/bpe/words.h"
#include "data/formats/known_format.h"
#include "io/folder_entries.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_tail = 3;         // continuation bytes of one character
constexpr std::uint64_t searched_bytes = 4096;  // at a time, for a cut
constexpr const char* as_it_is = "name text or JSONL; --binary takes any file's bytes as they are, with --tokenizer byte";

std::span<std::byte> writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

bool named_jsonl(io::Path name) {
  if (const std::string end = name.extension().string(); end == ".gz" || end == ".zst" || end == ".zstd")
    name.replace_extension();
  return name.extension() == ".jsonl";
}

/// What the start of a file says.
struct Look {
  io::Compression compression = io::Compression::none;
  std::string reason = {};  ///< why it is no text, in a few words; empty: it is
  Problem problem = {};     ///< the same where the user has named the file
};

FileStart start_inside(const io::Path& path, const std::string& name, io::Compression compression) {
  const std::unique_ptr<io::ByteStream> inside = io::unpacked(io::open_stream(path), compression, name);
  FileStart start;
  start.bytes.resize(FileStart::most + 1);
  start.bytes.resize(io::read_up_to(*inside, writable(start.bytes)));
  start.size = start.bytes.size();  // as far as it is known
  start.bytes.resize(std::min(start.bytes.size(), FileStart::most));
  if (start.whole()) start.end = start.bytes.substr(start.bytes.size() - std::min<std::size_t>(start.bytes.size(), 8));
  return start;
}

// For a file that no row of the known formats recognises.
Look look_at_text(const FileStart& start, const std::string& name, bool utf8) {
  const PlainText text = plain_text(start.bytes);
  if (text.zero()) {
    return {.reason = "binary (a zero byte)",
            .problem = {fmt::format("{} is no text: its byte {} is zero", name, text.zero_at),
                        std::string(as_it_is) + "; a folder of token ids is a data.dir"}};
  }
  if (text.in_bulk()) {
    return {.reason = "binary (neither UTF-8 nor another text)",
            .problem = {fmt::format("{} is no text: of its first {} bytes {} are no UTF-8, or control characters", name, text.of,
                                    text.strange),
                        std::string("text in another encoding is converted by iconv; ") + as_it_is}};
  }
  const std::size_t bad = utf8 ? invalid_utf8_at(start.bytes) : std::string::npos;
  const bool cut = bad != std::string::npos && start.bytes.size() - bad <= longest_tail && !start.whole();
  return {.reason = bad == std::string::npos || cut ? "" : "not UTF-8"};
}

Look look_at(const io::Path& path, const std::string& name, const TextRules& rules) {
  FileStart start = start_of(io::FileBytes(path));
  if (start.size == 0) return {.reason = "empty"};
  if (rules.binary) return {};
  const KnownFormat* format = known_format(start);
  Look look;
  if (format != nullptr && format->compression != io::Compression::none) {
    look.compression = format->compression;
    start = start_inside(path, name, look.compression);
    const KnownFormat* inside = known_format(start);
    if (inside != nullptr) {
      look.reason = fmt::format("{} in {}", inside->what, io::name_of(look.compression));
      look.problem = refused(*format, name);
      look.problem.message += fmt::format(", and what is in it is {}", inside->what);
      return look;
    }
  } else if (format != nullptr) {
    return {.reason = std::string(format->what), .problem = refused(*format, name)};
  }
  const bool jsonl = rules.format == TextFormat::jsonl || (rules.format == TextFormat::automatic && named_jsonl(name));
  if (jsonl) return look;  // bad lines are told
  Look text = look_at_text(start, name, rules.utf8);
  text.compression = look.compression;
  return text;
}

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
    source_.files.push_back({entry.path(), entry.path().string(), entry.file_size(), look.compression});
  }

  // One that cannot be opened is skipped; one that is compressed and damaged is not.
  Look look_or_skip(const io::Path& path) const {
    if (rules_.format == TextFormat::jsonl && !named_jsonl(path)) return {.reason = "not .jsonl"};
    try {
      io::File::open_to_read(path);
    } catch (const std::runtime_error&) {
      return {.reason = "cannot be read"};
    }
    return look_at(path, path.string(), rules_);
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

// The format of files that are to say it by their names.
TextFormat format_by_name(const TextSource& source, const io::Path& folder) {
  const auto jsonl = std::ranges::count_if(source.files, [](const TextFile& file) { return named_jsonl(file.path); });
  if (jsonl == 0) return TextFormat::text;
  if (jsonl == std::ssize(source.files)) return TextFormat::jsonl;
  throw UserError(fmt::format("{} has {} .jsonl files and {} other text files", folder.string(), format_count(jsonl),
                              format_count(std::ssize(source.files) - jsonl)),
                  "--format jsonl takes the documents of the former alone, --format text the bytes of all");
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
  if (rules.format == TextFormat::automatic) source.format = named_jsonl(name) ? TextFormat::jsonl : TextFormat::text;
  const Look look = look_at(path, name, rules);
  if (!look.problem.message.empty()) throw UserError(std::vector<Problem>{look.problem});
  source.files.push_back({path, std::move(name), io::File::open_to_read(path).size(), look.compression});
  return source;
}

std::unique_ptr<io::ByteStream> open_text(const io::Path& path) {
  const KnownFormat* format = known_format(start_of(io::FileBytes(path)));
  std::unique_ptr<io::ByteStream> stream = io::open_stream(path);
  if (format == nullptr || format->compression == io::Compression::none) return stream;
  return io::unpacked(std::move(stream), format->compression, path.string());
}

TextSource folder_source(const io::Path& folder, const TextRules& rules, const io::Path& except) {
  TextSource source = FolderWalk(folder, rules, except).take();
  if (source.files.empty()) {
    throw UserError(fmt::format("no text files in {} ({} entries were skipped)", folder.string(), source.skipped.size()),
                    "name a folder that holds text, or one file");
  }
  source.format = rules.format == TextFormat::automatic ? format_by_name(source, folder) : rules.format;
  return source;
}

void log_skipped(const TextSource& source, Log& log) {
  constexpr std::size_t named = 3;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const SkippedFile& file : source.skipped) by_reason[file.reason].push_back(file.name);
  for (const auto& [reason, names] : by_reason) {
    std::string list;
    for (std::size_t i = 0; i < std::min(named, names.size()); ++i) list += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > named) list += fmt::format(" and {} more", names.size() - named);
    log.info(fmt::format("skipped, {}: {}", reason, list));
  }
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
  throw UserError(fmt::format("{}, line {}: longer than {}", text.name, line_of(file, nominal), format_bytes(longest_line)),
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
