#include "data/prepare/dataset.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"
#include "base/shell.h"
#include "data/prepare/folder_lock.h"
#include "data/prepare/prepare.h"
#include "data/text/source.h"
#include "data/token_description.h"
#include "io/file.h"
#include "io/http/get.h"
#include "io/sha256.h"

namespace lockstep::data {
namespace {

constexpr const char* shakespeare_url =
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt";
constexpr const char* shakespeare_hash = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";
constexpr const char* local_file = "give a local copy: data.file=input.txt";

// Whether the folder's tokens come from what is in `file`.
bool same_text(const io::Path& folder, const io::Path& file) {
  if (!io::is_folder(folder) || io::is_special(file) || io::is_folder(file)) return false;
  const std::optional<TokenDescription> description = read_description(folder);
  if (!description || !description->text) return false;
  const auto bytes = static_cast<std::uint64_t>(description->text->bytes);
  const std::unique_ptr<io::ByteStream> text = open_text(file);
  io::Sha256 hash;
  std::vector<std::byte> block(std::size_t{1} << 20);
  std::uint64_t read = 0;
  while (const std::size_t count = read <= bytes ? io::read_up_to(*text, block) : 0) {
    hash.update(std::span(block).first(count));
    read += count;
  }
  return read == bytes && hash.hex() == description->text->sha256;
}

bool has_tokens(const io::Path& folder) { return is_prepared(folder) || io::exists(folder / "train.bin"); }

// What options of `prepare` mend, it mends in the same folder.
UserError told_by_command(const UserError& error, const PrepareOptions& options) {
  std::vector<Problem> problems = error.problems();
  std::vector<std::string> words{"prepare", options.input, "--out", options.out.string()};
  if (options.choice)
    words.insert(words.end() - 2, {"--tokenizer", "hf:" + (options.choice->path.empty() ? "FOLDER" : options.choice->path)});
  for (Problem& problem : problems) {
    const auto speaks_of = [&](std::string_view part) { return problem.remedy.find(part) != std::string::npos; };
    if (speaks_of("lockstep prepare") || (!speaks_of("--") && !speaks_of("template"))) continue;
    problem.remedy += fmt::format(". These are options of {}, and then train as before", own_command(words));
  }
  return UserError(std::move(problems));
}

// What `prepare` prints of a text says little to who only wants to train on it. What its rows are taken for is said.
void prepare_text(const io::Path& text, const DatasetRequest& request, const FolderLock& lock, Log& log) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"), std::fclose);
  const PrepareOptions options{.input = text.string(),
                               .tokenizer = own_tokenizer(text).name,
                               .choice = request.file ? request.tokenizer() : std::nullopt,
                               .out = lock.folder(),
                               .lock = &lock,
                               .facts = nowhere.get()};
  log.info(fmt::format("Preparing {} in {}{}", text.string(), lock.folder().string(),
                       options.choice ? ", with the model's tokenizer" : ""));
  try {
    const PrepareResult made = prepare(options, log);
    for (const std::string& line : parts_of_list(made.rows, '\n')) {
      if (!line.empty()) log.info(line);
    }
  } catch (const UserError& error) {
    throw told_by_command(error, options);
  }
}

// The file appears only when all of it is there.
void download(const std::string& url, const io::Path& path) {
  io::Replacement target(path);
  std::uint64_t bytes = 0;
  const auto begin = [&](const io::http::Head& head) {
    if (head.status == 200) return true;
    throw UserError(fmt::format("{} answers {}", io::http::shown_url(url), head.status), local_file);
  };
  const auto take = [&](std::string_view piece) {
    target.file().write_at(bytes, std::as_bytes(std::span(piece)));
    bytes += piece.size();
  };
  try {
    io::http::get({.url = url, .agent = "lockstep"}, begin, take);
  } catch (const UserError& error) {
    const Problem& problem = error.problems().front();
    throw UserError(problem.message, fmt::format("{}; or {}", problem.remedy, local_file));
  }
  target.commit();
}

// input.txt in the folder, as nanoGPT keeps it there.
io::Path shakespeare(const DatasetRequest& request, Log& log) {
  const io::Path text = request.folder / "input.txt";
  if (io::exists(text)) return text;
  const std::string url = request.url.empty() ? shakespeare_url : request.url;
  log.info(fmt::format("Downloading {}", url));
  download(url, text);
  if (const std::string hash = io::sha256_of_file(text); hash != shakespeare_hash) {
    std::filesystem::remove(text);
    throw UserError(fmt::format("what {} sent is not Tiny Shakespeare: its sha256 is {}", url, hash), local_file);
  }
  return text;
}

}  // namespace

OwnTokenizer own_tokenizer(const io::Path& text) {
  constexpr std::uint64_t large = 5'000'000;
  const bool learns = !io::is_special(text) && !io::is_folder(text) && io::File::open_to_read(text).size() > large;
  return learns ? OwnTokenizer{"bpe:4096", 4096} : OwnTokenizer{"char", 65};
}

void ensure_dataset(const DatasetRequest& request, Log& log) {
  if (request.file && !io::exists(*request.file)) {
    throw UserError(fmt::format("data.file = {}: there is no such text", *request.file), "correct the path");
  }
  const auto done = [&] { return request.file ? same_text(request.folder, *request.file) : has_tokens(request.folder); };
  if (done()) return;
  if (!request.file && request.name != "shakespeare_char") {
    throw UserError(fmt::format("there are no token files of the data set {} in {}", request.name, request.folder.string()),
                    fmt::format("prepare its text: lockstep prepare TEXT --out {}", request.folder.string()));
  }
  const FolderLock lock(request.folder, request.wait_seconds, log);
  if (done()) return;  // by the process that had the lock before
  prepare_text(request.file ? io::Path(*request.file) : shakespeare(request, log), request, lock, log);
}

}  // namespace lockstep::data
