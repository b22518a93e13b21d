#pragma once

// The text that a tokenizer sees: the steps of a normalizer, one after another.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/rules.h"
#include "data/normal/letters.h"
#include "data/normal/normal_form.h"

namespace lockstep::data::bpe {

/// The memory of a normalisation, used again. One a thread.
struct NormalScratch {
  std::string texts[2];
  pattern::MatchScratch matching;
  // So many bytes at the front of the last result have the place of its text's first character (alignments of tokenizers'
  // NormalizedString). What begins with one of them is the text's first piece.
  std::size_t front = 0;
};

class Normalizer {
 public:
  /// `most_ids`: the most ids that a text may have. Throws UserError when a text could become much longer.
  Normalizer(std::vector<NormalRule> rules, const std::function<std::size_t(std::string_view)>& most_ids);

  /// `text` itself or a text in `scratch`. `goes_on`: the text before it was cut off, so nothing is put before it or stripped
  /// there.
  std::string_view operator()(std::string_view text, bool goes_on, NormalScratch& scratch) const;
  std::string operator()(std::string_view text) const;

  /// The most ids that a byte becomes, and the most that are put before a text.
  std::size_t growth() const { return growth_; }
  std::size_t prefix() const { return prefix_; }
  /// What `b`, a blank or line feed, may begin with when it is normalised. The text is cut between `b` and `a`, a letter or
  /// digit, so that the parts are those of the whole. Nothing: it may not be cut.
  std::vector<char32_t> images(char32_t a, char32_t b) const;

 private:
  std::size_t growth_of(const NormalRule& rule, bool first);
  // These leave scratch.front as it is behind them.
  static std::string_view in_form(const normal::NormalForm& form, std::string_view text, std::string& out,
                                  NormalScratch& scratch);
  static std::string_view replace(const NormalRule& rule, std::string_view text, std::string& out, NormalScratch& scratch);

  std::vector<NormalRule> rules_;
  std::map<normal::Form, normal::NormalForm> forms_;  // that rules need
  std::unique_ptr<normal::Letters> letters_;          // where a rule needs them
  pattern::CharacterSet spaces_ = pattern::spaces();
  std::size_t growth_ = 1, prefix_ = 0;
};

}  // namespace lockstep::data::bpe
