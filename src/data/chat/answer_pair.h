#pragma once

// A row of preferences: which of two answers is better.

#include "base/json.h"
#include "data/chat/chat_rows.h"

namespace lockstep::data {

/// Such a row as two rows of one form: the prompt with the chosen, and with the rejected answer.
struct AnswerPair {
  Json chosen, rejected;
  RowForm form;  ///< form of both: plain, alpaca or completion
};

/// The names of a row's answers: "chosen" and "rejected", or OpenAI's.
struct AnswerNames {
  const char *chosen, *rejected;
};
AnswerNames names_of_answers(const Json& object);

/// The form of the rows that answer_pair() makes, as far as it is one.
RowForm form_of_answers(const Json& object);

/// Where no list "prompt" or "conversations" stands beside messages, and no "input" of OpenAI's, the prompt is what both answers
/// begin with. Throws UserError, without a place.
AnswerPair answer_pair(const Json& object);

}  // namespace lockstep::data
