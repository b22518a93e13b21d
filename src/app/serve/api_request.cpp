#include "app/serve/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "app/cli/day.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "data/chat/chat_rows.h"
#include "train/serving/text_batch.h"

namespace lockstep::app {
namespace {

/// The members of a request, each asked for by its name; the rest is ignored, and told.
class Members {
 public:
  explicit Members(const Json& body) : body_(body) {}

  const Json* find(const char* name) {
    asked_.emplace_back(name);
    const Json* value = body_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::optional<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most) {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (!value->is_int() || value->integer() < least || value->integer() > most)
      refuse(name, *value, fmt::format("an integer from {} to {}", least, most));
    return value->integer();
  }
  std::optional<double> number(const char* name, double least, double most) {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (!value->is_number() || !(value->number() >= least && value->number() <= most))
      refuse(name, *value, fmt::format("a number from {} to {}", least, most));
    return value->number();
  }
  bool flag(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && !value->is_bool()) refuse(name, *value, "true or false");
    return value != nullptr && value->boolean();
  }
  [[noreturn]] static void refuse(const char* name, const Json& value, const std::string& rule) {
    constexpr std::size_t most = 60;
    std::string text = visible(value.dump());
    if (text.size() > most) {
      std::size_t end = most;
      while (is_continuation(text[end])) --end;
      text = text.substr(0, end) + "...";
    }
    throw ApiError(400, fmt::format("'{}' is {}: it must be {}", name, text, rule), name);
  }
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : body_.object()) {
      if (std::ranges::find(asked_, name) == asked_.end()) names.push_back(name);
    }
    return names;
  }

 private:
  const Json& body_;
  std::vector<std::string> asked_;
};

/// What is wrong with a user's file elsewhere is wrong with a member of the request here.
template <class Call>
auto refused_by_name(const char* name, const Call& call) {
  try {
    return call();
  } catch (const UserError& error) {
    throw ApiError(400, fmt::format("'{}': {}", name, error.problems().front().message), name);
  }
}

std::vector<std::int32_t> encode(const data::Tokenizer& tokenizer, std::string_view text, bool begins, std::int64_t vocabulary,
                                 const char* name) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(refused_by_name(name, [&] { return tokenizer.encode(text, ids, unknown); }));
  const std::span<const std::int32_t> beginning = tokenizer.begin_of_text();
  if (begins) ids.insert(ids.begin(), beginning.begin(), beginning.end());
  if (!unknown.empty()) throw ApiError(400, fmt::format("'{}': the model's vocabulary lacks {}", name, visible(unknown)), name);
  if (const auto strange = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= vocabulary; }); strange != ids.end())
    throw ApiError(400, fmt::format("'{}': the model does not know token {}", name, *strange), name);
  return ids;
}

