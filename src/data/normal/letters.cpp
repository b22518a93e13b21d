#include "data/normal/letters.h"

#include <array>
#include <numeric>

#include "data/normal/normal_runs.h"
#include "data/pattern/character_set.h"

namespace lockstep::data::normal {
namespace {

constexpr char32_t dotted_i = 0x130;  // alone has a lower case of two characters
constexpr std::string_view lower_dotted_i = "i\u0307";

}  // namespace

Letters::Letters() : lower_(pattern::no_character + 1) {
  std::iota(lower_.begin(), lower_.end(), char32_t{0});
  std::array<char32_t, 4> run{};
  for_runs(lower_case_runs(), [&](char32_t number, int sign) {
    run[static_cast<std::size_t>(sign)] = sign == 0 ? run[0] + number : number;
    const auto [first, count, step, to] = run;
    for (char32_t i = 0; sign == 3 && i < count; ++i) lower_[first + i * step] = to + i * step;
  });
  for_runs(accent_runs(), [&](char32_t length, int is) { accents_.insert(accents_.end(), length, is != 0); });
  accents_.push_back(false);
}

// put(character, keep) calls keep() for one that changes, then appends what becomes of it.
template <class Put>
std::string_view Letters::changed(std::string_view text, std::string& memory, const Put& put) {
  memory.clear();
  std::size_t kept = 0;  // what lies before is in `memory`
  bool any = false;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const CodePoint point = pattern::character_at(text, at);
    length = point.length;
    const auto keep = [&] {
      memory.append(text.substr(kept, at - kept));
      kept = at + length;
      any = true;
    };
    put(point.value, keep);
  }
  return any ? std::string_view(memory.append(text.substr(kept))) : text;
}

std::string_view Letters::lower_case(std::string_view text, std::string& memory) const {
  return changed(text, memory, [&](char32_t c, const auto& keep) {
    if (lower_[c] == c && c != dotted_i) return;
    keep();
    if (c == dotted_i) {
      memory += lower_dotted_i;
    } else {
      append_utf8(memory, lower_[c]);
    }
  });
}

std::string_view Letters::without_accents(std::string_view text, std::string& memory) const {
  return changed(text, memory, [&](char32_t c, const auto& keep) {
    if (accents_[c]) keep();
  });
}

}  // namespace lockstep::data::normal
