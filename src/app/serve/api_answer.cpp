#include "app/serve/api_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

/// Moves whole characters from the front of `held` to `text`; what is none becomes U+FFFD. `last`: what is left is no beginning.
void move_characters(std::string& held, std::string& text, bool last) {
  constexpr std::size_t longest = 4;
  std::size_t at = 0;
  while (at < held.size()) {
    const CodePoint point = code_point_at(held, at);
    if (point.length == 0 && !last && held.size() - at < longest && !is_continuation(held[at])) {
      // Perhaps the rest is still to come.
      std::size_t end = at + 1;
      while (end < held.size() && is_continuation(held[end])) ++end;
      if (end == held.size() && static_cast<unsigned char>(held[at]) >= 0xC2U) break;
    }
    point.length > 0 ? text.append(held, at, point.length) : text.append(replacement);
    at += std::max<std::size_t>(point.length, 1);
  }
  held.erase(0, at);
}

std::string valid(std::string_view bytes) {
  std::string held(bytes), text;
  move_characters(held, text, true);
  return text;
}

/// A token as OpenAI's completions write it: bytes that are no whole characters as "bytes:\xe2\x80".
std::string named(std::string_view bytes) {
  if (invalid_utf8_at(bytes) == std::string::npos) return std::string(bytes);
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

std::int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); });
}

/// A streamed choice in the parts in which it is told. The end comes behind calls: OpenAI's client takes a call for a whole one
/// when it meets what follows (lib/streaming/chat/_completions.py).
std::vector<Json> in_turn(Json choice) {
  std::vector<Json> parts;
  if (const Json* delta = choice.find("delta"); delta != nullptr && delta->find("tool_calls") != nullptr) {
    Json end = choice;
    choice.set("finish_reason", nullptr);
    end.set("delta", Json(Json::Object{}));
    end.set("logprobs", nullptr);
    parts = {std::move(choice), std::move(end)};
  } else {
    parts.push_back(std::move(choice));
  }
  return parts;
}

}  // namespace

ApiAnswer::ApiAnswer(AnswerHead head, const ApiRequest& request, Texts texts, const data::Tokenizer& tokenizer)
    : head_(std::move(head)),
      wants_likely_(request.likely >= 0),
      wants_usage_(request.stream_usage),
      shows_special_(request.shows_special),
      one_call_(request.one_call),
      texts_(std::move(texts)),
      tokenizer_(tokenizer),
      choices_(texts_.size(), Choice{.held = {}, .text = {}, .calls = CallReader(request.calls), .tokens = {}, .told_held = {}}) {
  for (const std::vector<std::int32_t>& prompt : request.prompts) prompt_tokens_ += std::ssize(prompt);
}

ApiAnswer::~ApiAnswer() {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (choices_[i].ending == Ending::none) texts_[i]->abandon();
  }
}

bool ApiAnswer::take(std::size_t i, double seconds) {
  Choice& choice = choices_[i];
  if (choice.ending != Ending::none) return false;
  WrittenPart part = texts_[i]->take(seconds);
  choice.held += part.bytes;
  choice.ending = part.ending;
  written_ += part.count;
  const std::size_t before = choice.text.size();
  std::string came;
  move_characters(choice.held, came, part.ending != Ending::none);
  choice.text += choice.calls.add(came);
  if (part.ending != Ending::none) choice.text += choice.calls.end();
  choice.tokens.insert(choice.tokens.end(), std::make_move_iterator(part.tokens.begin()),
                       std::make_move_iterator(part.tokens.end()));
  return choice.text.size() > before || choice.ending != Ending::none || !part.tokens.empty();
}

Json ApiAnswer::likelihoods(Choice& choice) const {
  if (!wants_likely_) return {};
  const auto text_of = [&](const train::LikelyToken& token) { return valid(tokenizer_.bytes(token.token)); };
  if (head_.endpoint == Endpoint::completions) {
    Json::Array tokens, own, top, offsets;
    for (const ToldToken& told : choice.tokens) {
      tokens.emplace_back(named(tokenizer_.bytes(told.token.token)));
      own.emplace_back(told.token.log_probability);
      Json likely(Json::Object{});
      const auto add = [&](const train::LikelyToken& token) {
        const std::string name = named(tokenizer_.bytes(token.token));
        if (likely.find(name) == nullptr) likely.set(name, token.log_probability);  // of two that read alike the likelier one
      };
      std::ranges::for_each(told.likely, add);
      add(told.token);  // one more than was asked for, where it is not among them (OpenAI's API)
      top.push_back(std::move(likely));
      const std::string_view bytes = shown_bytes(tokenizer_, told.token.token, shows_special_);
      const auto tell = [&](bool last) {
        std::string characters;
        move_characters(choice.told_held, characters, last);
        choice.told += characters_in(characters);
      };
      if (!bytes.empty() && !is_continuation(bytes.front())) tell(true);  // what is held stays a part of a character
      offsets.emplace_back(choice.told);
      choice.told_held += bytes;
      tell(false);
    }
    return Json::Object{{"tokens", std::move(tokens)},
                        {"token_logprobs", std::move(own)},
                        {"top_logprobs", std::move(top)},
                        {"text_offset", std::move(offsets)}};
  }
  const auto entry = [&](const train::LikelyToken& token) {
    Json::Array bytes;
    for (const char byte : tokenizer_.bytes(token.token)) bytes.emplace_back(static_cast<int>(static_cast<unsigned char>(byte)));
    return Json(Json::Object{{"token", text_of(token)}, {"logprob", token.log_probability}, {"bytes", std::move(bytes)}});
  };
  Json::Array content;
  for (const ToldToken& told : choice.tokens) {
    Json::Array top;
    for (const train::LikelyToken& token : told.likely) top.push_back(entry(token));
    Json one = entry(told.token);
    one.set("top_logprobs", std::move(top));
    content.push_back(std::move(one));
  }
  return Json::Object{{"content", std::move(content)}, {"refusal", nullptr}};
}

