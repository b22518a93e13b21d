#include "app/folder/text_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "app/folder/folder_owner.h"
#include "app/published/published_files.h"
#include "app/settings/foreign/deepspeed_options.h"
#include "app/settings/source_shape.h"
#include "base/error.h"
#include "base/json.h"
#include "base/shell.h"
#include "checkpoint/find.h"
#include "data/text/look.h"
#include "data/token_description.h"
#include "io/file.h"
#include "io/sha256.h"

namespace lockstep::app {
namespace {

/// "book-" of "texts/book.txt".
std::string beginning_of_name(const std::string& text) {
  const std::string name = io::Path(text).filename().string();
  return name.substr(0, name.find('.', 1)) + "-";
}

bool is_settings(const std::string& name) { return name.ends_with(".toml") || name.ends_with(".yaml") || name.ends_with(".yml"); }

/// Whether a file is an object that only DeepSpeed's settings are.
bool is_deepspeed(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  try {
    const Json json = Json::parse(io::read_document(path, std::uint64_t{1} << 20), path);
    const auto has = [&](std::string_view key) { return json.is_object() && json.find(key) != nullptr; };
    return has(settings::samples_of_step) || has(settings::samples_of_microbatch) || has("zero_optimization");
  } catch (const UserError&) {
    return false;
  }
}

/// The error for a folder without prepared text, with what it may be meant for.
Problem no_text_in(const std::string& folder) {
  const FolderOwner owner = owner_of(folder);
  const std::string_view kind = owner == FolderOwner::nobody ? "a folder" : name_of(owner);
  std::string remedy = "prepare its texts: " + own_command({"prepare", folder, "--out", "data/NAME"});
  if (owner == FolderOwner::run) {
    remedy = "go on with it: " + own_command({"train", "log.dir=" + folder, "train.init_from=resume"});
  } else if (owner == FolderOwner::model || owner == FolderOwner::checkpoint) {
    remedy = "begin with it: " + own_command({"train", "TEXT", "train.init_from=" + folder});
  }
  return {fmt::format("{} is {}, and has no prepared text", folder, kind), std::move(remedy)};
}

/// Whether the data set is named as data_settings() does: "book-ae359642".
bool is_named_by_text(const RunConfig& config) {
  const std::string& name = config.data.dataset;
  const std::string beginning = beginning_of_name(*config.data.file);
  return name.starts_with(beginning) && name.size() == beginning.size() + 8 &&
         name.find_first_not_of("0123456789abcdef", beginning.size()) == std::string::npos;
}

[[noreturn]] void refuse_unknown_tokenizer(const RunConfig& config, const std::string& why) {
  throw UserError(
      fmt::format("train.init_from = {}: {}, so nothing says what its tokens mean", config.train.init_from.text, why),
      fmt::format("prepare the text with the tokenizer that the model was trained with: {}, then train DATA",
                  own_command({"prepare", config.data.file.value_or("TEXT"), "--tokenizer", "hf:FILE", "--out", "DATA"})));
}

data::TokenizerChoice choice_of(const Json& described, data::ModelTexts texts, const std::string& folder = "") {
  return {.kind = data::TokenizerChoice::Kind::hf, .path = folder, .described = described, .texts = std::move(texts)};
}

/// The same ids have the same file. A BPE is described by its file, and to make one of 120,000 tokens takes 0.2 s.
std::string file_of(const Json& described) {
  const Json* file = described.find(data::stored_bpe);
  return file != nullptr ? file->string() : data::make_tokenizer(described)->tokenizer_json();
}

bool has_rows(const std::string& text) { return io::exists(text) && data::look_at(text, text, {}).rows != data::Rows::none; }

}  // namespace

std::vector<std::string> data_settings(const std::string& data, const std::vector<std::string>& overrides) {
  std::vector<Problem> problems;
  for (const std::string& word : overrides) {
    if (word.starts_with("data.dir=") || word.starts_with("data.file=") || word.starts_with("data.dataset=") ||
        word.starts_with("--dataset="))
      problems.push_back({fmt::format("DATA is given twice: {} and {}", data, word), "give one of them"});
  }
  const bool file = io::exists(data) && !io::is_folder(data);
  if (data == "-" || (file && io::is_special(data))) {
    problems.push_back({fmt::format("{} is no file: a training reads its text again and again", data),
                        "lockstep prepare - --out data/NAME prepares what a pipe brings"});
  } else if (!io::exists(data)) {
    problems.push_back({fmt::format("{}: there is no such text or folder", data),
                        "name a text, or a folder that lockstep prepare TEXT --out FOLDER made"});
  } else if (!file && !data::is_prepared(data) && !io::exists(io::Path(data) / "train.bin")) {
    problems.push_back(no_text_in(data));
  } else if (file && is_deepspeed(data)) {
    problems.push_back(
        {fmt::format("{} has settings of DeepSpeed, and no text to train on", data), "train.ds_config_path=" + data});
  } else if (file && is_settings(data)) {
    problems.push_back({fmt::format("{} has settings, by its name, and no text to train on", data),
                        fmt::format("{}; a text of this name is prepared first: {}",
                                    data.ends_with(".toml") ? "--config " + data : "settings are TOML: --config FILE.toml",
                                    own_command({"prepare", data, "--out", "data/NAME"}))});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  if (!file) return {"data.dir=" + data};
  // A run that goes on has the folder that the text was prepared into.
  return {"data.dir=null", "data.file=" + data,
          fmt::format("data.dataset={}{:.8}", beginning_of_name(data), io::sha256_of_file(data))};
}

std::optional<data::TokenizerChoice> model_tokenizer(const RunConfig& config) {
  const std::string& from = config.train.init_from.text;
  if (settings::starts_from_published(config)) {
    const io::Path model = data::place_of_texts(from);
    const data::PublishedTokenizer found = data::find_published_tokenizer(model);
    if (!found.tokenizer) refuse_unknown_tokenizer(config, found.fault);
    return choice_of(found.tokenizer->describe(), data::texts_of(model), io::is_folder(model) ? model.string() : "");
  }
  const bool begins = starts_from_folder(config);
  const std::string run = begins ? from : run_folder(config, "");
  if (begins ? !io::exists(from) : !may_resume(config) || !checkpoint::has_checkpoints(run)) return std::nullopt;
  const Json facts = checkpoint::choose_checkpoint(run, begins ? "best" : "last").manifest.run;
  const Json* tokenizer = facts.is_object() ? facts.find("tokenizer") : nullptr;
  if (tokenizer != nullptr) return choice_of(*tokenizer, kept_texts(facts, run));
  if (begins) refuse_unknown_tokenizer(config, "it has no tokenizer");
  return std::nullopt;
}

void name_text_folder(RunConfig& config) {
  if (!config.data.file || config.data.dir || !is_named_by_text(config)) return;
  const std::optional<data::TokenizerChoice> model = model_tokenizer(config);
  if (!model) return;
  std::string file = file_of(model->described);
  if (const io::Path folder = data_folder(config); io::is_folder(folder)) {
    const std::optional<data::TokenDescription> there = data::read_description(folder);
    if (there && file_of(there->tokenizer) == file) return;
  }
  // The template writes conversations, and a special token ends documents. Neither changes the tokens of a plain text.
  if (!model->texts.empty() && has_rows(*config.data.file)) file += model->texts.files.dump();
  config.data.dataset += fmt::format("-{:.8}", io::sha256_of_text(file));
}

}  // namespace lockstep::app
