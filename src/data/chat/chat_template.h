#pragma once

// How a model writes a conversation as text, and which parts of that text it is taught.

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/chat/jinja/template.h"
#include "data/chat/model_texts.h"
#include "io/file.h"

namespace lockstep::data {

struct Conversation {
  Json::Array messages;             ///< objects with a "role", and mostly "content"
  Json::Object variables = {};      ///< what a template reads besides: "tools", "documents", "enable_thinking"
  std::vector<bool> untaught = {};  ///< by message, those of the assistant that are not taught; empty: none

  bool teaches(std::size_t message) const { return message >= untaught.size() || !untaught[message]; }
};

/// Reads a list of messages, or an object with "messages" whose other members are variables. Throws UserError.
Conversation conversation_from_json(const Json& json, std::string_view what);

/// Bytes begin .. end of a text.
struct Taught {
  std::size_t begin, end;
};

struct ChatText {
  std::string text;
  std::vector<Taught> taught = {};  ///< in order, apart from each other
};

class ChatTemplate {
 public:
  /// Opens a template by its name (chatml, ...), or from its file, a tokenizer_config.json, a GGUF file, or the folder of a
  /// model. Takes the special tokens that a folder or a GGUF file says. Takes its template for tools, too, which writes the
  /// conversations that have some.
  static ChatTemplate open(const std::string& file_or_name);
  ChatTemplate(std::string_view source, std::string name, Json::Object tokens = {});

  /// Sets the text of "bos_token" and the like, which the template writes.
  void set_token(const std::string& name, std::string text);
  /// Takes the special tokens of a model. Returns whether one of its texts is for them.
  bool take_tokens(const ModelTexts& texts);
  /// Whether the template names a token whose text nothing has said: it would write nothing for it.
  bool lacks(const std::string& token) const;
  /// Whether the template's source has this text: what it never names, it does not write.
  bool mentions(std::string_view text) const;
  /// What stands between the text parts of a content. It is a line feed, as vLLM joins parts (chat_utils.py,
  /// _parse_chat_message_content_parts). Where the template writes the parts itself, it is empty.
  std::string_view between_parts(const std::tm& now) const;
  /// The first message whose content is not in the text, as of a role that the template does not know; nothing where all are.
  std::optional<std::size_t> left_out(const Conversation& conversation, const std::tm& now) const;
  const std::string& name() const { return templates_.front().name(); }
  const std::string& source() const { return templates_.front().source(); }
  const Json::Object& tokens() const { return tokens_; }
  /// The template that a model's texts have, with its special tokens; nothing where they have none.
  static std::optional<ChatTemplate> from_texts(const ModelTexts& texts);

  enum class Prompt : bool { none, added };  ///< added: what stands before an answer follows
  std::string write(const Conversation& conversation, Prompt prompt, const std::tm& now) const;
  /// What is taught is what {% generation %} blocks write. Where the template has none, it is each assistant's turn as far as
  /// texts of the conversation's beginnings tell. Turns of the first `from` messages are not taught, nor those that are
  /// `untaught`. Throws UserError for a turn that is not in the text.
  ChatText teach(const Conversation& conversation, Prompt prompt, const std::tm& now, std::size_t from = 0) const;
  /// What is taught behind the content of an answer: "<|im_end|>\n". Empty where the template refuses a question and an answer.
  std::string answer_end(const std::tm& now) const;

 private:
  struct Turn;
  ChatTemplate() = default;
  /// Takes the templates of "chat_template", a text or a list of {"name", "template"}. Returns whether there is one.
  bool add_from(const Json& config, const std::string& name);
  const jinja::Template& template_for(const Conversation& conversation) const;
  jinja::Rendered render(const Json::Array& messages, const Conversation& conversation, Prompt prompt, const std::tm& now) const;
  std::size_t marked_before(const Conversation& conversation, std::size_t from, const std::tm& now) const;
  std::vector<bool> marks_untaught(const Conversation& conversation, std::size_t from, const std::tm& now) const;
  void demand_own(const Conversation& conversation, const ChatText& made, const std::tm& now) const;
  Taught find_turn(const Turn& turn) const;
  std::size_t find_begin(const Turn& turn, std::size_t begin, bool called, std::string_view header) const;
  std::size_t header_end(const Turn& turn, std::string_view header) const;
  std::size_t closing_mark(const Turn& turn, std::size_t content_end) const;
  std::size_t own_end(const Turn& turn, const std::string& whole) const;
  std::size_t find_end(const Turn& turn, std::size_t content_end, const std::optional<std::string>& whole, std::size_t own) const;

  std::vector<jinja::Template> templates_;  ///< a second one: for tools
  Json::Object tokens_;
};

}  // namespace lockstep::data