std::vector<std::int32_t> ids_of(const Json& list, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (const Json& id : list.array()) {
    if (!id.is_int() || id.integer() < 0 || id.integer() >= vocabulary)
      Members::refuse("prompt", id, fmt::format("a text, or ids from 0 to {}, or a list of either", vocabulary - 1));
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
  return ids;
}

std::vector<std::vector<std::int32_t>> prompts_of(Members& members, const ServedModel& model) {
  const Json* prompt = members.find("prompt");
  if (prompt == nullptr) throw ApiError(400, "'prompt' is missing: the text that is to be continued", "prompt");
  const auto one = [&](const Json& json) {
    if (json.is_string()) return encode(*model.tokenizer, json.string(), true, model.vocabulary, "prompt");
    if (json.is_array()) return ids_of(json, model.vocabulary);
    Members::refuse("prompt", json, "a text, or ids, or a list of either");
  };
  if (!prompt->is_array() || prompt->array().empty() || prompt->array().front().is_int()) return {one(*prompt)};
  std::vector<std::vector<std::int32_t>> prompts;
  for (const Json& json : prompt->array()) prompts.push_back(one(json));
  return prompts;
}

std::vector<std::int32_t> chat_prompt(Members& members, const ServedModel& model) {
  const Json* messages = members.find("messages");
  if (messages == nullptr) throw ApiError(400, "'messages' is missing: a list of {\"role\", \"content\"}", "messages");
  if (!messages->is_array() || messages->array().empty())
    Members::refuse("messages", *messages, "a list of {\"role\", \"content\"}");
  if (model.chat == nullptr)
    throw ApiError(400, "this model has no chat template: use /v1/completions, or start the server with --chat-template",
                   "messages");
  Json row(Json::Object{{"messages", *messages}});
  for (const char* name : {"tools", "documents", "chat_template_kwargs"}) {
    if (const Json* value = members.find(name)) row.set(name, *value);
  }
  return refused_by_name("messages", [&] { return chat_ids(model, data::chat_row(row, data::RowForm::messages).conversation); });
}

std::vector<std::string> stops_of(Members& members) {
  constexpr std::size_t most = 16, longest = 1024;
  const Json* stop = members.find("stop");
  std::vector<std::string> stops;
  if (stop == nullptr) return stops;
  const auto add = [&](const Json& text) {
    if (!text.is_string() || text.string().empty() || text.string().size() > longest)
      Members::refuse("stop", text, fmt::format("a text of 1 to {} bytes, or a list of at most {}", longest, most));
    stops.push_back(text.string());
  };
  if (!stop->is_array()) {
    add(*stop);
  } else if (stop->array().size() > most) {
    Members::refuse("stop", *stop, fmt::format("a text, or a list of at most {}", most));
  } else {
    for (const Json& text : stop->array()) add(text);
  }
  return stops;
}

/// As many of the likeliest tokens as are asked for.
std::int64_t likely_of(Members& members, Endpoint endpoint) {
  constexpr std::int64_t most = train::BatchSize::most_likely;
  if (endpoint == Endpoint::completions) return members.integer("logprobs", 0, most).value_or(-1);
  const bool told = members.flag("logprobs");
  const std::optional<std::int64_t> top = members.integer("top_logprobs", 0, most);
  if (top && !told) throw ApiError(400, "'top_logprobs' needs \"logprobs\": true", "top_logprobs");
  return told ? top.value_or(0) : -1;
}

std::int64_t tokens_of(Members& members, Endpoint endpoint, std::int64_t prompt, std::int64_t longest) {
  if (prompt >= longest) {
    throw ApiError(
        400,
        fmt::format("the prompt has {} tokens, and a prompt with its answer at most {}: shorten it, or start the server with "
                    "a longer --context",
                    prompt, longest),
        endpoint == Endpoint::chat ? "messages" : "prompt", "context_length_exceeded");
  }
  const std::int64_t room = longest - prompt, usual = endpoint == Endpoint::chat ? room : 16;
  constexpr std::int64_t any = std::int64_t{1} << 40;
  const std::optional<std::int64_t> old = members.integer("max_tokens", 1, any),
                                    newer = members.integer("max_completion_tokens", 1, any);
  return std::min(room, newer ? *newer : old.value_or(usual));
}

/// Members of OpenAI's API that change an answer, and the values of them that do not. Others are refused: an answer that passes
/// them over would be a wrong one.
void refuse_what_is_not_done(Members& members, std::int64_t choices) {
  const auto zero = [](const Json& value) { return value.is_number() && value.number() == 0; };
  const auto is_text = [](const Json& value, std::string_view text) { return value.is_string() && value.string() == text; };
  struct Undone {
    const char *name, *rule;
    std::function<bool(const Json&)> changes_nothing;
  };
  const Undone all[] = {
      {"echo", "false: a prompt is not repeated, nor judged", [](const Json& v) { return v.is_bool() && !v.boolean(); }},
      {"suffix", "empty: texts are written forwards alone", [&](const Json& v) { return is_text(v, ""); }},
      {"best_of", "as many as 'n': no text is left out",
       [&](const Json& v) { return v.is_int() && (v.integer() == choices || v.integer() == 1); }},
      {"logit_bias", "empty: logits are the model's own", [](const Json& v) { return v.is_object() && v.object().empty(); }},
      {"presence_penalty", "0: logits are the model's own", zero},
      {"frequency_penalty", "0: logits are the model's own", zero},
      {"response_format", "{\"type\": \"text\"}: no other is held to",
       [&](const Json& v) { return v.is_object() && v.find("type") != nullptr && is_text(*v.find("type"), "text"); }},
      {"tool_choice", "\"auto\" or \"none\": the model is free to call a tool or not",
       [&](const Json& v) { return is_text(v, "auto") || is_text(v, "none"); }}};
  for (const Undone& undone : all) {
    const Json* const value = members.find(undone.name);
    if (value != nullptr && !undone.changes_nothing(*value)) Members::refuse(undone.name, *value, undone.rule);
  }
}

}  // namespace

