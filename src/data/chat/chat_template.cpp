#include "data/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;
constexpr const char *config_file = "tokenizer_config.json", *template_file = "chat_template.jinja";

struct Named {
  std::string_view name, source;
};
constexpr std::array<Named, 3> known = {{
    {"chatml",
     "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}{% if message['role'] == 'assistant' %}"
     "{% generation %}{{ message['content'] + '<|im_end|>\\n' }}{% endgeneration %}{% else %}"
     "{{ message['content'] + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama3",
     "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
     "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
     "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"zephyr",
     "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' }}{% if message['role'] == 'assistant' %}"
     "{% generation %}{{ message['content'] + eos_token + '\\n' }}{% endgeneration %}{% else %}"
     "{{ message['content'] + eos_token + '\\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
}};

// "bos_token": "<s>", or {"content": "<s>", ...}
Json::Object tokens_of(const Json& config) {
  Json::Object tokens;
  for (const auto& [key, value] : config.object()) {
    if (!key.ends_with("_token")) continue;
    const Json* text = value.is_object() ? value.find("content") : &value;
    if (text != nullptr && text->is_string()) tokens.emplace_back(key, *text);
  }
  return tokens;
}

// A text, or a list of {"name", "template"}.
std::string source_of(const Json& config, const std::string& path, bool with_tools) {
  const Json* found = config.find("chat_template");
  if (found != nullptr && found->is_string()) return found->string();
  if (found != nullptr && found->is_array()) {
    for (const std::string_view name : {std::string_view(with_tools ? "tool_use" : "default"), std::string_view("default")}) {
      for (const Json& one : found->array()) {
        if (one.at("name").string() == name) return one.at("template").string();
      }
    }
  }
  throw UserError(fmt::format("{}: it has no chat_template", visible(path)),
                  "name the file of a template, or one of: chatml, llama3, zephyr");
}

std::size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}
std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

// As transformers 5 hands messages to templates (utils/chat_template_utils.py, _normalize_chat_messages and
// _alias_reasoning_fields): without members that are null, and with thinking under the names that templates read.
Json normalised(const Json& message) {
  Json::Object members;
  for (const auto& member : message.object()) {
    if (!member.second.is_null()) members.push_back(member);
  }
  const auto named = [&](std::string_view key) { return std::ranges::find(members, key, &Json::Object::value_type::first); };
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (named(name) == members.end()) continue;
    const Json thinking = named(name)->second;
    if (named("thinking") == members.end()) members.emplace_back("thinking", thinking);
    std::rotate(members.begin(), named("thinking"), named("thinking") + 1);
    if (named("reasoning_content") == members.end()) members.emplace_back("reasoning_content", thinking);
    break;
  }
  return members;
}

// Contents that no template takes apart, and that have no beginning and no end in common.
constexpr std::string_view one_content = "0lockstep1", other_content = "2turn3";

constexpr const char* mark_it = "use a template that marks what the model writes by {% generation %}";

// How much of `marks`, which stand behind a content of `text`, belongs to its turn. A prompt stands at the end of the text, so
// the mark that opens a turn is there once more than the one that closes it. Marks are taken whole.
std::size_t closing(std::string_view marks, std::string_view text) {
  const auto count = [&](std::string_view mark) {
    std::size_t times = 0;
    for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + mark.size())) ++times;
    return times;
  };
  std::size_t all = 0, own = 0, before = 0;
  while (true) {
    const std::size_t last = marks.find_first_of(">]\n", all);
    if (last == marks.npos) return own > 0 ? own : all;
    const std::size_t end = std::min(marks.find_first_not_of('\n', last + 1), marks.size());
    const std::size_t times = count(marks.substr(all, end - all));
    if (all > 0 && times == before + 1) own = all;
    before = times;
    all = end;
  }
}

bool set_content(Json& message, std::string_view content) {
  message.set("content", content);
  return true;
}
// The name of the first function that a message calls.
bool set_called(Json& message, std::string_view name) {
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array() || calls->array().empty() || !calls->array().front().is_object()) return false;
  Json::Array changed = calls->array();
  Json call = changed.front();
  const Json* function = call.find("function");
  if (function != nullptr && function->is_object()) {
    Json named = *function;
    call.set("function", named.set("name", name));
  } else {
    call.set("name", name);
  }
  changed.front() = std::move(call);
  message.set("tool_calls", std::move(changed));
  return true;
}

}  // namespace

