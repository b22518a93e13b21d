#include "app/plan/named_model.h"

#include <fmt/format.h>

#include "app/settings/checks.h"
#include "app/settings/config_file.h"
#include "app/settings/presets.h"
#include "app/settings/source_shape.h"
#include "app/start/resolve.h"
#include "arch/huggingface/config_json.h"
#include "base/error.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

/// The vocabulary of a model whose text decides it: GPT-2's, rounded up to a multiple of 64.
constexpr std::int64_t usual_vocabulary = 50304;

NamedModel from_preset(const std::string& name) {
  const std::string setting = "model=" + name;
  return {.name = name, .config = settings::resolve({.files = {}, .overrides = {setting}}).config, .setting = setting};
}

NamedModel from_recipe(const std::string& path) {
  NamedModel model{.name = path, .config = {}, .setting = ""};
  if (std::vector<Problem> problems = read_config_file(path, model.config); !problems.empty())
    throw UserError(std::move(problems));
  if (std::vector<Problem> problems = check(model.config); !problems.empty()) throw UserError(std::move(problems));
  return model;
}

NamedModel from_published(const std::string& name, const io::Path& file) {
  const auto published = arch::huggingface::model_from_json(Json::parse(io::read_document(file), file.string()), file.string());
  NamedModel model{.name = name, .config = {}, .setting = ""};
  settings::take_shape(model.config, {.folder = name, .published = true, .model = published.config});
  model.config.model.block_size = published.config.block_size;
  return model;
}

NamedModel found(const std::string& name) {
  if (settings::find_preset("model", name) != nullptr) return from_preset(name);
  if (name.ends_with(".toml")) return from_recipe(name);
  if (name.ends_with(".json")) return from_published(name, name);
  if (const io::Path file = io::Path(name) / "config.json"; !name.empty() && io::exists(file)) {
    return from_published(name, file);
  }
  const std::string what = !io::exists(name)     ? "neither a preset nor a file"
                           : io::is_folder(name) ? "this folder has no config.json"
                                                 : "its name ends neither in .toml nor in .json";
  throw UserError(
      name.empty() ? "MODEL is missing" : fmt::format("model {}: {}", name, what),
      fmt::format("one of {}; a recipe.toml; a published model's folder or config.json", settings::options_of("model")));
}

}  // namespace

arch::ModelConfig NamedModel::model() const { return model_config(config, usual_vocabulary); }

NamedModel named_model(const std::string& name, std::int64_t positions) {
  NamedModel model = found(name);
  if (positions > 0) model.config.model.block_size = positions;
  return model;
}

}  // namespace lockstep::app
