// Where a template writes the assistant's turns.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"
#include "data/chat/chat_template.h"
#include "data/chat/message.h"

namespace lockstep::data {
namespace {

std::size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}
std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

// Contents that no template takes apart, and that have no beginning and no end in common.
constexpr std::string_view one_content = "0lockstep1", other_content = "2turn3";

constexpr const char* mark_it = "use a template that marks what the model writes by {% generation %}";

// How many bytes of `marks`, which stand behind a content of `text`, belong to its turn. A prompt stands at the end of the text.
// So the mark that opens a turn is there once more than the one that closes it. Marks are taken whole.
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

// One mark and nothing else: "<|end|>".
bool is_mark(std::string_view text) { return text.starts_with('<') && text.find('>') + 1 == text.size(); }

bool set_content(Json& message, std::string_view content) {
  message.set("content", content);
  return true;
}
}  // namespace

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
    for (const auto& change : {set_content, set_called_by}) {
      Json::Array changed = first(messages);
      if (!change(changed[message], one_content)) continue;
      const auto one = written(changed, Prompt::none);
      change(changed[message], other_content);
      const auto other = written(changed, Prompt::none);
      if (!one || !other) continue;
      const std::size_t start = common_start(*one, *other), end = common_end(*one, *other);
      if (start + end > one->size() || one->substr(start, one->size() - start - end) != one_content) continue;
      const std::size_t begin = common_start(of, std::string_view(*one).substr(0, start));
      return Found{begin, std::max(begin, of.size() - std::min(common_end(of, *one), end)), change == set_called_by};
    }
    return std::nullopt;
  }
  /// Whether a part of the text has a name that the message calls, or its thinking.
  bool speaks(std::string_view part) const {
    const Json& message = conversation.messages[place];
    const auto has = [&](std::string_view own) { return !own.empty() && part.find(own) != part.npos; };
    return has(called_by(message)) || has(thinking_of(message));
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw UserError(fmt::format("{}: {} of message {} (assistant)", owner.template_for(conversation).name(), why, place + 1),
                    mark_it);
  }
};

// How many {% generation %} blocks the first messages run through: a turn may have several.
std::size_t ChatTemplate::marked_before(const Conversation& conversation, std::size_t from, const std::tm& now) const {
  const Json::Array first(conversation.messages.begin(), conversation.messages.begin() + static_cast<std::ptrdiff_t>(from));
  return from == 0 ? 0 : render(first, conversation, Prompt::none, now).generated.size();
}

// By {% generation %} block, those of turns that are not taught; further ones are.
std::vector<bool> ChatTemplate::marks_untaught(const Conversation& conversation, std::size_t from, const std::tm& now) const {
  std::vector<bool> untaught(marked_before(conversation, from, now), true);
  for (std::size_t i = from; i < conversation.messages.size(); ++i) {
    if (conversation.teaches(i)) continue;
    untaught.resize(marked_before(conversation, i, now));
    untaught.resize(marked_before(conversation, i + 1, now), true);
  }
  return untaught;
}

ChatText ChatTemplate::teach(const Conversation& conversation, Prompt prompt, const std::tm& now, std::size_t from) const {
  const jinja::Template& used = template_for(conversation);
  const bool marks = used.marks_generation();
  jinja::Rendered rendered = render(conversation.messages, conversation, prompt, now);
  ChatText made{.text = std::move(rendered.text)};
  std::size_t before = 0, block = 0;
  const std::vector<bool> untaught = marks ? marks_untaught(conversation, from, now) : std::vector<bool>{};
  for (const jinja::Generated& part : rendered.generated) {
    const std::size_t begin = part.begin != std::string::npos ? part.begin : made.text.find(part.text, before);
    if (begin == std::string::npos)
      throw UserError(fmt::format("{}: the text of a {{% generation %}} block is changed before it is written", used.name()),
                      "mend the template");
    before = begin + part.text.size();
    const bool taught = block >= untaught.size() || !untaught[block];
    ++block;
    if (taught && !part.text.empty()) made.taught.push_back({begin, before});
  }
  for (std::size_t i = from; i < conversation.messages.size() && !marks; ++i) {
    if (!is_assistant(conversation.messages[i]) || !conversation.teaches(i)) continue;
    const Turn turn{*this, conversation, now, made.text, i};
    Taught found = find_turn(turn);
    const auto part = std::string_view(made.text).substr(found.begin, found.end - found.begin);
    if (part.find(called_by(conversation.messages[i])) == part.npos)
      throw UserError(
          fmt::format("the template {} loses the calls of tools of message {} (assistant), or does not show where they are",
                      used.name(), i + 1),
          "take a template that writes them, or one that marks what the model writes by {% generation %}");
    if (!made.taught.empty()) found.begin = std::max(found.begin, made.taught.back().end);
    if (found.begin < found.end) made.taught.push_back(found);
  }
  if (!marks) demand_own(conversation, made, now);
  return made;
}

