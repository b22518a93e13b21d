#include "data/bpe/gpt2_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text/utf8.h"
#include "io/file.h"

namespace lockstep::data::bpe {
namespace {

io::Path one_of(const io::Path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (io::exists(folder / name)) return folder / name;
  }
  throw UserError(fmt::format("{} has no {}", folder.string(), *names.begin()),
                  "name the folder that holds GPT-2's encoder.json and vocab.bpe: --tokenizer gpt2:FOLDER");
}

Json read_vocabulary(const TextOfFile& file) {
  const std::string& path = file.name;
  Json vocabulary = Json::parse(file.text, path);
  if (!vocabulary.is_object()) {
    throw UserError(fmt::format("{} is not an object of tokens and their ids", path), "copy it again");
  }
  for (const auto& [token, id] : vocabulary.object()) {
    if (!id.is_int()) throw UserError(fmt::format("{}: the id of \"{}\" is no number", path, token), "copy it again");
  }
  return vocabulary;
}

void read_merges(const TextOfFile& file, ModelBuilder& builder) {
  const std::string& path = file.name;
  const std::string_view text = without_mark(file.text);
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number++ == 0 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    if (space == 0 || space >= line.size() - 1 || line.find(' ', space + 1) != std::string_view::npos) {
      throw UserError(fmt::format("{}: line {} is not a pair of tokens: \"{}\"", path, number, line), "copy it again");
    }
    builder.merge(line.substr(0, space), line.substr(space + 1));
  }
}

}  // namespace

Model model_of_gpt2(const TextOfFile& vocabulary, const TextOfFile& merges) {
  const Json tokens = read_vocabulary(vocabulary);
  ModelBuilder builder(merges.name, tokens.object().size());
  for (const auto& [token, id] : tokens.object()) {
    builder.token(token, id.integer());
  }
  if (const Json* id = tokens.find(gpt2_end_of_text)) {
    builder.added(id->integer(), {.content = std::string(gpt2_end_of_text)});
  }
  read_merges(merges, builder);
  return builder.take();
}

Model read_gpt2_files(const io::Path& folder) {
  const io::Path vocabulary = one_of(folder, {"encoder.json", "vocab.json"});
  const io::Path merges = one_of(folder, {"vocab.bpe", "merges.txt"});
  const std::string tokens = io::read_document(vocabulary, most_file_bytes), pairs = io::read_document(merges, most_file_bytes);
  return model_of_gpt2({vocabulary.string(), tokens}, {merges.string(), pairs});
}

}  // namespace lockstep::data::bpe
