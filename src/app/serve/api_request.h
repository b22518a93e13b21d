#pragma once

// What clients of OpenAI's API ask for: /v1/chat/completions and /v1/completions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/published/text_habits.h"
#include "app/serve/api_error.h"
#include "app/serve/tool_calls.h"
#include "base/json.h"
#include "data/chat/chat_template.h"
#include "data/tokenizer.h"
#include "train/sample.h"

namespace lockstep::app {

struct ServedModel;
/// Where a request names another model than the one that is served.
ApiError unknown_model(const Json& name, const ServedModel& model);

/// The model that is served.
struct ServedModel {
  std::string name;
  std::int64_t vocabulary = 0, longest = 0;  ///< positions of a prompt with its answer
  const data::Tokenizer* tokenizer = nullptr;
  const data::ChatTemplate* chat = nullptr;  ///< null: it has none
  TextHabits habits;
  std::int64_t most_choices = 1;  ///< of a request
};

enum class Endpoint : std::uint8_t { chat, completions };

struct ApiRequest {
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int64_t> tokens;  ///< tokens that a text of each prompt may have
  std::int64_t choices = 1;          ///< texts of each prompt
  train::SampleOptions sampling;     ///< all but the number of tokens
  bool seeded = false;               ///< by the request: each prompt of a list is answered as it would be alone
  std::vector<std::string> stops;
  std::vector<std::int32_t> ends;  ///< tokens that end a text as stops do: those whose text is a stop
  std::int64_t likely = -1;        ///< so many likeliest tokens are told of each token, and its own likelihood; -1: neither
  bool stream = false, stream_usage = false;
  bool shows_special = false;        ///< marks as "<|im_start|>" are in answers
  CallForm calls = CallForm::none;   ///< the form in which a text calls tools
  bool one_call = false;             ///< all calls but the first are left out
  std::vector<std::string> ignored;  ///< members that mean nothing here
};

/// The prompt of an answer to a conversation, by the model's template, which writes what a text begins with. Throws ApiError.
std::vector<std::int32_t> chat_ids(const ServedModel& model, const data::Conversation& chat);

/// Reads a request's body. `fresh_seed` is taken where the request says none. Throws ApiError.
ApiRequest read_request(std::string_view body, Endpoint endpoint, const ServedModel& model, std::uint64_t fresh_seed);

}  // namespace lockstep::app
