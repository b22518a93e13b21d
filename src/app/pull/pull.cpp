// Models from a hub.

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/folder_owner.h"
#include "app/folder/run_lock.h"
#include "app/pull/download.h"
#include "arch/huggingface/config_json.h"
#include "base/log.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/timer.h"
#include "base/units.h"
#include "checkpoint/huggingface/weights.h"
#include "data/tokenizer_choice.h"

namespace lockstep::app {
namespace {

namespace huggingface = checkpoint::huggingface;

struct PullOptions {
  std::string model, revision = "main", out, endpoint;
  std::int64_t patience = 60;

  std::string folder() const { return out.empty() ? "downloads/" + model.substr(model.rfind('/') + 1) : out; }
};

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool parse(const Arguments& arguments, PullOptions& options) {
  CommandLine line(
      "pull",
      "Bring a model from Hugging Face's hub, or one like it: config.json, weights in safetensors, and the tokenizer's "
      "files. The folder is what generate, eval, train and convert read.");
  line.positional("ORG/NAME", options.model, "the model, as the hub calls it");
  line.option("--revision", options.revision, "NAME", "a branch, a tag or a commit");
  line.option("--out", options.out, "FOLDER", "where to; without it downloads/NAME");
  line.option("--endpoint", options.endpoint, "URL", "the hub; without it HF_ENDPOINT, else https://huggingface.co");
  line.option("--timeout", options.patience, "SECONDS", "how long a server may be silent before it is asked again, three times");
  line.note(
      "A pull that was interrupted goes on where it stopped when the command is given again. Each file is NAME.part until all of "
      "it is there and has the checksum of the hub's list. The installed curl does the transfers, with its proxies "
      "(https_proxy). A private or gated model needs a token, in the environment's HF_TOKEN; it goes to the hub alone.");
  line.note(
      "examples:\n"
      "  lockstep pull openai-community/gpt2\n"
      "  lockstep generate downloads/gpt2 --prompt \"Hello\"\n"
      "  lockstep pull Qwen/Qwen3-0.6B --revision main --out models/qwen");
  if (!line.parse(arguments)) return false;
  demand_model_name(options.model);
  if (options.patience < 1)
    throw UserError(fmt::format("--timeout {}: must be at least 1", options.patience), "--timeout 60 is the usual one");
  return true;
}

// Before the weights come: a model that cannot be read is refused in a second, not after an hour.
void demand_known_model(const io::Path& folder) {
  const io::Path path = folder / huggingface::config_file;
  arch::huggingface::model_from_json(Json::parse(io::read_document(path), path.string()), path.string());
}

std::vector<std::string> shards_in(const io::Path& folder) {
  const io::Path path = folder / huggingface::index_file;
  std::vector<std::string> shards;
  for (const auto& [file, tensors] : huggingface::shards_of_index(io::read_document(path), path.string())) shards.push_back(file);
  return shards;
}

// Opens what came, as the other commands will.
void try_model(const io::Path& folder, Log& log) {
  const huggingface::Weights weights(folder);
  for (const std::string& warning : weights.warnings()) log.warning(warning);
  const data::PublishedTokenizer found = data::find_published_tokenizer(folder);
  if (!found.tokenizer) log.warning(fmt::format("its tokenizer cannot be read here: {}", found.fault));
}

int run(const Arguments& arguments) {
  PullOptions options;
  if (!parse(arguments, options)) return 0;
  const double started = now_seconds();
  const std::string usual = environment_or("HF_ENDPOINT", "https://huggingface.co");
  const Hub hub(options.endpoint.empty() ? usual : options.endpoint, environment_or("HF_TOKEN", ""), options.patience);
  const std::string folder = options.folder();
  const std::string advice = "choose a folder of its own: --out downloads/NAME";
  if (std::vector<Problem> problems = check_place(folder, FolderOwner::model, "--out " + folder, advice); !problems.empty())
    throw UserError(std::move(problems));

  const std::string commit = hub.commit_of(options.model, options.revision);
  const std::vector<HubFile> all = hub.files_of(options.model, commit);
  const std::vector<HubFile> small = small_files_of(all, options.model);
  refuse_strangers(folder, all, options.model);
  const RunLock lock(folder, {}, {.file = "pull.lock", .owner = "pull", .remedy = "wait for it, or stop it"});
  say(stdout, fmt::format("{} at {} (commit {}) to {}\n", options.model, visible(options.revision), commit.substr(0, 12),
                          visible(folder)));
  Download download(hub, options.model, commit, folder);
  download.bring(small);
  demand_known_model(folder);
  download.bring(weight_files_of(all, has_shards(all) ? shards_in(folder) : std::vector<std::string>(), options.model));

  Log log(stderr, Level::warning);
  try_model(folder, log);
  say(stdout, fmt::format("pulled {} to {}: {} files, {}, in {}\nnext: {}, or {}\n", options.model, visible(folder),
                          download.files(), format_bytes(download.bytes()), format_seconds(now_seconds() - started),
                          own_command({"generate", folder}), own_command({"train", "DATA", "train.init_from=" + folder})));
  return 0;
}

}  // namespace

Command pull_command() { return {"pull", "a model from Hugging Face's hub", run, true}; }

}  // namespace lockstep::app
