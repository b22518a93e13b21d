#pragma once

// Texts as OpenAI's API answers with them: whole, or piece by piece as server-sent events.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/serve/api_request.h"
#include "app/serve/text_service.h"

namespace lockstep::app {

/// What an answer says of itself.
struct AnswerHead {
  Endpoint endpoint = Endpoint::chat;
  std::string id, model, fingerprint;
  std::int64_t created = 0;  ///< seconds since 1970
};

/// The texts of an answer, choice by choice. One thread uses it.
class ApiAnswer {
 public:
  using Texts = std::vector<std::shared_ptr<Writing>>;
  ApiAnswer(AnswerHead head, const ApiRequest& request, Texts texts, const data::Tokenizer& tokenizer);
  /// Abandons the texts that have not ended.
  ~ApiAnswer();

  /// Waits for all texts. Returns nothing where `gone` says that the client has gone away. Throws ApiError where the writing has
  /// failed, as stream() does.
  std::optional<std::string> whole(const std::function<bool()>& gone);
  /// Puts events until all texts have ended, or `put` returns false.
  void stream(const std::function<bool(std::string_view)>& put);

 private:
  struct Choice {
    std::string held;  ///< the beginning of a character
    std::string text;
    CallReader calls;
    std::vector<ToldToken> tokens;
    Ending ending = Ending::none;
    std::string told_held;  ///< the beginning of a character in the tokens that are told
    std::int64_t told = 0;  ///< characters of those tokens, for text_offset
  };
  /// Takes what is new of text `i`, in whole characters. Returns whether there is something.
  bool take(std::size_t i, double seconds);
  /// Whether the writing of a text ended in the middle. The engine alone abandons a text that this still waits for.
  static bool has_failed(const Choice& choice) { return choice.ending == Ending::abandoned; }
  Json choice_json(std::size_t i, bool delta);
  Json likelihoods(Choice& choice) const;
  Json calls_json(std::size_t i, bool delta) const;
  Json object(Json::Array choices, bool chunk) const;
  Json usage() const;
  AnswerHead head_;
  bool wants_likely_, wants_usage_, shows_special_, one_call_;
  std::int64_t written_ = 0, prompt_tokens_ = 0;
  Texts texts_;
  const data::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
};

}  // namespace lockstep::app