std::string error_body(const ApiError& error) {
  const char* type = error.status == 401   ? "authentication_error"
                     : error.status >= 500 ? "server_error"
                     : error.status == 429 ? "rate_limit_error"
                                           : "invalid_request_error";
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return Json(Json::Object{{"error", Json::Object{{"message", error.what()},
                                                  {"type", type},
                                                  {"param", text_or_null(error.parameter)},
                                                  {"code", text_or_null(error.code)}}}})
      .dump();
}

ApiError unknown_model(const Json& name, const ServedModel& model) {
  return {404, fmt::format("there is no model {}: this server has \"{}\"", visible(name.dump()), model.name), "model",
          "model_not_found"};
}

std::vector<std::int32_t> chat_ids(const ServedModel& model, const data::Conversation& chat) {
  return refused_by_name("messages", [&] {
    const std::string text = model.chat->write(chat, data::ChatTemplate::Prompt::added, day_of(""));
    return encode(*model.tokenizer, text, false, model.vocabulary, "messages");
  });
}

ApiRequest read_request(std::string_view body, Endpoint endpoint, const ServedModel& model, std::uint64_t fresh_seed) {
  if (const std::size_t at = invalid_utf8_at(body); at != std::string::npos)
    throw ApiError(400, fmt::format("the request is not UTF-8: see its byte {}", at));
  Json json;
  try {
    json = Json::parse(body, "the request");
  } catch (const UserError& error) {
    throw ApiError(400, error.problems().front().message);
  }
  if (!json.is_object()) throw ApiError(400, "the request must be a JSON object");
  Members members(json);
  if (const Json* name = members.find("model"); name != nullptr && (!name->is_string() || name->string() != model.name)) {
    throw unknown_model(*name, model);
  }
  ApiRequest request;
  if (endpoint == Endpoint::chat) {
    request.prompts.push_back(chat_prompt(members, model));
  } else {
    request.prompts = prompts_of(members, model);
  }
  std::int64_t longest_prompt = 0;
  for (const std::vector<std::int32_t>& prompt : request.prompts) {
    if (prompt.empty()) throw ApiError(400, "the prompt is empty: there is nothing to continue", "prompt");
    longest_prompt = std::max(longest_prompt, std::ssize(prompt));
  }
  request.choices = members.integer("n", 1, model.most_choices).value_or(1);
  if (request.choices * std::ssize(request.prompts) > model.most_choices)
    throw ApiError(400,
                   fmt::format("{} prompts with {} choices each: a request may have {} texts", request.prompts.size(),
                               request.choices, model.most_choices),
                   "n");
  const auto& published = model.habits.generation;
  train::SampleOptions& sampling = request.sampling;
  sampling.tokens = tokens_of(members, endpoint, longest_prompt, model.longest);
  sampling.temperature = members.number("temperature", 0, 100).value_or(published.temperature.value_or(1));
  sampling.top_k = members.integer("top_k", -1, model.vocabulary).value_or(published.top_k.value_or(0));
  sampling.top_k = std::max<std::int64_t>(sampling.top_k, 0);
  sampling.top_p = members.number("top_p", 0, 1).value_or(published.top_p.value_or(1));
  if (sampling.top_p == 0) sampling.top_k = 1, sampling.top_p = 1;
  const std::optional<std::int64_t> seed =
      members.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  request.seeded = seed.has_value();
  sampling.seed = seed ? static_cast<std::uint64_t>(*seed) : fresh_seed;
  sampling.never = model.habits.never;
  request.stops = stops_of(members);
  request.stops.insert(request.stops.end(), published.stops.begin(), published.stops.end());
  request.likely = likely_of(members, endpoint);
  request.stream = members.flag("stream");
  if (const Json* options = members.find("stream_options"); options != nullptr) {
    if (!options->is_object()) Members::refuse("stream_options", *options, "an object");
    Members of_stream(*options);
    request.stream_usage = of_stream.flag("include_usage");
  }
  refuse_what_is_not_done(members, request.choices);
  request.ignored = members.others();
  return request;
}

}  // namespace lockstep::app