Json ApiAnswer::calls_json(std::size_t i, bool delta) const {
  Json::Array calls;
  for (const ToolCall& call : choices_[i].calls.calls()) {
    Json json(Json::Object{});
    if (delta) json.set("index", std::ssize(calls));
    json.set("id", fmt::format("call-{}-{}-{}", head_.id, i, calls.size()));
    json.set("type", "function");
    json.set("function", Json::Object{{"name", call.name}, {"arguments", call.arguments}});
    calls.push_back(std::move(json));
    if (one_call_) break;
  }
  return calls;
}

Json ApiAnswer::choice_json(std::size_t i, bool delta) {
  Choice& choice = choices_[i];
  Json json(Json::Object{{"index", static_cast<std::int64_t>(i)}});
  std::string text = std::exchange(choice.text, "");
  if (head_.endpoint == Endpoint::completions) {
    json.set("text", std::move(text));
  } else {
    const bool calls = !choice.calls.calls().empty(), empty = calls && text.empty();
    Json said(Json::Object{});
    if (!delta) said.set("role", "assistant");
    if (!delta || !empty) said.set("content", empty ? Json() : Json(std::move(text)));
    if (!delta) said.set("refusal", nullptr);
    if (calls) said.set("tool_calls", calls_json(i, delta));
    json.set(delta ? "delta" : "message", std::move(said));
  }
  json.set("logprobs", likelihoods(choice));
  choice.tokens.clear();
  const char* reason = !choice.calls.calls().empty() ? "tool_calls" : choice.ending == Ending::length ? "length" : "stop";
  json.set("finish_reason", choice.ending == Ending::none || has_failed(choice) ? Json() : Json(reason));
  return json;
}

Json ApiAnswer::object(Json::Array choices, bool chunk) const {
  const bool chat = head_.endpoint == Endpoint::chat;
  return Json::Object{{"id", head_.id},
                      {"object", chat ? chunk ? "chat.completion.chunk" : "chat.completion" : "text_completion"},
                      {"created", head_.created},
                      {"model", head_.model},
                      {"system_fingerprint", head_.fingerprint},
                      {"choices", std::move(choices)}};
}

Json ApiAnswer::usage() const {
  return Json::Object{
      {"prompt_tokens", prompt_tokens_}, {"completion_tokens", written_}, {"total_tokens", prompt_tokens_ + written_}};
}

std::optional<std::string> ApiAnswer::whole(const std::function<bool()>& gone) {
  constexpr double between_looks = 0.05;
  Json::Array choices;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    while (choices_[i].ending == Ending::none) {
      take(i, between_looks);
      if (gone()) return {};
    }
    if (has_failed(choices_[i])) throw failure();
    choices.push_back(choice_json(i, false));
  }
  Json json = object(std::move(choices), false);
  json.set("usage", usage());
  return json.dump();
}

void ApiAnswer::stream(const std::function<bool(std::string_view)>& put) {
  const auto event = [&](Json::Array choices, const Json& more = {}) {
    Json json = object(std::move(choices), true);
    if (wants_usage_) json.set("usage", more);
    return put(fmt::format("data: {}\n\n", json.dump()));
  };
  if (head_.endpoint == Endpoint::chat) {
    for (std::int64_t i = 0; i < std::ssize(texts_); ++i) {
      if (!event({Json::Object{{"index", i},
                               {"delta", Json::Object{{"role", "assistant"}, {"content", ""}}},
                               {"logprobs", nullptr},
                               {"finish_reason", nullptr}}}))
        return;
    }
  }
  const auto open = [&] { return std::ranges::any_of(choices_, [](const Choice& c) { return c.ending == Ending::none; }); };
  const double patience = texts_.size() == 1 ? 1 : 0.01;
  while (open()) {
    bool told = false;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (!take(i, patience)) continue;
      told = true;
      if (!std::ranges::all_of(in_turn(choice_json(i, true)), [&](const Json& part) { return event({part}); })) return;
    }
    if (!told && texts_.size() == 1 && !put(": \n\n")) return;  // false where the client has gone away
  }
  if (std::ranges::any_of(choices_, has_failed)) throw failure();
  if (wants_usage_ && !event({}, usage())) return;
  put("data: [DONE]\n\n");
}

}  // namespace lockstep::app
