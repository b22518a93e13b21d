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
  SampleOptions sampling;            ///< as TextSampler takes it, which writes the same text
  std::int64_t likely = -1;          ///< of each token so many likeliest ones are told, and its own likelihood; -1: neither
};

struct LikelyToken {
  std::int32_t token = 0;
  double log_probability = 0;  ///< by the model's own logits: no temperature, nothing left out
};

/// A token of a text; what it refers to is valid until the callback ends.
struct WrittenToken {
  std::int64_t place = 0;  ///< of the text
  LikelyToken token;       ///< its likelihood is 0 where none is asked for
  std::span<const LikelyToken> likely;
  bool last = false;  ///< as many are written as were wanted: the text has ended
};

struct BatchSize {
  std::int64_t texts = 8;   ///< that are written at a time, and the places 0 .. texts - 1
  std::int64_t pages = 0;   ///< of their cache, together
  std::int64_t rows = 128;  ///< tokens that a pass reads at most: a token of each text, and pieces of prompts
  /// The same where no text is being written, which would wait: products of more rows are faster. `rows` where that is more.
  std::int64_t rows_of_prompts = 0;
  static constexpr std::int64_t most_likely = 20;
};

class TextBatch {
 public:
  /// What `model` refers to outlives this, and so does `team`. At least as many rows as texts.
  TextBatch(const ModelShare& model, const BatchSize& size, Team& team);
  void declare(Arena& workspace, Arena& cache);

  /// Positions of prompt and tokens together that a text may have: the model's context, or what all pages hold.
  std::int64_t longest() const;
  /// Begins a text at a place, which end() or its last token frees. Nothing: all places or too many pages are taken.
  std::optional<std::int64_t> begin(WantedText text);
  void end(std::int64_t place);
  /// Makes a pass, and calls `each` with every token that was written, in the order of places. False: there is no text.
  bool step(const std::function<void(const WrittenToken&)>& each);

  std::int64_t places() const { return size_.texts; }
  std::int64_t active() const;
  const PageBook& pages() const { return book_; }
  /// Tokens of prompts that were not read, because pages had them.
  std::int64_t tokens_saved() const { return tokens_saved_; }

 private:
  struct Text {
    WantedText wanted;
    PageBook::Hold hold;
    CounterRng rng;
    std::vector<std::int32_t> tokens;  ///< prompt, and what was written
    std::int64_t read = 0;             ///< of them, into the cache
    std::uint64_t number = 0;          ///< in the order of beginnings
    std::int64_t unread() const { return std::ssize(tokens) - read; }
    std::int64_t written() const { return std::ssize(tokens) - std::ssize(wanted.prompt); }
  };
  std::int64_t most_rows() const { return std::max(size_.rows, size_.rows_of_prompts); }
  /// Chooses what a pass reads: its rows.
  void choose();
  void draw(std::span<float> logits, std::int64_t turn, int worker);
  void settle_page(Text& text, std::int64_t before);

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
