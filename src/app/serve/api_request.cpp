#include "app/serve/api_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/cli/day.h"
#include "arch/huggingface/fields.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "data/chat/chat_rows.h"
#include "data/chat/message.h"
#include "train/serving/text_batch.h"

namespace lockstep::app {
namespace {

/// As it is shown in a message.
std::string cut(std::string_view value) {
  constexpr std::size_t most = 60;
  std::string text = visible(value);
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (is_continuation(text[end])) --end;
  return text.substr(0, end) + "...";
}

/// The members of a request, each asked for by its name.
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
  bool flag(const char* name, bool otherwise = false) {
    const Json* value = find(name);
    if (value != nullptr && !value->is_bool()) refuse(name, *value, "true or false");
    return value != nullptr ? value->boolean() : otherwise;
  }
  [[noreturn]] static void refuse(const char* name, const Json& value, const std::string& rule) {
    throw ApiError(400, fmt::format("'{}' is {}: it must be {}", name, cut(value.dump()), rule), name);
  }
  const std::vector<std::string>& asked() const { return asked_; }
  Json::Object others() const {
    Json::Object left;
    for (const auto& member : body_.object()) {
      if (!member.second.is_null() && std::ranges::find(asked_, member.first) == asked_.end()) left.push_back(member);
    }
    return left;
  }

