#include "data/chat/chat_teacher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "data/chat/message.h"
#include "data/text/scan.h"

namespace lockstep::data {
namespace {

// A content that a template which writes contents shows, whatever it makes of them.
constexpr const char* marker = "0lockstep1";

ChatTemplate chosen_template(const ChatRules& rules, const ModelTexts& texts, const Tokenizer* tokenizer) {
  std::optional<ChatTemplate> found =
      rules.chat_template.empty() ? ChatTemplate::from_texts(texts) : ChatTemplate::open(rules.chat_template);
  if (!found)
    throw UserError(
        "no chat template says how a model reads these conversations",
        "name one by --chat-template: chatml, llama3, zephyr or a FILE; or a folder that has one: --tokenizer hf:FOLDER");
  ChatTemplate made = std::move(*found);
  if (made.take_tokens(texts)) return made;  // what they leave out, the model does not have
  if (tokenizer != nullptr && tokenizer->end_of_text() && made.lacks("eos_token"))
    made.set_token("eos_token", std::string(tokenizer->bytes(*tokenizer->end_of_text())));
  for (const char* token : {"bos_token", "eos_token"}) {
    if (made.lacks(token))
      throw UserError(fmt::format("the template {} writes {}, and nothing says which token that is", made.name(), token),
                      "name a tokenizer with its tokenizer_config.json: --tokenizer hf:FOLDER; or --chat-template chatml");
  }
  return made;
}

// The text of a conversation with other messages; nothing where the template refuses them.
template <class Change>
std::optional<std::string> text_with(const ChatTemplate& writes, const Conversation& chat, const std::tm& now,
                                     const Change& change) {
  Conversation other = chat;
  change(other.messages);
  try {
    return writes.write(other, ChatTemplate::Prompt::none, now);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Whether the template writes what `change` puts into a message: the marker, as its content or as the name that it calls. Finding
// the message's own words would prove nothing: a template may write them in another way or place, and tools have the same names.
// A template that refuses the marker has read it.
template <class Change>
bool shows(const ChatTemplate& writes, const Conversation& chat, std::size_t message, const std::tm& now, const Change& change) {
  const auto text = text_with(writes, chat, now, [&](Json::Array& messages) { change(messages[message]); });
  return !text || text->find(marker) != text->npos;
}

std::string call_marker(std::size_t message) { return fmt::format("0lockstep{}e", message); }

// The text with another name for the calls of each message: one rendering for all of them.
std::string with_marked_calls(const ChatTemplate& writes, const Conversation& chat, const std::tm& now) {
  const auto mark = [](Json::Array& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) set_called_by(messages[i], call_marker(i));
  };
  return text_with(writes, chat, now, mark).value_or("");
}

}  // namespace

bool demand_turns(const ChatTemplate& writes, const Conversation& chat, std::string_view text, const std::tm& now) {
  const auto lost = [&](std::size_t i, const char* what) {
    throw UserError(fmt::format("the template {} loses the {} of message {} ({})", writes.name(), what, i + 1,
                                visible(chat.messages[i].at("role").string())),
                    "take a template that writes it, or leave the message out");
  };
  std::optional<std::string> marked;  // made where a message calls
  bool thinking_lost = false;
  for (std::size_t i = 0, at = 0; i < chat.messages.size(); ++i) {
    const Json& message = chat.messages[i];
    const std::string_view content = text_of_member(message, "content"), thinking = thinking_of(message);
    if (const std::size_t found = text.find(content, at); found != text.npos) {
      at = found + content.size();
    } else if (!shows(writes, chat, i, now, [](Json& one) { one.set("content", marker); })) {
      lost(i, "content");
    }
    thinking_lost = thinking_lost || text.find(thinking) == text.npos;
    if (called_by(message).empty()) continue;
    if (!marked) marked = with_marked_calls(writes, chat, now);
    if (marked->find(call_marker(i)) == marked->npos &&
        !shows(writes, chat, i, now, [](Json& one) { set_called_by(one, marker); }))
      lost(i, "calls of tools");
  }
  return thinking_lost;
}

void ChatCounts::note_unread(std::string_view name) {
  constexpr std::size_t most = 12;
  if (unread.size() < most) unread.emplace(name);
}

ChatCounts& ChatCounts::operator+=(const ChatCounts& more) {
  dropped += more.dropped;
  cut += more.cut;
  silent += more.silent;
  thinking += more.thinking;
  for (const std::string& name : more.unread) note_unread(name);
  return *this;
}

ChatTeacher::ChatTeacher(ChatRules rules, RowForm form, const ModelTexts& texts, const Tokenizer* tokenizer)
    : rules_(std::move(rules)),
      form_(form),
      tokenizer_(tokenizer),
      template_(chosen_template(rules_, texts, tokenizer)),
      between_(template_.between_parts(rules_.now)) {
  if (rules_.train_on == TrainOn::completion && !has_completion(form))
    throw UserError(fmt::format("--train-on completion: {} have no completion", name_of(form)),
                    "--train-on assistant teaches all of the assistant's turns, last the last one");
  if (rules_.train_on == TrainOn::automatic) rules_.train_on = has_completion(form) ? TrainOn::completion : TrainOn::assistant;
}

std::string ChatTeacher::write(const Conversation& chat) const {
  return template_.write(chat, ChatTemplate::Prompt::none, rules_.now);
}

ChatFacts ChatTeacher::facts(const Tokenizer& tokenizer) const {
  std::string unknown;
  const std::vector<std::int32_t> ids = ids_of(tokenizer, template_.answer_end(rules_.now), unknown, true);
  const auto end = std::ranges::find_if(ids, [&](std::int32_t id) { return tokenizer.is_special(id); });
  return {.chat_template = template_.source(),
          .tokens = template_.tokens(),
          .end = end != ids.end() ? std::optional(*end) : std::nullopt};
}

// A conversation that teaches nothing may give the assistant another name. The roles are those of OpenAI's chats, and Llama's
// name of a tool.
void ChatTeacher::demand_an_assistant(const ChatRow& row) const {
  constexpr std::array<std::string_view, 7> known = {"system", "developer", "user", "assistant", "tool", "function", "ipython"};
  const Json::Array& messages = row.conversation.messages;
  const std::size_t from = rules_.train_on == TrainOn::completion ? row.prompt : 0;
  if (std::any_of(messages.begin() + static_cast<std::ptrdiff_t>(from), messages.end(), is_assistant)) return;
  for (std::size_t i = from; i < messages.size(); ++i) {
    const std::string& role = messages[i].at("role").string();
    if (std::ranges::find(known, role) != known.end()) continue;
    throw UserError(fmt::format("message {} has the role \"{}\", which is none of {}; and no message is the assistant's", i + 1,
                                visible(role), fmt::join(known, ", ")),
                    "write \"assistant\" where the model speaks; leave the row out where it does not");
  }
}

std::optional<ChatText> ChatTeacher::teach(const Json& json, ChatCounts& counts) const {
  ChatRow row = chat_row(json, form_, between_);
  if (!fit(row, counts)) return std::nullopt;
  const Conversation& chat = row.conversation;
  note_unread(chat, counts);
  ChatText made;
  if (rules_.train_on == TrainOn::all) {
    if (std::ranges::count(chat.untaught, true) > 0)
      throw UserError("--train-on all: a message of the conversation is not to be taught (\"weight\": 0, \"train\": false)",
                      "--train-on assistant teaches the others of the assistant's turns");
    made.text = write(chat);
    made.taught.push_back({0, made.text.size()});
  } else {
    made = template_.teach(chat, ChatTemplate::Prompt::none, rules_.now, first_taught(row));
  }
  if (demand_turns(template_, chat, made.text, rules_.now)) ++counts.thinking;
  if (!made.taught.empty()) return made;
  demand_an_assistant(row);
  ++counts.silent;
  return made;
}

// What a template never names, it does not write.
void ChatTeacher::note_unread(const Conversation& chat, ChatCounts& counts) const {
  constexpr std::array<std::string_view, 9> known = {"role",       "content",           "weight",    "loss_weight", "train",
                                                     "tool_calls", "reasoning_content", "reasoning", "thinking"};
  for (const auto& [name, value] : chat.variables) {
    if (!template_.mentions(name)) counts.note_unread(name);
  }
  for (const Json& message : chat.messages) {
    for (const auto& [name, value] : message.object()) {
      if (std::ranges::find(known, name) == known.end() && !value.is_null() && !template_.mentions(name))
        counts.note_unread(fmt::format("messages' {}", name));
    }
  }
}

std::size_t ChatTeacher::first_taught(const ChatRow& row) const {
  const Json::Array& messages = row.conversation.messages;
  if (rules_.train_on == TrainOn::completion) return row.prompt;
  if (rules_.train_on != TrainOn::last) return 0;
  std::size_t last = messages.size();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (is_assistant(messages[i])) last = i;
  }
  return last;
}

// The tokens that take a part of the length. In a window these are what ends the conversation, too, unless it ends so itself.
std::int64_t ChatTeacher::tokens_of(const Conversation& chat) const {
  const std::string text = write(chat);
  if (tokenizer_ == nullptr) return count_characters(text) + (rules_.packed && !text.ends_with('\n') ? 1 : 0);
  std::string unknown;
  const std::vector<std::int32_t> ids = ids_of(*tokenizer_, text, unknown);
  const bool ended = !ids.empty() && ids.back() == document_end(*tokenizer_);
  return std::ssize(ids) + (rules_.packed && !ended ? 1 : 0);
}

// Whether the conversation has a place in the length, with as many of its first turns as do.
bool ChatTeacher::fit(ChatRow& row, ChatCounts& counts) const {
  if (rules_.length == 0) return true;
  const std::int64_t count = tokens_of(row.conversation);
  if (count <= rules_.length) return true;
  if (rules_.too_long == TooLong::refuse)
    throw UserError(
        fmt::format("the conversation has {} tokens{}, more than --length {}", format_count(count),
                    rules_.packed ? " with what ends it" : "", rules_.length),
        "take a larger --length, leave such conversations out (--too-long drop) or their last turns (--too-long cut)");
  Json::Array& messages = row.conversation.messages;
  while (rules_.too_long == TooLong::cut && messages.size() > row.prompt + 1) {
    messages.pop_back();
    if (!is_assistant(messages.back()) || tokens_of(row.conversation) > rules_.length) continue;
    ++counts.cut;
    return true;
  }
  ++counts.dropped;
  return false;
}

}  // namespace lockstep::data
