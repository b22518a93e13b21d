#pragma once

// What a tokenizer.json does to a text before its model and to tokens behind it, as data: its normalizer, pre-tokenizer, decoder
// and post-processor. Each key is obeyed, known to be harmless, or refused by name.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/bpe/words.h"
#include "data/normal/charsmap.h"
#include "data/normal/normal_form.h"
#include "data/pattern/regex.h"

namespace lockstep::data::bpe {

/// One step of a normalizer.
struct NormalRule {
  enum class Kind : std::uint8_t { form, lower_case, accents, charsmap, prepend, replace, strip };
  Kind kind = Kind::form;
  normal::Form form = normal::Form::c;
  std::shared_ptr<const normal::Charsmap> map = {};
  std::string content = {};                         ///< what is put before a text, or in place of matches
  std::shared_ptr<const pattern::Regex> find = {};  ///< of replace
  std::string literal = {};                         ///< of replace: the text that is found, if it is always the same
  bool left = false, right = false;                 ///< of strip
};

/// What becomes of a match, and of what is between matches (tokenizers' SplitDelimiterBehavior).
enum class Behavior : std::uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// One step of a pre-tokenizer.
struct SplitRule {
  enum class Kind : std::uint8_t {
    words,     ///< as Words does
    matches,   ///< by a regular expression
    prefix,    ///< a blank before what has none
    alphabet,  ///< bytes become characters of the byte alphabet, which later steps look at
    metaspace  ///< blanks become `replacement`, before which it may split
  };
  Kind kind = Kind::words;
  Pattern pattern = Pattern::gpt2;
  std::shared_ptr<const pattern::Regex> regex = {};
  Behavior behavior = Behavior::isolated;
  bool invert = false;
  std::string replacement = {};
  enum class Prepend : std::uint8_t { always, first, never } prepend = Prepend::never;
  bool splits = true;
};

/// How tokens become text.
struct DecodeRule {
  std::vector<std::pair<std::string, std::string>> replaced;  ///< replaced in each token
  bool byte_fallback = false;                                 ///< "<0x0A>" in a token is a byte
  std::string not_first;                                      ///< a text that is left out of the first token
  std::string stripped;                                       ///< one character; it is left out at the ends of a text
  std::int64_t start = 0, stop = 0;                           ///< how often at most: at the start, at the end

  std::string bytes(std::string_view token, bool first) const;
};

std::vector<NormalRule> normal_rules(const Json& tokenizer, const std::string& what);
/// `byte_level`: set when the rules have a ByteLevel.
std::vector<SplitRule> split_rules(const Json& tokenizer, const std::string& what, bool& byte_level);
DecodeRule decode_rule(const Json& tokenizer, const std::string& what, bool byte_level);
/// The ids that the post-processor puts before a text, all below `vocabulary`.
std::vector<std::int32_t> front_rule(const Json& tokenizer, const std::string& what, std::int64_t vocabulary);

[[noreturn]] void refuse(const std::string& what, const std::string& reason);
/// A member of an object; null when it is absent or null.
const Json* member(const Json& json, std::string_view key);
bool flag(const Json& json, std::string_view key);
std::string type_of(const Json& json);
/// Refuses `part` of a tokenizer.json for a key that is not in the list, which also has "type".
void check_keys(const Json& json, const std::string& what, std::string_view part, std::initializer_list<std::string_view> keys);

}  // namespace lockstep::data::bpe
