#include "app/inspect/inspect_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "app/folder/runs_in.h"
#include "app/inspect/tensor_facts.h"
#include "app/published/published_files.h"
#include "base/error.h"
#include "base/shell.h"
#include "checkpoint/find.h"
#include "checkpoint/huggingface/folder.h"
#include "checkpoint/reader.h"
#include "data/corpus.h"
#include "data/formats/known_format.h"
#include "io/file.h"
#include "io/gguf.h"

namespace lockstep::app {
namespace {

std::string program_of(const checkpoint::Manifest& manifest) {
  const Json* program = manifest.run.is_object() ? manifest.run.find("program") : nullptr;
  if (program != nullptr && program->is_string()) return program->string();
  return manifest.program.empty() ? "unknown" : manifest.program;
}

namespace fs = std::filesystem;

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json names_json(const std::vector<std::string>& names) { return Json::Array(names.begin(), names.end()); }

// What a checkpoint carries of its run. The tokenizer, which may be megabytes, by its name and size; a published model's small
// files by their sizes.
Json run_of(const checkpoint::Manifest& manifest) {
  Json run = manifest.run;
  const Json* published = run.is_object() ? run.find(published_key) : nullptr;
  const Json* files = published != nullptr && published->is_object() ? published->find(published_texts) : nullptr;
  if (files != nullptr && files->is_object()) {
    Json sizes, facts = *published;
    for (const auto& [name, text] : files->object()) sizes.set(name, std::ssize(text.dump()));
    facts.set(published_texts, std::move(sizes));
    run.set(published_key, std::move(facts));
  }
  const Json* tokenizer = run.is_object() ? run.find("tokenizer") : nullptr;
  if (tokenizer == nullptr || !tokenizer->is_object()) return run;
  Json summary;
  if (const Json* name = tokenizer->find("name")) summary.set("name", *name);
  summary.set("bytes", static_cast<std::int64_t>(tokenizer->dump().size()));
  run.set("tokenizer", std::move(summary));
  return run;
}

Json checkpoint_facts(const fs::path& folder, bool verify, Team& team) {
  const checkpoint::Reader reader(folder);
  const checkpoint::Manifest& manifest = reader.manifest();
  Json::Array files, tensors;
  std::int64_t parameters = 0;
  for (const checkpoint::StoredFile& file : manifest.files)
    files.emplace_back(Json::Object{{"name", file.name}, {"bytes", file.bytes}});
  for (const checkpoint::StoredTensor& stored : manifest.tensors) {
    const auto& [name, shape, dtype] = stored.tensor;
    Json::Array extents;
    for (int dim = 0; dim < shape.rank(); ++dim) extents.emplace_back(shape[dim]);
    const std::int64_t elements = shape.elements();
    if (stored.file == checkpoint::model_file) parameters += elements;
    tensors.emplace_back(Json::Object{{"name", name},
                                      {"file", stored.file},
                                      {"dtype", name_of(dtype)},
                                      {"shape", std::move(extents)},
                                      {"elements", elements},
                                      {"bytes", elements * static_cast<std::int64_t>(size_of(dtype))},
                                      {"checksum", hex(stored.checksum)}});
  }
  Json facts(Json::Object{{"kind", "checkpoint"},
                          {"path", folder.string()},
                          {"program", program_of(manifest)},
                          {"step", manifest.step},
                          {"updates", manifest.updates},
                          {"seed", manifest.seed},
                          {"tokens_seen", manifest.tokens_seen},
                          {"next_sample", manifest.next_sample},
                          {"validation_loss", optional_json(manifest.validation_loss)},
                          {"best_validation_loss", optional_json(manifest.best_validation_loss)},
                          {"dtype", name_of(manifest.dtype)},
                          {"master_is_model", manifest.master_is_model},
                          {"parameters", parameters},
                          {"bytes", manifest.bytes()},
                          {"model", manifest.model},
                          {"optimizer", manifest.optimizer},
                          {"run", run_of(manifest)},
                          {"files", std::move(files)},
                          {"tensors", std::move(tensors)}});
  if (verify) {
    checkpoint::NotFinite not_finite;
    facts.set("damaged", names_json(reader.verify(team, &not_finite)));
    const std::set<std::string>& names = not_finite.tensors();
    if (!names.empty()) facts.set("not_finite", Json::Array(names.begin(), names.end()));
  }
  return facts;
}

struct LastLines {
  Json step, evaluation;  ///< null: none
};

// The last ones that are whole: a kill may have cut one off, and a later one be glued to it.
LastLines last_lines(std::string text) {
  LastLines found;
  for (std::size_t end = text.rfind('\n'); end != std::string::npos && end > 0; end = text.rfind('\n')) {
    text.resize(end);
    const std::string_view line = std::string_view(text).substr(text.rfind('\n') + 1);
    Json& place = line.find("\"eval\"") == std::string_view::npos ? found.step : found.evaluation;
    if (!place.is_null()) continue;
    try {
      place = Json::parse(line);
    } catch (const UserError&) {
      continue;
    }
  }
  return found;
}

// The end of the run's metrics is read, and more of it where that has no evaluation.
LastLines last_metrics(const fs::path& run) {
  const fs::path path = run / "metrics.jsonl";
  if (!fs::is_regular_file(path)) return {};
  const io::File file = io::File::open_to_read(path);
  const std::uint64_t size = file.size();
  for (std::uint64_t most = 65536;; most *= 8) {
    const std::uint64_t from = size > most ? size - most : 0;
    std::string text(static_cast<std::size_t>(size - from), '\0');
    file.read_at(from, std::as_writable_bytes(std::span(text)));
    LastLines found = last_lines(std::move(text));
    if (from == 0 || !(found.step.is_null() || found.evaluation.is_null())) return found;
  }
}

void add_damage(std::vector<std::string>& damaged, const checkpoint::Found& found, Team& team) {
  const std::string name = found.folder.filename().string();
  if (!found.manifest) return damaged.push_back(fmt::format("{}: {}", name, found.fault));
  try {
    for (const std::string& tensor : checkpoint::Reader(found.folder).verify(team))
      damaged.push_back(fmt::format("{}: {}", name, tensor));
  } catch (const UserError& error) {
    damaged.push_back(name + ": " + error.problems().front().message);
  }
}

Json run_facts(const fs::path& run, bool verify, Team& team) {
  const std::vector<checkpoint::Found> all = checkpoint::list_checkpoints(run);
  std::vector<std::optional<double>> losses;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < all.size(); ++i) {
    losses.push_back(all[i].manifest ? all[i].manifest->validation_loss : std::nullopt);
    if (all[i].manifest) last = i;
  }
  const auto best = checkpoint::best_of(losses);
  Json::Array list;
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const checkpoint::Found& found = all[i];
    Json row(Json::Object{{"step", found.step}, {"path", found.folder.string()}});
    if (found.manifest) {
      row.set("tokens_seen", found.manifest->tokens_seen);
      row.set("validation_loss", optional_json(found.manifest->validation_loss));
      row.set("bytes", found.manifest->bytes());
      row.set("best", best == i);
      row.set("last", last == i);
    } else {
      row.set("fault", found.fault);
    }
    list.push_back(std::move(row));
    if (verify) add_damage(damaged, found, team);
  }
  Json facts(Json::Object{{"kind", "run"}, {"path", run.string()}, {"checkpoints", std::move(list)}});
  if (last) {
    const checkpoint::Manifest& manifest = *all[*last].manifest;
    std::int64_t parameters = 0;
    for (const checkpoint::StoredTensor& stored : manifest.tensors) {
      if (stored.file == checkpoint::model_file) parameters += stored.tensor.shape.elements();
    }
    facts.set("parameters", parameters);
    facts.set("model", manifest.model);
    facts.set("optimizer", manifest.optimizer);
  }
  LastLines lines = last_metrics(run);
  facts.set("metrics", std::move(lines.step));
  facts.set("evaluation", std::move(lines.evaluation));
  if (verify) facts.set("damaged", names_json(damaged));
  return facts;
}