Conversation conversation_from_json(const Json& json, std::string_view what) {
  Conversation made;
  const Json* messages = json.is_array() ? &json : json.is_object() ? json.find("messages") : nullptr;
  if (messages == nullptr || !messages->is_array())
    throw UserError(fmt::format("{}: a list of messages is expected, or an object with \"messages\"", what),
                    R"(write [{"role": "user", "content": "Hi"}])");
  made.messages = messages->array();
  for (std::size_t i = 0; i < made.messages.size(); ++i) {
    const Json* role = made.messages[i].is_object() ? made.messages[i].find("role") : nullptr;
    if (role == nullptr || !role->is_string())
      throw UserError(fmt::format("{}: message {} has no \"role\"", what, i + 1), R"(write {"role": "user", "content": "Hi"})");
  }
  if (json.is_object()) {
    for (const auto& [key, value] : json.object()) {
      if (key != "messages") made.variables.emplace_back(key, value);
    }
  }
  return made;
}

ChatTemplate::ChatTemplate(std::string_view source, std::string name, Json::Object tokens)
    : name_(std::move(name)), source_(source), template_(source_, name_), tokens_(std::move(tokens)) {}

ChatTemplate ChatTemplate::open(const std::string& file_or_name, bool with_tools) {
  io::Path path = file_or_name;
  const auto named = std::ranges::find(known, file_or_name, &Named::name);
  if (named != known.end() && !io::exists(path)) return {named->source, file_or_name};
  if (io::is_folder(path)) path /= io::exists(path / template_file) ? template_file : config_file;
  const std::string text = io::read_document(path, most_bytes);
  if (path.extension() == ".json") {
    const Json config = Json::parse(text, visible(path.string()));
    return {source_of(config, path.string(), with_tools), visible(path.string()), tokens_of(config)};
  }
  Json::Object tokens;
  if (const io::Path beside = io::folder_of(path) / config_file; path.filename() == template_file && io::exists(beside))
    tokens = tokens_of(Json::parse(io::read_document(beside, most_bytes), visible(beside.string())));
  return {text, visible(path.string()), std::move(tokens)};
}

std::optional<ChatTemplate> ChatTemplate::from_texts(const Json& texts, const std::string& where) {
  const Json *source = texts.find(template_file), *text = texts.find(config_file);
  const Json config = text != nullptr ? Json::parse(text->string(), visible(where)) : Json(Json::Object{});
  if (source != nullptr) return ChatTemplate(source->string(), visible(where), tokens_of(config));
  if (config.find("chat_template") == nullptr) return {};
  return ChatTemplate(source_of(config, where, false), visible(where), tokens_of(config));
}

std::optional<ChatTemplate> ChatTemplate::find_in(const io::Path& folder) {
  Json texts(Json::Object{});
  for (const char* name : {template_file, config_file}) {
    if (io::exists(folder / name)) texts.set(name, io::read_document(folder / name, most_bytes));
  }
  return from_texts(texts, folder.string());
}

void ChatTemplate::set_token(const std::string& name, std::string text) {
  std::erase_if(tokens_, [&](const auto& token) { return token.first == name; });
  tokens_.emplace_back(name, std::move(text));
}

bool ChatTemplate::take_tokens(const io::Path& folder) {
  const io::Path config = folder / config_file;
  if (!io::exists(config)) return false;
  for (const auto& [token, text] : tokens_of(Json::parse(io::read_document(config, most_bytes), visible(config.string()))))
    set_token(token, text.string());
  return true;
}

bool ChatTemplate::lacks(const std::string& token) const {
  return source_.find(token) != std::string::npos &&
         std::ranges::find(tokens_, token, &Json::Object::value_type::first) == tokens_.end();
}

bool ChatTemplate::is_in(const io::Path& folder) {
  return io::exists(folder / template_file) || io::exists(folder / config_file);
}

jinja::Rendered ChatTemplate::render(const Json::Array& messages, const Conversation& conversation, Prompt prompt,
                                     const std::tm& now) const {
  Json::Object variables = tokens_;
  variables.emplace_back("tools", nullptr);
  variables.emplace_back("documents", nullptr);
  variables.insert(variables.end(), conversation.variables.begin(), conversation.variables.end());
  Json::Array given(messages.size());
  std::ranges::transform(messages, given.begin(), normalised);
  variables.emplace_back("messages", std::move(given));
  variables.emplace_back("add_generation_prompt", prompt == Prompt::added);
  return template_.render(variables, {.now = now});
}

std::string ChatTemplate::write(const Conversation& conversation, Prompt prompt, const std::tm& now) const {
  return render(conversation.messages, conversation, prompt, now).text;
}

/// An assistant's turn that is looked for.
struct ChatTemplate::Turn {
  const ChatTemplate& owner;
  const Conversation& conversation;
  const std::tm& now;
  const std::string& text;
  std::size_t place;

