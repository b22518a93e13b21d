#include "data/pattern/regex.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace lockstep::data::pattern {
namespace {

using Op = Instruction::Op;

constexpr std::size_t none = std::string_view::npos;

unsigned next_byte(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 256U;
}

std::size_t target(std::size_t code, const Instruction& instruction) {
  return static_cast<std::size_t>(static_cast<std::int64_t>(code) + instruction.jump);
}

}  // namespace

Regex::Regex(std::string_view pattern) : program_(parse_pattern(pattern)) {
  for (const CharacterSet& set : program_.sets) {
    Bytes& bytes = begins_.emplace_back();
    for (std::size_t byte = 0; byte < 256; ++byte) bytes.set(byte, byte >= 0x80 || set.has(static_cast<char32_t>(byte)));
  }
  looks_back_ =
      std::ranges::any_of(program_.code, [](const Instruction& one) { return one.op >= Op::behind && one.op <= Op::inside; });
  next_.resize(program_.code.size());
  other_.resize(program_.code.size());
  for (std::size_t code = 0; code < program_.code.size(); ++code) {
    const Instruction& instruction = program_.code[code];
    if (instruction.op != Op::split && instruction.op != Op::skip) continue;
    next_[code] = behind(code + 1).bytes;
    other_[code] = behind(target(code, instruction)).bytes;
  }
  const Behind start = behind(0);
  if (start.ends)
    throw UserError(fmt::format("the pattern {} may match an empty text, which is not supported", Json(pattern).dump()),
                    "use one whose matches have a character");
  first_ = start.bytes;
}

void Regex::follow(std::size_t code, std::vector<bool>& seen, Behind& behind) const {
  while (!seen[code]) {
    seen[code] = true;
    const Instruction& instruction = program_.code[code];
    switch (instruction.op) {
      case Op::set:
      case Op::run:
      case Op::all:
        behind.takers.push_back(code);
        behind.bytes |= begins_[instruction.set];
        if (instruction.least > 0) return;
        ++code;
        break;
      case Op::split:
      case Op::skip:
        follow(code + 1, seen, behind);
        [[fallthrough]];
      case Op::jump:
        code = target(code, instruction);
        break;
      case Op::look:
      case Op::avoid:
      case Op::behind:
      case Op::unbehind:
        behind.looks = true;
        code = target(code, instruction);
        break;
      case Op::border:
      case Op::inside:
        behind.looks = true;
        ++code;
        break;
      case Op::match:
        behind.ends = true;
        behind.bytes.set();
        return;
    }
  }
}

Regex::Behind Regex::behind(std::size_t code) const {
  Behind behind;
  std::vector<bool> seen(program_.code.size());
  follow(code, seen, behind);
  return behind;
}

bool Regex::reaches_over(char32_t a, char32_t b) const {
  if (looks_back_) return true;
  for (std::size_t code = 0; code < program_.code.size(); ++code) {
    const Instruction& instruction = program_.code[code];
    if (instruction.op > Op::all || !takes(code, a)) continue;
    const Behind next = behind(code + 1);
    if (next.looks || (instruction.most > 1 && takes(code, b))) return true;
    if (std::ranges::any_of(next.takers, [&](std::size_t taker) { return takes(taker, b); })) return true;
  }
  return false;
}

bool Regex::always_takes(char32_t a) const {
  const Behind start = behind(0);
  return !start.looks && std::ranges::any_of(start.takers, [&](std::size_t taker) {
    if (program_.code[taker].least > 1 || !takes(taker, a)) return false;
    const Behind next = behind(taker + 1);
    return next.ends && !next.looks;
  });
}

bool Regex::may_take(char32_t a) const {
  for (std::size_t code = 0; code < program_.code.size(); ++code) {
    if (program_.code[code].op <= Op::all && takes(code, a)) return true;
  }
  return false;
}

Regex::Found Regex::find(std::string_view text, std::size_t from, MatchScratch& scratch) const {
  Steps steps{(1U << 20) + 64 * text.size()};
  for (std::size_t at = from; at < text.size(); at += character_at(text, at).length) {
    if (!first_.test(next_byte(text, at))) continue;
    scratch.choices.clear();
    if (const std::size_t end = match(text, {0, at}, scratch, steps); end != none) return {at, end};
  }
  return {text.size(), text.size()};
}

