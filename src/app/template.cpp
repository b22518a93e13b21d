// What a chat template makes of messages.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/day.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "data/chat/chat_teacher.h"

namespace lockstep::app {
namespace {

struct TemplateOptions {
  std::string from, messages, bos, eos, date;
  std::vector<std::string> variables;
  bool prompt = false, taught = false;
};

bool parse(const Arguments& arguments, TemplateOptions& options) {
  CommandLine line("template", "Print the text that a chat template makes of messages, and nothing else.");
  line.positional(
      "TEMPLATE", options.from,
      "a template's file, a tokenizer_config.json, the folder of a model, a GGUF file, or one of: chatml, llama3, zephyr");
  line.positional(
      "MESSAGES", options.messages,
      "a JSON file: a list of messages, or an object with \"messages\" whose other members the template reads, too (\"tools\")");
  line.flag("--prompt", options.prompt, "what stands before an answer follows the messages");
  line.flag("--taught", options.taught, "print a JSON list of the parts that a model is taught instead");
  line.option("--bos", options.bos, "TOKEN", "bos_token; else tokenizer_config.json says it");
  line.option("--eos", options.eos, "TOKEN", "eos_token");
  line.option("--date", options.date, "YYYY-MM-DD", "the day that a template writes as today's; else it is today");
  line.option("--set", options.variables, "NAME=VALUE",
              "a variable of the template, as JSON or as text: --set enable_thinking=false");
  line.note(
      "Templates are Jinja2 as transformers has it; what is not known here is refused by name and place. Taught is what "
      "{% generation %} blocks write, or the assistant's turns where a template has none.");
  line.note(
      "examples:\n"
      "  lockstep template models/qwen chat.json --prompt\n"
      "  lockstep template chatml chat.json --taught\n"
      "chat.json may be: [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello.\"}]");
  return line.parse(arguments);
}

// JSON, or else text.
Json value_of(const std::string& word) {
  try {
    return Json::parse(word);
  } catch (const UserError&) {
    return word;
  }
}

void set_variables(const std::vector<std::string>& words, Json::Object& variables) {
  for (const std::string& word : words) {
    const std::size_t end = word.find('=');
    if (end == std::string::npos || end == 0)
      throw UserError(fmt::format("--set {}: a name and a value are expected", visible(word)),
                      "write --set enable_thinking=false");
    const std::string name = word.substr(0, end);
    std::erase_if(variables, [&](const auto& variable) { return variable.first == name; });
    variables.emplace_back(name, value_of(word.substr(end + 1)));
  }
}

int run(const Arguments& arguments) {
  TemplateOptions options;
  if (!parse(arguments, options)) return 0;
  const std::tm day = day_of(options.date);
  const std::string name = visible(options.messages);
  data::Conversation chat = data::conversation_from_json(Json::parse(io::read_file(options.messages), name), name);
  set_variables(options.variables, chat.variables);
  data::ChatTemplate written = data::ChatTemplate::open(options.from);
  if (!options.bos.empty()) written.set_token("bos_token", options.bos);
  if (!options.eos.empty()) written.set_token("eos_token", options.eos);
  const auto prompt = options.prompt ? data::ChatTemplate::Prompt::added : data::ChatTemplate::Prompt::none;
  std::string out;
  if (options.taught) {
    const data::ChatText text = written.teach(chat, prompt, day);
    data::demand_turns(written, chat, text.text, day);
    Json::Array parts;
    for (const data::Taught& part : text.taught) parts.emplace_back(text.text.substr(part.begin, part.end - part.begin));
    out = Json(std::move(parts)).dump() + "\n";
  } else {
    out = written.write(chat, prompt, day);
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return 0;
}

}  // namespace

Command template_command() { return {"template", "what a chat template makes of messages", run}; }

}  // namespace lockstep::app