  struct Found {
    std::size_t begin, end;
    bool called;  ///< it is the name of a function
  };

  /// The text of messages; nothing where the template refuses them.
  std::optional<std::string> written(const Json::Array& messages, Prompt prompt) const {
    try {
      return owner.render(messages, conversation, prompt, now).text;
    } catch (const UserError&) {
      return std::nullopt;
    }
  }
  Json::Array first(std::size_t messages) const {
    return {conversation.messages.begin(), conversation.messages.begin() + static_cast<std::ptrdiff_t>(messages)};
  }
  /// The text of messages from the first on.
  std::optional<std::string> beginning(std::size_t messages, Prompt prompt) const { return written(first(messages), prompt); }
  /// Where the content of a message stands in `of`, the text of the first messages; of one that only calls tools, the first name.
  /// The text with another content in its place tells. Nothing where it is not in the text, or not once.
  std::optional<Found> find(std::size_t message, std::size_t messages, std::string_view of) const {
    for (const auto& change : {set_content, set_called}) {
      Json::Array changed = first(messages);
      if (!change(changed[message], one_content)) continue;
      const auto one = written(changed, Prompt::none);
      change(changed[message], other_content);
      const auto other = written(changed, Prompt::none);
      if (!one || !other) continue;
      const std::size_t start = common_start(*one, *other), end = common_end(*one, *other);
      if (start + end > one->size() || one->substr(start, one->size() - start - end) != one_content) continue;
      const std::size_t begin = common_start(of, std::string_view(*one).substr(0, start));
      return Found{begin, std::max(begin, of.size() - std::min(common_end(of, *one), end)), change == set_called};
    }
    return std::nullopt;
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw UserError(fmt::format("{}: {} of message {} (assistant)", owner.name_, why, place + 1), mark_it);
  }
};

// How many {% generation %} blocks the first messages run through: a turn may have several.
std::size_t ChatTemplate::marked_before(const Conversation& conversation, std::size_t from, const std::tm& now) const {
  const Json::Array first(conversation.messages.begin(), conversation.messages.begin() + static_cast<std::ptrdiff_t>(from));
  return from == 0 ? 0 : render(first, conversation, Prompt::none, now).generated.size();
}

ChatText ChatTemplate::teach(const Conversation& conversation, Prompt prompt, const std::tm& now, std::size_t from) const {
  jinja::Rendered rendered = render(conversation.messages, conversation, prompt, now);
  ChatText made{.text = std::move(rendered.text)};
  std::size_t before = 0, skipped = template_.marks_generation() ? marked_before(conversation, from, now) : 0;
  for (const jinja::Generated& part : rendered.generated) {
    const std::size_t begin = part.begin != std::string::npos ? part.begin : made.text.find(part.text, before);
    if (begin == std::string::npos)
      throw UserError(fmt::format("{}: the text of a {{% generation %}} block is changed before it is written", name_),
                      "mend the template");
    before = begin + part.text.size();
    if (skipped > 0) {
      --skipped;
    } else if (!part.text.empty()) {
      made.taught.push_back({begin, before});
    }
  }
  for (std::size_t i = from; i < conversation.messages.size() && !template_.marks_generation(); ++i) {
    if (conversation.messages[i].at("role").string() != "assistant") continue;
    Taught found = find_turn({*this, conversation, now, made.text, i});
    if (!made.taught.empty()) found.begin = std::max(found.begin, made.taught.back().end);
    if (found.begin < found.end) made.taught.push_back(found);
  }
  if (!template_.marks_generation()) demand_own(conversation, made, now);
  return made;
}

// Nothing that others wrote is taught. Short texts are part of marks, so the text with another content tells.
void ChatTemplate::demand_own(const Conversation& conversation, const ChatText& made, const std::tm& now) const {
  const Json::Array& messages = conversation.messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json* content = messages[i].find("content");
    if (messages[i].at("role").string() == "assistant" || content == nullptr || !content->is_string()) continue;
    const std::string_view words = trimmed(content->string());
    const auto has = [&](const Taught& part) {
      return std::string_view(made.text).substr(part.begin, part.end - part.begin).find(words) != words.npos;
    };
    if (words.empty() || std::ranges::none_of(made.taught, has)) continue;
    const auto found = Turn{*this, conversation, now, made.text, i}.find(i, messages.size(), made.text);
    const auto holds = [&](const Taught& part) { return found && found->begin < part.end && found->end > part.begin; };
    if (std::ranges::any_of(made.taught, holds))
      throw UserError(fmt::format("{}: message {} ({}) would be taught, for it lies in a turn of the assistant", name_, i + 1,
                                  visible(messages[i].at("role").string())),
                      mark_it);
  }
}