bool Regex::take_run(Place& place, std::string_view text, MatchScratch& scratch, Steps& steps) const {
  const Instruction& instruction = program_.code[place.code++];
  const CharacterSet& set = program_.sets[instruction.set];
  std::size_t least = place.at;
  std::uint32_t count = 0;
  while (count < instruction.most && place.at < text.size()) {
    const CodePoint point = character_at(text, place.at);
    if (!set.has(point.value)) break;
    place.at += point.length;
    if (++count == instruction.least) least = place.at;
  }
  steps.left -= std::min<std::uint64_t>(steps.left, count / 4);
  if (count < instruction.least) return false;
  if (instruction.op == Op::run && place.at > least) scratch.choices.push_back({place.code, place.at, least});
  return true;
}

bool Regex::take_way(Place& place, std::string_view text, MatchScratch& scratch) const {
  const Instruction& instruction = program_.code[place.code];
  const unsigned byte = next_byte(text, place.at);
  const bool next = next_[place.code].test(byte), other = other_[place.code].test(byte);
  const bool jumps = instruction.op == Op::split ? !next : other;
  const std::size_t ways[] = {place.code + 1, target(place.code, instruction)};
  if (next && other) scratch.choices.push_back({ways[jumps ? 0 : 1], place.at, place.at});
  place.code = ways[jumps ? 1 : 0];
  return next || other;
}

// What is looked for behind has as many characters as it goes back, so its match ends here.
bool Regex::looks(Place& place, std::string_view text, MatchScratch& scratch, Steps& steps) const {
  const Instruction& instruction = program_.code[place.code];
  if (instruction.op == Op::border || instruction.op == Op::inside)
    return is_border({place.code++, place.at}, text) == (instruction.op == Op::border);
  const bool back = instruction.op == Op::behind || instruction.op == Op::unbehind;
  std::size_t from = place.at;
  std::uint32_t left = back ? instruction.least : 0;
  for (; left > 0 && from > 0; --left) from -= character_before(text, from).length;
  const bool found = left == 0 && match(text, {place.code + 1, from}, scratch, steps) != none;
  place.code = target(place.code, instruction);
  return found == (instruction.op == Op::look || instruction.op == Op::behind);
}

bool Regex::is_border(const Place& place, std::string_view text) const {
  const bool before = place.at > 0 && takes(place.code, character_before(text, place.at).value);
  return before != (place.at < text.size() && takes(place.code, character_at(text, place.at).value));
}

bool Regex::go_back(Place& place, std::string_view text, std::size_t bottom, MatchScratch& scratch) {
  if (scratch.choices.size() == bottom) return false;
  MatchScratch::Choice& choice = scratch.choices.back();
  if (choice.at > choice.least) choice.at -= character_before(text, choice.at).length;
  place = {choice.code, choice.at};
  if (choice.at <= choice.least) scratch.choices.pop_back();
  return true;
}

std::size_t Regex::match(std::string_view text, Place place, MatchScratch& scratch, Steps& steps) const {
  const std::size_t bottom = scratch.choices.size();
  for (;;) {
    if (steps.left == 0) {
      throw UserError("the tokenizer's pattern takes too long on this text", "leave out what the text repeats without end");
    }
    --steps.left;
    const Instruction& instruction = program_.code[place.code];
    bool goes_on = true;
    switch (instruction.op) {
      case Op::set:
      case Op::run:
      case Op::all:
        goes_on = take_run(place, text, scratch, steps);
        break;
      case Op::split:
      case Op::skip:
        goes_on = take_way(place, text, scratch);
        break;
      case Op::jump:
        place.code = target(place.code, instruction);
        break;
      case Op::look:
      case Op::avoid:
      case Op::behind:
      case Op::unbehind:
      case Op::border:
      case Op::inside:
        goes_on = looks(place, text, scratch, steps);
        break;
      case Op::match:
        scratch.choices.resize(bottom);
        return place.at;
    }
    if (!goes_on && !go_back(place, text, bottom, scratch)) return none;
  }
}

}  // namespace lockstep::data::pattern
