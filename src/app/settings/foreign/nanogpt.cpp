#include "app/settings/foreign/nanogpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/number_text.h"
#include "base/text/trimmed.h"
#include "base/text/utf8.h"
#include "io/file.h"

namespace lockstep::settings {
namespace {

using Assignment = NanoGpt::Assignment;

struct Name {
  std::string_view theirs, ours;  ///< ours empty: nothing follows from it
  std::string_view by_default;    ///< of train.py, as it is typed; empty: ours stays
};

constexpr std::string_view kAccumulation = "gradient_accumulation_steps", kWandb = "wandb_log";

// The globals of train.py, in its order. dtype and device keep our defaults: they follow from what the program promises and has.
constexpr std::array<Name, 33> kNames{{{"out_dir", "log.dir", "out"},
                                       {"eval_interval", "train.eval_interval", "2000"},
                                       {"log_interval", "train.log_interval", "1"},
                                       {"eval_iters", "train.eval_iters", "200"},
                                       {"eval_only", "train.eval_only", "false"},
                                       {"always_save_checkpoint", "train.always_save_checkpoint", "true"},
                                       {"init_from", "train.init_from", "scratch"},
                                       {kWandb, "log.wandb", "off"},
                                       {"wandb_project", "train.wandb_project", "owt"},
                                       {"wandb_run_name", "log.name", ""},
                                       {"dataset", "data.dataset", "openwebtext"},
                                       {kAccumulation, "optimizer.gas", "40"},
                                       {"batch_size", "model.batch_size", "12"},
                                       {"block_size", "model.block_size", "1024"},
                                       {"n_layer", "model.n_layer", "12"},
                                       {"n_head", "model.n_head", "12"},
                                       {"n_embd", "model.n_embd", "768"},
                                       {"dropout", "model.dropout", "0"},
                                       {"bias", "model.bias", "false"},
                                       {"learning_rate", "optimizer.learning_rate", "6e-4"},
                                       {"max_iters", "train.max_iters", "600000"},
                                       {"weight_decay", "optimizer.weight_decay", "0.1"},
                                       {"beta1", "optimizer.beta1", "0.9"},
                                       {"beta2", "optimizer.beta2", "0.95"},
                                       {"grad_clip", "optimizer.grad_clip", "1"},
                                       {"decay_lr", "optimizer.decay_lr", "true"},
                                       {"warmup_iters", "train.warmup_iters", "2000"},
                                       {"lr_decay_iters", "optimizer.lr_decay_iters", "600000"},
                                       {"min_lr", "optimizer.min_lr", "6e-5"},
                                       {"backend", "", ""},
                                       {"device", "train.device", ""},
                                       {"dtype", "train.dtype", ""},
                                       {"compile", "train.compile", "true"}}};

const Name* find_name(std::string_view theirs) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& name) { return name.theirs == theirs; });
  return found == kNames.end() ? nullptr : &*found;
}

// Up to a # that stands in no quotes.
std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

std::optional<Json> number_of(std::string_view text) {
  if (text.find_first_not_of("0123456789+-.eE_") != std::string_view::npos) return std::nullopt;
  std::string digits(text);
  std::erase(digits, '_');
  if (const auto integer = number_from<std::int64_t>(digits)) return Json(*integer);
  if (const auto number = number_from<double>(digits)) return Json(*number);
  return std::nullopt;
}

// "5 * 8": how train_gpt2.py writes what several devices share.
std::optional<Json> product_of(std::string_view text) {
  std::int64_t product = 1;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('*', at), text.size());
    const auto factor = number_of(trimmed(text.substr(at, end - at)));
    if (!factor || !factor->is_int() || __builtin_mul_overflow(product, factor->integer(), &product)) return std::nullopt;
    at = end + 1;
  }
  return Json(product);
}

// The value of a literal of Python: True, False, None, a number, a quoted text without escapes, or a product of integers.
std::optional<Json> literal(std::string_view text) {
  if (text == "True") return Json(true);
  if (text == "False") return Json(false);
  if (text == "None") return Json();
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    const std::string_view inner = text.substr(1, text.size() - 2);
    const bool plain = inner.find(text.front()) == std::string_view::npos && inner.find('\\') == std::string_view::npos;
    return plain ? std::optional(Json(inner)) : std::nullopt;
  }
  if (auto number = number_of(text)) return number;
  return product_of(text);
}

// Whether to log to W&B is true or false there.
Json ours(const Name& name, const Json& value) {
  return name.theirs == kWandb && value.is_bool() ? Json(value.boolean() ? "offline" : "off") : value;
}

Problem unknown_name(const std::string& place, std::string_view name) {
  const std::string near = nearest_name(name, nanogpt_names());
  return {fmt::format("{}: nanoGPT's train.py has no setting {}", place, name),
          near.empty() ? "leave the line out; lockstep help config lists the settings of this program"
                       : fmt::format("did you mean {}?", near)};
}

