// Bodies of requests to the server, of both endpoints: what is taken is in its bounds, and what is refused is said in JSON.

#include "app/serve/api_request.h"

#include <algorithm>
#include <string>

#include "base/text/utf8.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  static const std::unique_ptr<data::Tokenizer> tokenizer = data::make_byte_tokenizer();
  static const data::ChatTemplate chat = data::ChatTemplate::open("chatml");
  const app::ServedModel model{.name = "m",
                               .vocabulary = tokenizer->vocabulary(),
                               .longest = 1000,
                               .tokenizer = tokenizer.get(),
                               .chat = &chat,
                               .habits = {},
                               .most_choices = 4};
  for (const app::Endpoint endpoint : {app::Endpoint::chat, app::Endpoint::completions}) {
    try {
      const app::ApiRequest request = app::read_request(text_of(input), endpoint, model, 7);
      ensure(request.choices >= 1 && request.choices <= model.most_choices, "as many choices as may be");
      ensure(request.tokens.size() == request.prompts.size(), "a length for each prompt");
      for (std::size_t i = 0; i < request.prompts.size(); ++i) {
        const std::vector<std::int32_t>& prompt = request.prompts[i];
        ensure(!prompt.empty() && request.tokens[i] > 0 && std::ssize(prompt) + request.tokens[i] <= model.longest,
               "a prompt has a place");
        ensure(std::ranges::all_of(prompt, [&](std::int32_t id) { return id >= 0 && id < model.vocabulary; }), "ids are tokens");
      }
    } catch (const app::ApiError& error) {
      ensure(error.status >= 400 && error.status < 500, "the client is told that it is at fault");
      const std::string body = app::error_body(error);
      ensure(invalid_utf8_at(body) == std::string::npos && !Json::parse(body, "body").at("error").dump().empty(),
             "an error is JSON");
    }
  }
}

}  // namespace lockstep::fuzz
