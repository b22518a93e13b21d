#pragma once

// The regular expressions by which vocabularies split texts, as Oniguruma understands them. They are matched by backtracking, the
// first alternative first. What the matcher does not know is refused.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/pattern/character_set.h"

namespace lockstep::data::pattern {

struct Instruction {
  enum class Op : std::uint8_t {
    set,       ///< takes a character of set `set`
    run,       ///< takes `least` to `most` of them: as many as there are, and fewer when what follows fails
    all,       ///< the same, and never fewer
    split,     ///< goes on with the next; when that fails, `jump` further
    skip,      ///< the same, the other way round
    jump,      ///< goes on `jump` further
    look,      ///< what follows up to `jump` must match here, and takes nothing
    avoid,     ///< what follows up to `jump` must not match here
    behind,    ///< the same must match what lies before, `least` characters of it
    unbehind,  ///< the same must not match what lies before
    border,    ///< one of the characters on both sides is of set `set`, and takes nothing
    inside,    ///< both characters are of the set, or none is
    match
  };
  Op op = Op::match;
  std::uint16_t set = 0;
  std::int32_t jump = 0;
  std::uint32_t least = 1, most = 1;
};

struct Program {
  std::vector<CharacterSet> sets;
  std::vector<Instruction> code;
};

/// Throws UserError for what is not a pattern that is known here.
Program parse_pattern(std::string_view pattern);
/// The pattern that matches `text` alone.
std::string quoted(std::string_view text);

/// The memory of a match, used again. One a thread.
struct MatchScratch {
  struct Choice {
    std::size_t code, at, least;  // least: where a run may still end, if it gives up characters
  };
  std::vector<Choice> choices;
};

class Regex {
 public:
  /// Throws UserError for a pattern that is not known, or may match an empty text.
  explicit Regex(std::string_view pattern);

  struct Found {
    std::size_t begin, end;
  };
  /// The first match from `from` on; without one, both ends are text.size(). Throws UserError when that would take too many
  /// steps.
  Found find(std::string_view text, std::size_t from, MatchScratch& scratch) const;

  /// Whether a match may depend on what is on both sides of a place between characters `a` and `b`.
  bool reaches_over(char32_t a, char32_t b) const;
  /// Whether each `a` of any text is in a match.
  bool always_takes(char32_t a) const;
  bool may_take(char32_t a) const;

 private:
  using Bytes = std::bitset<257>;  // the first bytes of what may follow; 256: the end of the text
  struct Behind {
    Bytes bytes;
    bool ends = false, looks = false;  // whether a match may end here, and whether what follows decides
    std::vector<std::size_t> takers;   // instructions that may take the next character
  };
  struct Steps {
    std::uint64_t left;
  };
  struct Place {
    std::size_t code, at;
  };
  std::size_t match(std::string_view text, Place place, MatchScratch& scratch, Steps& steps) const;
  // These take one step each; false: it fails.
  bool take_run(Place& place, std::string_view text, MatchScratch& scratch, Steps& steps) const;
  bool take_way(Place& place, std::string_view text, MatchScratch& scratch) const;
  bool looks(Place& place, std::string_view text, MatchScratch& scratch, Steps& steps) const;
  bool is_border(const Place& place, std::string_view text) const;
  // Goes back to the last choice above `bottom`; false: there is none.
  static bool go_back(Place& place, std::string_view text, std::size_t bottom, MatchScratch& scratch);
  Behind behind(std::size_t code) const;
  void follow(std::size_t code, std::vector<bool>& seen, Behind& behind) const;
  bool takes(std::size_t code, char32_t c) const { return program_.sets[program_.code[code].set].has(c); }

  Program program_;
  bool looks_back_ = false;
  std::vector<Bytes> begins_;        // by set: the first bytes of its characters, and all that may be
  std::vector<Bytes> next_, other_;  // by instruction: of a split's two ways
  Bytes first_;
};

}  // namespace lockstep::data::pattern