// The first tokens as text, or as ids where no tokenizer is known.
Json start_of(const data::TokenFile& file, const Json& tokenizer) {
  std::array<std::int32_t, 64> memory;
  const std::span<std::int32_t> ids(memory.data(),
                                    static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(memory), file.tokens())));
  file.read(0, ids);
  if (!tokenizer.is_null()) return data::make_tokenizer(tokenizer)->decode(ids);
  return fmt::format("{}", fmt::join(ids, " "));
}

Json token_file_facts(const data::TokenFile& file, const data::TokenFileFacts* described) {
  const fs::path path = file.path();
  Json facts(Json::Object{
      {"name", path.filename().string()}, {"tokens", file.tokens()}, {"bytes", file.tokens() * file.format().token_bytes}});
  if (described != nullptr) {
    facts.set("text_bytes", described->text_bytes);
    facts.set("sha256", described->sha256);
    if (described->mask) {
      facts.set("mask", described->mask->name);
      facts.set("targets", described->mask->targets);
    }
  }
  return facts;
}

// A folder of prepared text.
Json prepared_facts(const fs::path& folder, bool verify) {
  const auto description = data::read_description(folder);
  ensure(description.has_value(), "the folder has a tokens.json");
  Json::Array files;
  Json start;
  for (const data::TokenFileFacts& described : description->files) {
    const data::TokenFile file = data::open_described(folder, *description, described.name);
    if (files.empty()) start = start_of(file, description->tokenizer);
    files.push_back(token_file_facts(file, &described));
  }
  Json facts(Json::Object{{"kind", "tokens"},
                          {"path", folder.string()},
                          {"tokenizer", description->tokenizer.at("name")},
                          {"vocabulary", description->format.vocabulary},
                          {"dtype", description->format.dtype()},
                          {"characters", description->characters},
                          {"files", std::move(files)},
                          {"start", std::move(start)}});
  if (description->documents > 0) facts.set("documents", description->documents);
  if (verify) facts.set("damaged", names_json(data::damaged_files(folder, *description)));
  return facts;
}

