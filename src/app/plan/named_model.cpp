#include "app/plan/named_model.h"

#include <fmt/format.h>

#include "app/settings/checks.h"
#include "app/settings/config_file.h"
#include "app/settings/presets.h"
#include "app/settings/source_shape.h"
#include "app/start/resolve.h"
#include "app/start/resources.h"
#include "arch/huggingface/config_json.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "data/token_description.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

void say_vocabulary(NamedModel& model, std::string_view why) {
  model.note = fmt::format("vocabulary: {} tokens, {}; vocab_size = N under [model] of a recipe says another\n",
                           format_count(model.vocabulary), visible(why));
}

/// Takes the vocabulary of a recipe whose text decides it, and says which.
void take_vocabulary(NamedModel& model, const io::Path& recipe) {
  if (model.config.model.vocab_size) return;
  const io::Path run = io::folder_of(recipe), text = data_folder(model.config);
  if (recipe.filename() == "config.toml" && io::exists(run / "resources.json")) {
    model.vocabulary = read_resources(run).vocabulary;
    say_vocabulary(model, "which its run had");
  } else if (io::is_folder(text) && data::is_prepared(text)) {
    model.vocabulary = data::read_description(text)->format.vocabulary;
    say_vocabulary(model, fmt::format("which the text in {} has", text.string()));
  } else {
    say_vocabulary(model, fmt::format("for no prepared text is in {}", text.string()));
  }
}

NamedModel from_preset(const std::string& name) {
  const std::string setting = "model=" + name;
  NamedModel model{.name = name, .config = settings::resolve({.files = {}, .overrides = {setting}}).config, .setting = setting};
  if (!model.config.model.vocab_size) say_vocabulary(model, "for a text decides this preset's");
  return model;
}

NamedModel from_recipe(const std::string& path) {
  NamedModel model{.name = path, .config = {}, .setting = ""};
  if (std::vector<Problem> problems = read_config_file(path, model.config); !problems.empty())
    throw UserError(std::move(problems));
  if (std::vector<Problem> problems = check(model.config); !problems.empty()) throw UserError(std::move(problems));
  take_vocabulary(model, path);
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
  // A run's folder has a config.json, too, with its settings.
  if (const io::Path file = io::Path(name) / "config.toml"; !name.empty() && io::exists(file)) return from_recipe(file.string());
  if (const io::Path file = io::Path(name) / "config.json"; !name.empty() && io::exists(file)) {
    return from_published(name, file);
  }
  const std::string what = !io::exists(name)     ? "neither a preset nor a file"
                           : io::is_folder(name) ? "this folder has neither config.json nor config.toml"
                                                 : "its name ends neither in .toml nor in .json";
  throw UserError(name.empty() ? "MODEL is missing" : fmt::format("model {}: {}", name, what),
                  fmt::format("one of {}; a recipe.toml; a run's folder; a published model's folder or config.json",
                              settings::options_of("model")));
}

}  // namespace

arch::ModelConfig NamedModel::model() const { return model_config(config, vocabulary); }

NamedModel named_model(const std::string& name, std::int64_t positions) {
  NamedModel model = found(name);
  if (positions > 0) model.config.model.block_size = positions;
  return model;
}

}  // namespace lockstep::app
