#include "app/demo/demo_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/number_text.h"
#include "base/rng.h"

namespace lockstep::app {
namespace {

/// What a symbol may become, with bars between; every word that is no symbol stays.
struct Rule {
  std::string_view symbol, choices;
};
constexpr std::array rules{
    Rule{"SENTENCE", "THING ACT .|THING ACT , and THING ACT .|when THING ACT , THING ACT .|THING ACT because THING ACT ."},
    Rule{"THING", "the KIND|every KIND|one QUALITY KIND|the QUALITY KIND|the KIND of the KIND|the KIND that ACT"},
    Rule{"ACT", "waits|sleeps|adds THING|sends THING to THING|VERB THING|VERB THING|never VERB THING"},
    Rule{"KIND", "rank|river|tree|layer|clock|sailor|gradient|letter|mountain|bucket|lantern|token|weaver|bridge"},
    Rule{"QUALITY", "small|old|silent|equal|late|bright|lost|patient"},
    Rule{"VERB", "finds|follows|carries|counts|remembers|watches|repairs|divides"}};

class Sentences {
 public:
  explicit Sentences(std::uint64_t seed) : rng_(seed, "demo.text") {}

  /// Puts what a symbol becomes, or the word itself. Deep inside, the first choice ends the recursion.
  void put(std::string_view word, int depth, std::string& text) {
    const auto* const rule = std::ranges::find(rules, word, &Rule::symbol);
    if (rule == rules.end()) {
      const bool mark = word == "." || word == ",";
      if (!mark && !text.empty() && text.back() != '\n') text += ' ';
      text += word;
      return;
    }
    const std::vector<std::string> choices = parts_of_list(rule->choices, '|');
    const bool ends = depth > 6 && (word == "THING" || word == "ACT");
    const std::uint64_t drawn = rng_.below(choices.size(), drawn_++);
    for (const std::string& part : parts_of_list(choices[ends ? 0 : drawn], ' ')) put(part, depth + 1, text);
  }

 private:
  CounterRng rng_;
  std::uint64_t drawn_ = 0;
};

}  // namespace

std::string demo_text(std::uint64_t seed, std::size_t bytes) {
  Sentences sentences(seed);
  std::string text;
  while (text.size() < bytes) {
    sentences.put("SENTENCE", 0, text);
    text += '\n';
  }
  return text;
}

}  // namespace lockstep::app
