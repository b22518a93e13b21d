#pragma once

// Texts that others ask for while one thread writes them: requests come and go between its passes.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "train/serving/text_batch.h"
#include "train/texts/stop_texts.h"

namespace lockstep::app {

struct AskedText {
  train::WantedText text;
  std::vector<std::int32_t> ends;  ///< tokens that end the text, and are not in it
  std::vector<std::string> stops;  ///< texts, none empty, that end it too
  bool shows_special = false;
};

/// What a reader is shown of a token: nothing of a mark as "<|im_start|>", unless it is to be there.
inline std::string_view shown_bytes(const data::Tokenizer& tokenizer, std::int32_t token, bool shows_special) {
  return shows_special || !tokenizer.is_special(token) ? tokenizer.bytes(token) : "";
}

/// Why a text ended.
enum class Ending : std::uint8_t { none, stop, length, abandoned };

struct ToldToken {
  train::LikelyToken token;
  std::vector<train::LikelyToken> likely;
};

/// What was written of a text since it was last asked.
struct WrittenPart {
  std::string bytes = {};              ///< of whole tokens, so perhaps of parts of characters
  std::vector<ToldToken> tokens = {};  ///< where likelihoods were asked for
  std::int64_t count = 0;              ///< tokens, with one that ended it
  Ending ending = Ending::none;        ///< else this part is the last one
};

/// A text on its way from the thread that writes it to the one that asked for it.
class Writing {
 public:
  explicit Writing(AskedText asked) : asked_(std::move(asked)), stop_(asked_.stops) {}
  std::int64_t prompt_tokens() const { return std::ssize(asked_.text.prompt); }
  /// Waits up to so many seconds for something new; after that the part may be empty.
  WrittenPart take(double seconds);
  /// The client has gone away: the rest is not written.
  void abandon() { abandoned_ = true; }

 private:
  friend class TextService;
  void add(const train::WrittenToken& written, const data::Tokenizer& tokenizer);
  void finish(Ending ending);
  AskedText asked_;
  train::StopTexts stop_;
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::condition_variable came_;
  WrittenPart part_;
  double asked_at_ = 0, last_token_ = 0;  ///< now_seconds()
};

/// Times in classes, as Prometheus counts them.
struct Histogram {
  static constexpr double bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  std::int64_t counts[std::size(bounds) + 1] = {};
  double sum = 0;
  void take(double seconds);
};

struct ServiceFigures {
  std::int64_t active = 0, waiting = 0, pages = 0, pages_free = 0;
  std::int64_t prompt_tokens = 0, prompt_tokens_saved = 0, written_tokens = 0, texts = 0, abandoned = 0;
  Histogram first_token, next_token;
};

class TextService {
 public:
  /// `most_waiting`: texts that may wait for a place. What is referred to outlives this.
  TextService(train::TextBatch& batch, const data::Tokenizer& tokenizer, std::int64_t most_waiting)
      : batch_(batch), tokenizer_(tokenizer), most_waiting_(most_waiting), at_(static_cast<std::size_t>(batch.places())) {}

  /// Takes texts, all or none: the result is empty where too many wait. Throws ApiError once no text is written any more.
  /// Thread-safe.
  std::vector<std::shared_ptr<Writing>> ask(std::vector<AskedText> texts);
  ServiceFigures figures() const;

  /// Writes texts until close() was called and all that were asked for have ended.
  void run();
  /// No text is asked for any more. Thread-safe.
  void close();

 private:
  /// Begins texts that have room and ends those that were abandoned. Waits where there is nothing to do. False: there never will
  /// be.
  bool prepare_pass();
  void written(const train::WrittenToken& token);
  void take_figures();
  /// Ends every text, for no more will be written.
  void fail();
  train::TextBatch& batch_;
  const data::Tokenizer& tokenizer_;
  const std::int64_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<Writing>> waiting_;
  std::vector<std::shared_ptr<Writing>> at_;  ///< by place of the batch
  bool closed_ = false;
  ServiceFigures figures_;
};

}  // namespace lockstep::app