// A loss mask, by the tokens.json beside it.
Json mask_facts(const fs::path& path, const data::TokenDescription& description, const data::TokenFileFacts& tokens,
                bool verify) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  data::open_described(folder, description, tokens.name);  // compares sizes
  Json facts(Json::Object{{"kind", "loss mask"},
                          {"path", path.string()},
                          {"of", tokens.name},
                          {"tokens", tokens.tokens},
                          {"targets", tokens.mask->targets},
                          {"sha256", tokens.mask->sha256}});
  if (!verify) return facts;
  std::vector<std::string> damaged = data::damaged_files(folder, description);
  std::erase_if(damaged, [&](const std::string& other) { return other != tokens.mask->name; });
  facts.set("damaged", names_json(damaged));
  return facts;
}

// Refuses what came without checksums: --verify would find it whole, whatever is in it.
[[noreturn]] void refuse_to_verify(const fs::path& path, std::string_view kind) {
  throw UserError(fmt::format("{}: --verify has nothing to compare with: {} has no checksums", path.string(), kind),
                  "leave --verify out, or give the folder of the checkpoint or the text that the file is of");
}

// One file of ids: as the tokens.json beside it says, else as its content does.
Json token_facts(const fs::path& path, bool verify, const data::TokenRequest& request) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto description = data::read_description(folder);
  const std::string name = path.filename().string();
  for (const data::TokenFileFacts& file : description ? description->files : std::vector<data::TokenFileFacts>()) {
    if (file.mask && file.mask->name == name) return mask_facts(path, *description, file, verify);
  }
  if (description && description->find(name) != nullptr) {
    data::demand_told(request, description->format, (folder / data::description_file).string());
    const data::TokenFile file = data::open_described(folder, *description, name);
    Json facts(Json::Object{{"kind", "tokens"},
                            {"path", path.string()},
                            {"tokenizer", description->tokenizer.at("name")},
                            {"vocabulary", file.format().vocabulary},
                            {"dtype", file.format().dtype()},
                            {"files", Json::Array{token_file_facts(file, description->find(name))}},
                            {"start", start_of(file, description->tokenizer)}});
    if (verify) {
      std::vector<std::string> damaged = data::damaged_files(folder, *description);
      std::erase_if(damaged, [&](const std::string& other) { return other != name && other != data::mask_name(name); });
      facts.set("damaged", names_json(damaged));
    }
    return facts;
  }
  if (verify) refuse_to_verify(path, "a token file without its tokens.json");
  const data::TokenFile file = data::open_token_file(path.string(), request);
  const std::int64_t vocabulary = file.format().vocabulary;
  const bool known = vocabulary < std::numeric_limits<std::int32_t>::max();
  Json facts(Json::Object{{"kind", "tokens"},
                          {"path", path.string()},
                          {"tokenizer", nullptr},
                          {"vocabulary", known ? Json(vocabulary) : Json()},
                          {"dtype", file.format().dtype()},
                          {"files", Json::Array{token_file_facts(file, nullptr)}},
                          {"start", start_of(file, nullptr)}});
  if (file.documents() > 0) facts.set("documents", file.documents());
  return facts;
}

