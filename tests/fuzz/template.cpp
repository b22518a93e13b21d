// Chat templates. What stands behind a line of its own, "----", is the messages.

#include "data/chat/jinja/template.h"

#include "base/text/utf8.h"
#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  static constexpr std::string_view cut = "\n----\n";
  const std::string_view text = text_of(input), source = text.substr(0, text.find(cut));
  Json messages = Json::Array{
      Json::Object{{"role", "user"}, {"content", " Hi ü "}},
      Json::Object{{"role", "assistant"}, {"content", "<think>a</think>B"}, {"n", 2.5}, {"l", Json::Array{1, nullptr, true}}}};
  if (source.size() < text.size()) messages = Json::parse(text.substr(source.size() + cut.size()), "input");
  data::jinja::Settings settings;
  settings.now.tm_mday = 1;
  settings.limits = {.work = 1 << 18, .text = 1 << 18, .depth = 300};
  const data::jinja::Template made(source, "input");
  const data::jinja::Rendered rendered =
      made.render({{"messages", messages}, {"add_generation_prompt", true}, {"bos_token", "<s>"}}, settings);
  ensure(invalid_utf8_at(rendered.text) == std::string::npos, "what is rendered is valid UTF-8");
  for (const data::jinja::Generated& part : rendered.generated) {
    ensure(made.marks_generation(), "only a block generates");
    ensure(part.begin == std::string::npos || rendered.text.substr(part.begin, part.text.size()) == part.text,
           "a part stands where it is said");
  }
}

}  // namespace lockstep::fuzz