class NanoGptReader {
 public:
  NanoGpt read(const std::vector<std::string>& words) {
    for (const std::string& word : words) word.starts_with("--") ? take_word(word) : read_file(word);
    if (with_defaults_) take_defaults();
    return std::move(out_);
  }

 private:
  void take_word(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string_view text = std::string_view(word).substr(equals + 1);
    const Name* name = find_name(std::string_view(word).substr(2, equals - 2));
    ensure(name != nullptr, "the command line takes known names alone");
    if (name->ours.empty()) return take_idle(word.substr(0, equals));
    const Key* key = find_key(name->ours);
    const bool is_literal = key->type != Type::text || name->theirs == kWandb;  // texts stand as they are
    const Json value = (is_literal ? literal(text) : std::nullopt).value_or(value_from_text(*key, text));
    out_.given.push_back({word.substr(0, equals), key, ours(*name, value)});
  }

  void read_file(const std::string& path) {
    with_defaults_ = true;
    std::string text;
    try {
      text = without_mark(io::read_file(path));
    } catch (const UserError& error) {
      out_.problems.insert(out_.problems.end(), error.problems().begin(), error.problems().end());
      return;
    }
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      read_line(std::string_view(text).substr(at, end - at), fmt::format("{}:{}", path, ++number));
      at = end + 1;
    }
  }

  void read_line(std::string_view line, const std::string& place) {
    if (const std::size_t at = invalid_utf8_at(line); at != line.npos) {
      out_.problems.push_back({fmt::format("{}: byte {} of the line is not UTF-8", place, at), "save the file in UTF-8"});
      return;
    }
    const std::string_view code = without_comment(line);
    if (trimmed(code).empty()) return;
    const std::size_t equals = std::min(code.find('='), code.size());
    const std::string_view name = trimmed(code.substr(0, equals));
    const bool is_name = !name.empty() && code.front() == name.front() &&
                         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == name.npos;
    const std::optional<Json> value = equals < code.size() ? literal(trimmed(code.substr(equals + 1))) : std::nullopt;
    if (!is_name || !value) {
      constexpr std::size_t most = 60;
      out_.problems.push_back(
          {fmt::format("{}: '{}': a line must be NAME = LITERAL: a number, True, False, None, a text in quotes or a product of "
                       "integers",
                       place, trimmed(code).substr(0, most)),
           "write the value out, or leave the line out: no Python is run"});
      return;
    }
    const Name* known = find_name(name);
    if (known == nullptr) {
      out_.problems.push_back(unknown_name(place, name));
    } else if (known->ours.empty()) {
      take_idle(fmt::format("{}: {}", place, name));
    } else {
      out_.given.push_back({fmt::format("{}: {}", place, name), find_key(known->ours), ours(*known, *value)});
    }
  }

  void take_idle(const std::string& place) {
    out_.idle.push_back(
        fmt::format("{}: recorded nowhere: ranks exchange as they were started, by MPI or in one process", place));
  }

  void take_defaults() {
    for (const Name& name : kNames) {
      if (name.by_default.empty()) continue;
      const Key* key = find_key(name.ours);
      out_.defaults.push_back(
          {fmt::format("the default of nanoGPT's {}", name.theirs), key, value_from_text(*key, name.by_default)});
    }
    out_.defaults.push_back({"nanoGPT's schedule", find_key("optimizer.schedule"), "nanogpt"});
  }

  NanoGpt out_;
  bool with_defaults_ = false;
};

}  // namespace

std::vector<std::string> nanogpt_names() {
  std::vector<std::string> names;
  for (const Name& name : kNames) names.emplace_back(name.theirs);
  return names;
}

NanoGpt read_nanogpt(const std::vector<std::string>& words) { return NanoGptReader().read(words); }

std::vector<Problem> share_accumulation(Assignment& said, std::int64_t replicas) {
  if (!said.value.is_int()) return {};
  const std::int64_t all = said.value.integer();
  said.value = all / replicas;
  if (all % replicas == 0) return {};
  return {{fmt::format("{} = {}: its micro-batches are shared by {} data-parallel ranks, which do not divide it", said.place, all,
                       replicas),
           fmt::format("--{}={}, or another multiple of {}", kAccumulation, (all / replicas + 1) * replicas, replicas)}};
}

std::vector<Problem> assign_all(app::RunConfig& config, const std::vector<NanoGpt::Assignment>& assignments) {
  std::vector<Problem> problems;
  for (const Assignment& one : assignments) {
    const bool unquoted = one.place.starts_with("--") && one.value.is_string();
    auto problem = assign(config, *one.key, one.value, unquoted ? one.value.string() : "");
    if (!problem) continue;
    problem->message = fmt::format("{}: {}", one.place, problem->message);
    problems.push_back(std::move(*problem));
  }
  return problems;
}

}  // namespace lockstep::settings
