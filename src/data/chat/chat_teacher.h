#pragma once

// Makes the text of a data set's conversations, with what is taught of each.

#include <array>
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/values/choice.h"
#include "data/chat/chat_rows.h"
#include "data/chat/chat_template.h"
#include "data/token_description.h"
#include "data/tokenizer.h"

namespace lockstep::data {

enum class TrainOn : std::uint8_t {
  automatic,   ///< the completion in a form that has one, else the assistant's turns
  all,         ///< everything
  assistant,   ///< the assistant's turns
  last,        ///< the assistant's last turn
  completion,  ///< the assistant's turns in the completion
};
enum class TooLong : std::uint8_t { refuse, drop, cut };

struct ChatRules {
  std::string chat_template = {};  ///< a file or a name (ChatTemplate::open); empty: the model's
  TrainOn train_on = TrainOn::automatic;
  std::int64_t length = 0;  ///< the most tokens of a conversation; 0: any number
  bool packed = false;      ///< what ends a conversation has a place in the length, too
  TooLong too_long = TooLong::refuse;
  std::tm now = {};  ///< the day that templates write as today's
};

/// Numbers of conversations with which something happened.
struct ChatCounts {
  std::int64_t dropped = 0, cut = 0;  ///< conversations that were too long
  std::int64_t silent = 0;            ///< conversations of which nothing is taught
  std::int64_t thinking = 0;          ///< conversations whose earlier thinking is not in the text
  std::set<std::string> unread = {};  ///< members of rows that are not read, not more than a few
  void note_unread(std::string_view name);
  ChatCounts& operator+=(const ChatCounts& more);
};

/// Throws UserError unless each message of a conversation is in its text, one behind the other, and the first function that it
/// calls. Returns whether earlier thinking is left out.
bool demand_turns(const ChatTemplate& writes, const Conversation& chat, std::string_view text, const std::tm& now);

class ChatTeacher {
 public:
  /// `texts`: the model's, with its template and special tokens. `tokenizer` counts tokens and outlives this; null: a token is a
  /// character. Throws UserError for rules that the form does not allow, and for want of a template. It also refuses a template
  /// that writes bos_token or eos_token when nothing says these.
  ChatTeacher(ChatRules rules, RowForm form, const ModelTexts& texts, const Tokenizer* tokenizer);

  /// The text of a row; nothing for a conversation that is dropped. Thread-safe. Throws UserError, without a place, for a row
  /// that is not of the form or too long. It also refuses a row where the template does, or loses a turn.
  std::optional<ChatText> teach(const Json& row, ChatCounts& counts) const;

  const std::string& template_name() const { return template_.name(); }
  TrainOn train_on() const { return rules_.train_on; }
  /// `tokenizer` is that of the text.
  ChatFacts facts(const Tokenizer& tokenizer) const;

 private:
  std::string write(const Conversation& chat) const;
  void demand_an_assistant(const ChatRow& row) const;
  std::size_t first_taught(const ChatRow& row) const;
  std::int64_t tokens_of(const Conversation& chat) const;
  bool fit(ChatRow& row, ChatCounts& counts) const;
  void note_unread(const Conversation& chat, ChatCounts& counts) const;

  ChatRules rules_;
  RowForm form_;
  const Tokenizer* tokenizer_;
  ChatTemplate template_;
  std::string_view between_;  ///< what stands between the text parts of a content
};

}  // namespace lockstep::data

namespace lockstep {
template <>
struct Choice<data::TrainOn> {
  static constexpr std::array<Named<data::TrainOn>, 5> all{{{"auto", data::TrainOn::automatic},
                                                            {"all", data::TrainOn::all},
                                                            {"assistant", data::TrainOn::assistant},
                                                            {"last", data::TrainOn::last},
                                                            {"completion", data::TrainOn::completion}}};
};
template <>
struct Choice<data::TooLong> {
  static constexpr std::array<Named<data::TooLong>, 3> all{
      {{"refuse", data::TooLong::refuse}, {"drop", data::TooLong::drop}, {"cut", data::TooLong::cut}}};
};
}  // namespace lockstep
