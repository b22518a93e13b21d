#include "data/normal/normal_form.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text/utf8.h"
#include "data/normal/normal_runs.h"
#include "data/normal/unicode_tables.h"

namespace lockstep::data::normal {
namespace {

// Hangul syllables are a sum: leading consonant, vowel, optional trailing consonant.
namespace hangul {
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, trail_count = 28;
constexpr char32_t syllable_count = lead_count * vowel_count * trail_count;
}  // namespace hangul

std::uint8_t combining_class(char32_t point) {
  const std::span<const CombiningRange> all = combining_classes();
  const auto found = std::lower_bound(all.begin(), all.end(), point,
                                      [](const CombiningRange& range, char32_t value) { return range.last < value; });
  return found != all.end() && found->first <= point ? found->combining_class : 0;
}

template <class Entry>
const Entry* entry_of(std::span<const Entry> all, char32_t point) {
  const auto found =
      std::lower_bound(all.begin(), all.end(), point, [](const Entry& entry, char32_t value) { return entry.point < value; });
  return found != all.end() && found->point == point ? &*found : nullptr;
}

std::uint64_t key_of(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

}  // namespace

NormalForm::NormalForm(Form form) : composes_(form == Form::c || form == Form::kc), acts_(0x110000) {
  for (const CombiningRange& range : combining_classes()) {
    std::fill(acts_.begin() + range.first, acts_.begin() + range.last + 1, true);
  }
  for (const SingleDecomposition& single : single_decompositions()) acts_[single.point] = true;
  for (const PairDecomposition& pair : excluded_decompositions()) acts_[pair.point] = true;
  for (const PairDecomposition& pair : compositions()) {
    acts_[composes_ ? pair.second : pair.point] = true;
    pairs_.emplace(key_of(pair.first, pair.second), pair.point);
  }
  if (!composes_) {
    const auto first = acts_.begin() + hangul::syllables;
    std::fill(first, first + hangul::syllable_count, true);
  }
  char32_t point = 0;
  for_runs(form == Form::kc || form == Form::kd ? compatibility_runs() : "", [&](char32_t number, int sign) {
    if (sign == 0) acts_[point += number] = true;
    if (sign == 1) compatible_[point] += number;
  });
  for (char32_t i = 0; i < hangul::vowel_count; ++i) acts_[hangul::vowels + i] = true;
  for (char32_t i = 1; i < hangul::trail_count; ++i) acts_[hangul::trails + i] = true;
}

void NormalForm::decompose(char32_t point, std::vector<Mark>& out) const {
  if (const auto found = compatible_.find(point); found != compatible_.end()) {
    for (const char32_t part : found->second) out.push_back({part, combining_class(part)});
    return;
  }
  if (point >= hangul::syllables && point < hangul::syllables + hangul::syllable_count) {
    const char32_t index = point - hangul::syllables;
    out.push_back({hangul::leads + index / (hangul::vowel_count * hangul::trail_count), 0});
    out.push_back({hangul::vowels + index / hangul::trail_count % hangul::vowel_count, 0});
    if (const char32_t trail = index % hangul::trail_count; trail != 0) out.push_back({hangul::trails + trail, 0});
    return;
  }
  if (const auto* single = entry_of(single_decompositions(), point)) return decompose(single->to, out);
  const auto* pair = entry_of(compositions(), point);
  if (pair == nullptr) pair = entry_of(excluded_decompositions(), point);
  if (pair == nullptr) return out.push_back({point, combining_class(point)});
  decompose(pair->first, out);
  decompose(pair->second, out);
}

// The character that two make together; 0: none.
char32_t NormalForm::composed(char32_t first, char32_t second) const {
  using namespace hangul;
  if (first >= leads && first < leads + lead_count && second >= vowels && second < vowels + vowel_count) {
    return syllables + ((first - leads) * vowel_count + (second - vowels)) * trail_count;
  }
  if (first >= syllables && first < syllables + syllable_count && (first - syllables) % trail_count == 0 && second > trails &&
      second < trails + trail_count) {
    return first + (second - trails);
  }
  const auto found = pairs_.find(key_of(first, second));
  return found == pairs_.end() ? 0 : found->second;
}

void NormalForm::compose(std::vector<Mark>& marks) const {
  std::size_t written = 0, starter = marks.size();
  for (const Mark mark : marks) {
    const bool adjacent = starter < written && starter + 1 == written;
    const bool blocked = !adjacent && written > 0 && marks[written - 1].combining_class >= mark.combining_class;
    if (starter < written && !blocked) {
      if (const char32_t both = composed(marks[starter].point, mark.point); both != 0) {
        marks[starter].point = both;
        continue;
      }
    }
    if (mark.combining_class == 0) starter = written;
    marks[written++] = mark;
  }
  marks.resize(written);
}

bool NormalForm::quiet(std::string_view text) const {
  for (std::size_t at = 0; at < text.size();) {
    // Characters of ASCII, and in form C all below U+0300, do not act; nor do bytes that are none.
    if (static_cast<unsigned char>(text[at]) < (composes_ && compatible_.empty() ? 0xCC : 0xC2)) {
      ++at;
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    if (point.length != 0 && acts_[point.value]) return false;
    at += std::max<std::size_t>(point.length, 1);
  }
  return true;
}

// `part` is valid UTF-8, in which only the first character may be one that does not act (acts_).
std::string_view NormalForm::normal(std::string_view part, std::vector<Mark>& marks, std::string& memory) const {
  marks.clear();
  for (std::size_t at = 0; at < part.size();) {
    const CodePoint point = code_point_at(part, at);
    decompose(point.value, marks);
    at += point.length;
  }
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i].place = i;
  for (auto at = marks.begin(); at != marks.end();) {
    const auto begin = std::find_if(at, marks.end(), [](const Mark& mark) { return mark.combining_class != 0; });
    at = std::find_if(begin, marks.end(), [](const Mark& mark) { return mark.combining_class == 0; });
    std::sort(begin, at, [](const Mark& a, const Mark& b) {
      return std::pair(a.combining_class, a.place) < std::pair(b.combining_class, b.place);
    });
  }
  if (composes_) compose(marks);
  memory.clear();
  for (const Mark& mark : marks) append_utf8(memory, mark.point);
  return memory;
}

std::string_view NormalForm::operator()(std::string_view text, std::string& memory) const {
  if (quiet(text)) return text;
  memory.clear();
  std::vector<Mark> marks;
  std::string part;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint first = code_point_at(text, at);
    std::size_t end = at + std::max<std::size_t>(first.length, 1);
    bool changes = first.length != 0 && acts_[first.value];
    while (first.length != 0 && end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (next.length == 0 || !acts_[next.value]) break;
      changes = true;
      end += next.length;
    }
    const std::string_view raw = text.substr(at, end - at);
    memory += changes ? normal(raw, marks, part) : raw;
    at = end;
  }
  return memory;
}

}  // namespace lockstep::data::normal
