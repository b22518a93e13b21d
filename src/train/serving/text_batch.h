#pragma once

// Texts that are written side by side, each as if it were alone. A pass reads one token of each, and pieces of the prompts of new
// texts. The tokens of a text are a function of the model, the prompt and its sampling alone.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "device/team.h"
#include "train/sample.h"
#include "train/serving/page_book.h"

namespace lockstep::train {

/// A text to be written.
struct WantedText {
  std::vector<std::int32_t> prompt;  ///< not empty, of the model's vocabulary
  SampleOptions sampling;            ///< as for TextSampler, which writes the same text
  std::int64_t likely = -1;          ///< for each token: tell its probability and those of so many likeliest tokens; -1: neither
};

struct LikelyToken {
  std::int32_t token = 0;
  double log_probability = 0;  ///< by the model's own logits, without temperature, top-k or top-p
};

/// A written token of a text; its references are valid until the callback ends.
struct WrittenToken {
  std::int64_t place = 0;  ///< the text's place
  LikelyToken token;       ///< its probability is 0 where none is asked for
  std::span<const LikelyToken> likely;
  bool last = false;  ///< whether the text has ended, with as many tokens as were wanted
};

struct BatchSize {
  std::int64_t texts = 8;   ///< written at a time, at the places 0 .. texts - 1
  std::int64_t pages = 0;   ///< of the texts' cache, together
  std::int64_t rows = 128;  ///< tokens that a pass reads at most: a token of each text, and pieces of prompts
  /// As `rows`, for passes while no text is being written and has to wait: products of more rows are faster. Less than `rows`
  /// means `rows`.
  std::int64_t rows_of_prompts = 0;
  static constexpr std::int64_t most_likely = 20;
};

class TextBatch {
 public:
  /// The references in `model`, and `team`, outlive this. `size` has at least as many rows as texts.
  TextBatch(const ModelShare& model, const BatchSize& size, Team& team);
  void declare(Arena& workspace, Arena& cache);

  /// Positions of prompt and tokens together that a text may have: the model's context, or what all pages hold.
  std::int64_t longest() const;
  /// Begins a text at a place, which end() or the text's last token frees. None: all places or too many pages are taken.
  std::optional<std::int64_t> begin(WantedText text);
  void end(std::int64_t place);
  /// Makes a pass, and calls `each` with every token that was written, in the order of places. Returns false where there is no
  /// text.
  bool step(const std::function<void(const WrittenToken&)>& each);

  std::int64_t places() const { return size_.texts; }
  std::int64_t active() const;
  const PageBook& pages() const { return book_; }
  /// Tokens of prompts that were not read again, because cached pages had them.
  std::int64_t tokens_saved() const { return tokens_saved_; }

 private:
  struct Text {
    WantedText wanted;
    PageBook::Hold hold;
    CounterRng rng;
    std::vector<std::int32_t> tokens;  ///< prompt, and the tokens that were written
    std::int64_t read = 0;             ///< tokens that are read into the cache
    std::uint64_t number = 0;          ///< in the order of beginnings
    std::int64_t unread() const { return std::ssize(tokens) - read; }
    std::int64_t written() const { return std::ssize(tokens) - std::ssize(wanted.prompt); }
  };
  std::int64_t most_rows() const { return std::max(size_.rows, size_.rows_of_prompts); }
  /// Chooses the rows that a pass reads.
  void choose();
  void draw(std::span<float> logits, std::int64_t turn, int worker);
  /// Skips what pages have by now: texts that began together read what they share once.
  void skip_known(std::int64_t place);
  void settle_pages(std::int64_t place, std::int64_t before);

  const model::Context& context_;
  BatchSize size_;
  Team& team_;
  StagedDecoder decoder_;
  WholeLogits logits_;
  Mirror tokens_;  ///< [rows] i32
  PageBook book_;
  std::vector<std::optional<Text>> texts_;  ///< by place
  std::uint64_t begun_ = 0;
  std::int64_t tokens_saved_ = 0;
  // Lists of one pass; room for them is taken once.
  std::vector<ops::CachedText> pass_;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> drawing_;   ///< places whose next token is drawn
  std::vector<TokenSampler> samplers_;  ///< of each worker
  std::vector<LikelyToken> drawn_, likely_;
};

}  // namespace lockstep::train