 private:
  const Json& body_;
  std::vector<std::string> asked_;
};

/// Members that change an answer, each with a value that does not: any other is refused, for its answer would be a wrong one.
/// They are of OpenAI's API, and of vLLM's and llama.cpp's servers.
constexpr auto neutral = std::to_array<arch::huggingface::OnlyValue>({
    {"echo", "false", ""},
    {"suffix", R"("")", ""},
    {"logit_bias", "{}", ""},
    {"presence_penalty", "0", ""},
    {"frequency_penalty", "0", ""},
    {"repetition_penalty", "1", ""},
    {"repeat_penalty", "1", ""},
    {"length_penalty", "1", ""},
    {"min_p", "0", ""},
    {"typical_p", "1", ""},
    {"min_tokens", "0", ""},
    {"ignore_eos", "false", ""},
    {"stop_token_ids", "[]", ""},
    {"bad_words", "[]", ""},
    {"include_stop_str_in_output", "false", ""},
    {"use_beam_search", "false", ""},
    {"return_token_ids", "false", ""},
    {"return_tokens_as_token_ids", "false", ""},
    {"add_generation_prompt", "true", ""},
    {"continue_final_message", "false", ""},
    {"continuous_usage_stats", "false", ""},
    {"response_format", R"({"type":"text"})", ""},
    {"modalities", R"(["text"])", ""},
    {"verbosity", R"("medium")", ""},
    {"tools", "[]", ""},
    {"tool_choice", R"("auto")", ""},
    {"tool_choice", R"("none")", ""},
    {"functions", "[]", ""},
    {"function_call", R"("auto")", ""},
    {"function_call", R"("none")", ""},
});
/// These change no text.
constexpr auto harmless =
    std::to_array<std::string_view>({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                                     "prompt_cache_retention", "prediction", "request_id", "priority", "cache_salt",
                                     "cache_prompt", "spaces_between_special_tokens", "reasoning_effort", "include_obfuscation"});

void refuse_what_is_not_neutral(const std::string& name, const Json& value) {
  std::vector<std::string_view> rules;
  for (const auto& row : neutral) {
    if (row.key != name) continue;
    if (!arch::huggingface::differs(&value, row)) return;
    rules.push_back(row.value);
  }
  if (!rules.empty()) Members::refuse(name.c_str(), value, fmt::format("{}: no other is done here", fmt::join(rules, " or ")));
}

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
  std::string unknown;
  std::vector<std::int32_t> ids = refused_by_name(name, [&] { return data::ids_of(tokenizer, text, unknown); });
  if (begins) data::begin_prompt(tokenizer, ids);
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

bool has_variable(const data::Conversation& chat, std::string_view name) {
  return std::ranges::find(chat.variables, name, &Json::Object::value_type::first) != chat.variables.end();
}

/// What the template would leave out of a conversation is refused.
void refuse_what_is_not_written(const data::Conversation& chat, const data::ChatTemplate& writes) {
  const auto refuse = [&](const char* name, const char* parameter) {
    throw ApiError(400, fmt::format("'{}': the chat template {} does not write them: leave them out", name, writes.name()),
                   parameter);
  };
  for (const char* name : {"tools", "documents"}) {
    if (has_variable(chat, name) && !writes.mentions(name)) refuse(name, name);
  }
  for (const Json& message : chat.messages) {
    const char* const calls = message.find("function_call") != nullptr ? "function_call" : "tool_calls";
    if (!data::called_by(message).empty() && !writes.mentions("tool_calls")) refuse(calls, "messages");
    for (const char* name : {"refusal", "audio"})
      if (data::member_of(message, name) != nullptr && !writes.mentions(name)) refuse(name, "messages");
  }
}

CallForm calls_of(const data::Conversation& chat, const data::ChatTemplate& writes) {
  if (!has_variable(chat, "tools")) return CallForm::none;
  const CallForm form = call_form(writes);
  if (form == CallForm::none)
    throw ApiError(400,
                   fmt::format("'tools': the chat template {} asks for calls in a form that is not read here; read are "
                               "<tool_call> with JSON, and Llama 3's JSON",
                               writes.name()),
                   "tools");
  return form;
}

std::vector<std::int32_t> chat_prompt(Members& members, const ServedModel& model, CallForm& calls) {
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
  if (const Json* choice = members.find("tool_choice"); choice != nullptr) {
    refuse_what_is_not_neutral("tool_choice", *choice);
    if (choice->string() == "none") row.set("tools", nullptr);
  }
  refused_by_name("chat_template_kwargs", [&] { return data::template_variables(row); });
  data::Conversation chat = refused_by_name("messages", [&] {
    return data::chat_row(row, data::RowForm::messages, model.chat->between_parts(day_of(""))).conversation;
  });
  refuse_what_is_not_written(chat, *model.chat);
  calls = calls_of(chat, *model.chat);
  if (const Json* effort = model.chat->mentions("reasoning_effort") ? members.find("reasoning_effort") : nullptr) {
    if (has_variable(chat, "reasoning_effort"))
      throw ApiError(400, "'reasoning_effort' is in 'chat_template_kwargs', too: leave one out", "reasoning_effort");
    chat.variables.emplace_back("reasoning_effort", *effort);
  }
  for (Json& message : chat.messages) {  // a developer's message is a system's by another name (OpenAI's API)
    if (message.at("role").string() == "developer" && !model.chat->mentions("developer")) message.set("role", "system");
  }
  return chat_ids(model, chat);
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

/// How many tokens a text of each prompt may have.
std::vector<std::int64_t> tokens_of(Members& members, Endpoint endpoint, const std::vector<std::vector<std::int32_t>>& prompts,
                                    std::int64_t longest) {
  constexpr std::int64_t any = std::int64_t{1} << 40;
  const std::optional<std::int64_t> old = members.integer("max_tokens", 1, any),
                                    newer = members.integer("max_completion_tokens", 1, any);
  if (old && newer && *old != *newer)
    throw ApiError(400, fmt::format("'max_tokens' is {} and 'max_completion_tokens' is {}: leave one out", *old, *newer),
                   "max_tokens");
  const std::int64_t most = newer ? *newer : old.value_or(endpoint == Endpoint::chat ? any : 16);
  std::vector<std::int64_t> tokens;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    tokens.push_back(std::min(most, longest - std::ssize(prompt)));
    if (prompt.empty()) throw ApiError(400, "the prompt is empty: there is nothing to continue", "prompt");
    if (tokens.back() > 0) continue;
    throw ApiError(
        400,
        fmt::format("the prompt has {} tokens, and a prompt with its answer at most {}: shorten it, or start the server with "
                    "a longer --context",
                    prompt.size(), longest),
        endpoint == Endpoint::chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return tokens;
}

/// What no part of the request's reading has asked for. Adds what changes nothing to `ignored`.
void refuse_what_is_not_done(const Members& members, std::vector<std::string>& ignored) {
  std::vector<std::string> known = members.asked();
  known.insert(known.end(), harmless.begin(), harmless.end());
  for (const auto& row : neutral) known.emplace_back(row.key);
  for (const auto& [name, value] : members.others()) {
    refuse_what_is_not_neutral(name, value);
    if (std::ranges::find(known, name) == known.end()) {
      const std::string near = nearest_name(name, known);
      throw ApiError(400,
                     fmt::format("'{}' is not known here: leave it out{}", cut(name),
                                 near.empty() ? "" : fmt::format(", or did you mean '{}'?", near)),
                     cut(name));
    }
    if (std::ranges::find(harmless, name) != harmless.end()) ignored.push_back(name);
  }
}

void read_stream(Members& members, ApiRequest& request) {
  request.stream = members.flag("stream");
  const Json* options = members.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) Members::refuse("stream_options", *options, "an object");
  if (!request.stream) throw ApiError(400, "'stream_options' needs \"stream\": true", "stream_options");
  Members of_stream(*options);
  request.stream_usage = of_stream.flag("include_usage");
  refuse_what_is_not_done(of_stream, request.ignored);
}

}  // namespace

ApiError unknown_model(const Json& name, const ServedModel& model) {
  return {404, fmt::format("there is no model {}: this server has \"{}\"", visible(name.dump()), model.name), "model",
          "model_not_found"};
}

std::vector<std::int32_t> chat_ids(const ServedModel& model, const data::Conversation& chat) {
  return refused_by_name("messages", [&] {
    const std::string text = model.chat->write(chat, data::ChatTemplate::Prompt::added, day_of(""));
    if (const std::optional<std::size_t> left_out = model.chat->left_out(chat, day_of(""))) {
      throw ApiError(
          400,
          fmt::format("'messages': the chat template {} does not write message {}, whose role is {}: give it another role",
                      model.chat->name(), *left_out + 1, visible(chat.messages[*left_out].at("role").dump())),
          "messages");
    }
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
    request.prompts.push_back(chat_prompt(members, model, request.calls));
    request.one_call = !members.flag("parallel_tool_calls", true);
  } else {
    request.prompts = prompts_of(members, model);
  }
  request.tokens = tokens_of(members, endpoint, request.prompts, model.longest);
  request.choices = members.integer("n", 1, model.most_choices).value_or(1);
  if (request.choices * std::ssize(request.prompts) > model.most_choices)
    throw ApiError(400,
                   fmt::format("{} prompts with {} choices each: a request may have {} texts", request.prompts.size(),
                               request.choices, model.most_choices),
                   "n");
  const auto& published = model.habits.generation;
  train::SampleOptions& sampling = request.sampling;
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
  for (const std::string& stop : request.stops) {
    if (const std::optional<std::int32_t> mark = mark_of(*model.tokenizer, stop)) request.ends.push_back(*mark);
  }
  request.stops.insert(request.stops.end(), published.stops.begin(), published.stops.end());
  request.likely = likely_of(members, endpoint);
  read_stream(members, request);
  // Marks of calls are special tokens in some vocabularies (vLLM, hermes_tool_parser.py, adjust_request).
  request.shows_special = !members.flag("skip_special_tokens", true) || request.calls == CallForm::hermes;
  if (const Json* best = members.find("best_of");
      best != nullptr && best->dump() != "1" && best->dump() != Json(request.choices).dump())
    Members::refuse("best_of", *best, "as many as 'n': no text is left out");
  refuse_what_is_not_done(members, request.ignored);
  return request;
}

}  // namespace lockstep::app