// Nothing that others wrote is taught. Short texts are part of marks, so the text with another content tells.
void ChatTemplate::demand_own(const Conversation& conversation, const ChatText& made, const std::tm& now) const {
  const Json::Array& messages = conversation.messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json* content = messages[i].find("content");
    if (is_assistant(messages[i]) || content == nullptr || !content->is_string()) continue;
    const std::string_view words = trimmed(content->string());
    const auto has = [&](const Taught& part) {
      return std::string_view(made.text).substr(part.begin, part.end - part.begin).find(words) != words.npos;
    };
    if (words.empty() || std::ranges::none_of(made.taught, has)) continue;
    const auto found = Turn{*this, conversation, now, made.text, i}.find(i, messages.size(), made.text);
    const auto holds = [&](const Taught& part) { return found && found->begin < part.end && found->end > part.begin; };
    if (std::ranges::any_of(made.taught, holds))
      throw UserError(fmt::format("{}: message {} ({}) would be taught, for it lies in a turn of the assistant",
                                  template_for(conversation).name(), i + 1, visible(messages[i].at("role").string())),
                      mark_it);
  }
}

// The turn is what its message adds to the text of those before it, where the whole text begins so.
Taught ChatTemplate::find_turn(const Turn& turn) const {
  const auto header = turn.beginning(turn.place, Prompt::added), whole = turn.beginning(turn.place + 1, Prompt::none);
  const bool begins = header && turn.text.starts_with(*header);
  const std::size_t own = whole ? own_end(turn, *whole) : 0;
  if (begins && whole && turn.text.starts_with(whole->substr(0, own)) && own >= header->size()) return {header->size(), own};
  const auto found = turn.find(turn.place, turn.conversation.messages.size(), turn.text);
  if (whole && header && turn.text.starts_with(whole->substr(0, own))) {
    // Some prompts have more than the turn's header. Calls and thinking that stand before the content are the turn's, too.
    const std::size_t begin = header_end(turn, *header);
    const bool seen = begin > 0 && begin <= own;
    if (seen && (!found || turn.speaks(std::string_view(turn.text).substr(begin, std::max(found->begin, begin) - begin))))
      return {begin, own};
  }
  // Some templates write a turn in another way once more follow: they leave its thinking out.
  if (!found) turn.refuse("the text loses the content");
  return {begins ? std::min(header->size(), found->begin) : find_begin(turn, found->begin, found->called, header.value_or("")),
          find_end(turn, found->end, whole, own)};
}

// Where the turn's header ends in the text, of which a prompt may have more: thinking that is empty. 0: it is not seen.
std::size_t ChatTemplate::header_end(const Turn& turn, std::string_view header) const {
  const auto before = turn.beginning(turn.place, Prompt::none);
  if (!before || !header.starts_with(*before) || !turn.text.starts_with(*before)) return 0;
  header.remove_prefix(before->size());
  const std::size_t same = common_start(header, std::string_view(turn.text).substr(before->size()));
  const std::size_t marks = header.substr(0, same).find_last_of(">\n ") + 1;  // taken whole
  return marks > 0 ? before->size() + marks : 0;
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
  const std::size_t messages = turn.place + 1;
  Conversation longer{turn.first(messages), turn.conversation.variables};
  longer.messages.emplace_back(Json::Object{{"role", "user"}, {"content", other_content}});
  const auto next = turn.written(longer.messages, Prompt::none);
  if (!next || next->starts_with(whole)) return whole.size();
  const bool can_ask = template_for(turn.conversation).source().find("add_generation_prompt") != std::string::npos;
  const auto asked = turn.beginning(messages, Prompt::added);
  // What ends the text is no part of a prompt then, and calls are not followed by a user.
  if (can_ask && (!asked || !asked->starts_with(whole) || longer.messages[turn.place].find("tool_calls") != nullptr))
    return whole.size();
  const auto content = turn.find(turn.place, messages, whole);
  const auto same_content = Turn{*this, longer, turn.now, *next, turn.place}.find(turn.place, messages + 1, *next);
  if (!content || !same_content) return whole.size();
  const std::string_view rest = std::string_view(whole).substr(content->end);
  const std::size_t same = common_start(rest, std::string_view(*next).substr(same_content->end));
  const std::size_t closed = closing(rest.substr(0, same), whole);
  return same == rest.size() || (can_ask && closed == 0) ? whole.size() : content->end + closed;
}

// Some templates close the last turn by another mark than earlier ones. The first mark behind an earlier turn's content may close
// it. It does where it stands there both before a turn of the user and before one of the assistant. Returns the mark's length; 0:
// there is no such mark.
std::size_t ChatTemplate::closing_mark(const Turn& turn, std::size_t content_end) const {
  const std::string_view rest = std::string_view(turn.text).substr(content_end);
  const std::string_view mark = rest.substr(0, rest.find('>') + 1);
  Conversation longer{turn.first(turn.place + 1), turn.conversation.variables};
  longer.messages.emplace_back(Json::Object{{"role", "assistant"}, {"content", other_content}});
  const auto next = turn.written(longer.messages, Prompt::none);
  const auto found =
      next ? Turn{*this, longer, turn.now, *next, turn.place}.find(turn.place, turn.place + 2, *next) : std::nullopt;
  return is_mark(mark) && found && std::string_view(*next).substr(found->end).starts_with(mark) ? mark.size() : 0;
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
    if (const std::size_t mark = same == 0 ? closing_mark(turn, content_end) : 0; mark > 0 && is_mark(tail))
      return content_end + mark;
    const bool in_calls = tail.find('"', same) != tail.npos;  // their end is not the text's
    if (same == 0 || in_calls) turn.refuse("a conversation that ends there and one that goes on differ in the end");
  }
  return content_end + same;
}

}  // namespace lockstep::data