// The turn is what its message adds to the text of those before it, where the whole text begins so.
Taught ChatTemplate::find_turn(const Turn& turn) const {
  const auto header = turn.beginning(turn.place, Prompt::added), whole = turn.beginning(turn.place + 1, Prompt::none);
  const bool begins = header && turn.text.starts_with(*header);
  const std::size_t own = whole ? own_end(turn, *whole) : 0;
  if (begins && whole && turn.text.starts_with(whole->substr(0, own)) && own >= header->size()) return {header->size(), own};
  // Some templates write a turn in another way once more follow: they leave its thinking out.
  const auto found = turn.find(turn.place, turn.conversation.messages.size(), turn.text);
  if (!found) turn.refuse("the text loses the content");
  return {begins ? std::min(header->size(), found->begin) : find_begin(turn, found->begin, found->called, header.value_or("")),
          find_end(turn, found->end, whole, own)};
}

// Up to its header the turn is the model's: thinking that the template adds, and calls of tools, too. `header`: all that the
// template writes before an answer.
std::size_t ChatTemplate::find_begin(const Turn& turn, std::size_t begin, bool called, std::string_view header) const {
  const std::size_t place = turn.place;
  const auto before = turn.beginning(place, Prompt::none);
  std::optional<Turn::Found> last = Turn::Found{0, 0, false}, earlier = last;
  if (place > 0) {
    last = turn.find(place - 1, turn.conversation.messages.size(), turn.text);
    earlier = before ? turn.find(place - 1, place, *before) : std::nullopt;
  }
  std::size_t same = 0;
  if (last && earlier && last->end <= begin && header.starts_with(*before)) {
    const std::string_view between = std::string_view(turn.text).substr(last->end, begin - last->end);
    // Templates write other white space before it where it follows messages.
    std::string_view mark = header.substr(before->size());
    mark.remove_prefix(std::min(mark.find_first_not_of(" \n"), mark.size()));
    if (const std::size_t at = mark.empty() ? between.npos : between.rfind(mark); at != between.npos)
      return last->end + at + mark.size();
    const std::string_view lead = header.substr(earlier->end);
    if (between.starts_with(lead)) return last->end + lead.size();
    same = between.substr(0, common_start(between, lead)).find_last_of(">\n ") + 1;  // marks are taken whole
  }
  if (!called) return begin;
  if (same == 0) turn.refuse("the text does not show the beginning");
  return last->end + same;
}

// Where the last turn of `whole` ends. Some templates write a prompt for an answer behind it, asked or not: what they write
// before a user's message tells where that begins.
std::size_t ChatTemplate::own_end(const Turn& turn, const std::string& whole) const {
  if (source_.find("add_generation_prompt") != std::string::npos) return whole.size();
  const std::size_t messages = turn.place + 1;
  Conversation longer{turn.first(messages), turn.conversation.variables};
  longer.messages.emplace_back(Json::Object{{"role", "user"}, {"content", other_content}});
  const auto next = turn.written(longer.messages, Prompt::none);
  if (!next) return whole.size();
  const auto content = turn.find(turn.place, messages, whole);
  const auto same_content = Turn{*this, longer, turn.now, *next, turn.place}.find(turn.place, messages + 1, *next);
  if (!content || !same_content) return whole.size();
  const std::string_view rest = std::string_view(whole).substr(content->end);
  const std::size_t same = common_start(rest, std::string_view(*next).substr(same_content->end));
  return same == rest.size() ? whole.size() : content->end + closing(rest.substr(0, same), whole);
}

// A turn ends with what the template writes behind its content where no other message follows. `whole`: the text up to it, with
// the turn's end at `own`.
std::size_t ChatTemplate::find_end(const Turn& turn, std::size_t content_end, const std::optional<std::string>& whole,
                                   std::size_t own) const {
  const auto found = whole ? turn.find(turn.place, turn.place + 1, *whole) : std::nullopt;
  if (!found || found->end > own) turn.refuse("a conversation that ends there does not show the end");
  const std::string_view tail = std::string_view(*whole).substr(found->end, own - found->end);
  std::size_t same = common_start(std::string_view(turn.text).substr(content_end), tail);
  if (same < tail.size()) {  // the text's own end follows the turn's there; marks are taken whole
    same = tail.substr(0, same).find_last_of(">\n ") + 1;
    if (same == 0) turn.refuse("a conversation that ends there and one that goes on differ in the end");
  }
  return content_end + same;
}

}  // namespace lockstep::data