// By what is in it, whatever its name is.
Json file_facts(const fs::path& path, bool verify, Team& team, const std::string& ids) {
  const data::KnownFormat* format = data::known_format(data::start_of(io::FileBytes(path)));
  if (path.extension() == ".safetensors" || (format != nullptr && format->what == data::safetensors_name)) {
    if (verify) refuse_to_verify(path, "a .safetensors file");
    return safetensors_facts(path, team);
  }
  if (io::is_gguf(path)) {
    if (verify) refuse_to_verify(path, "a GGUF file");
    return gguf_facts(path, team);
  }
  return token_facts(path, verify, {.any_id = true, .ids = ids, .option = "--ids "});
}

}  // namespace

Json inspect_facts(const fs::path& path, bool verify, Team& team, const std::string& ids) {
  if (!io::exists(path)) {
    throw UserError(fmt::format("{}: there is no such file or folder", path.string()),
                    "give a run, a checkpoint, a prepared text, a published model or a file of one");
  }
  if (io::is_folder(path)) {
    if (checkpoint::is_checkpoint(path)) return checkpoint_facts(path, verify, team);
    if (data::is_prepared(path)) return prepared_facts(path, verify);
    const bool run = io::is_folder(path / checkpoint::checkpoints_folder) || io::exists(path / "config.toml");
    if (run || path.filename() == checkpoint::checkpoints_folder) return run_facts(path, verify, team);
    if (checkpoint::huggingface::is_published(path)) {
      if (verify) refuse_to_verify(path, "a published model");
      return published_facts(path, team);
    }
    if (const std::vector<io::Path> runs = runs_in(path); !runs.empty() && runs[0] != path) {
      throw UserError(fmt::format("{}: a folder of {} run{}, and inspect shows one thing", path.string(), runs.size(),
                                  runs.size() == 1 ? "" : "s"),
                      fmt::format("lockstep inspect {}, or lockstep report {} for all", shell_words({runs[0].string()}),
                                  shell_words({path.string()})));
    }
    throw UserError(
        fmt::format("{}: this folder is no checkpoint, no run, no prepared text and no published model", path.string()),
        "give one that has manifest.json, checkpoints/, tokens.json or config.json, or a .safetensors, .gguf or .bin file");
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (path.filename() == checkpoint::manifest_file && checkpoint::is_checkpoint(folder))
    return checkpoint_facts(folder, verify, team);
  if (path.filename() == "tokens.json") return prepared_facts(folder, verify);
  return file_facts(path, verify, team, ids);
}

}  // namespace lockstep::app
