#pragma once

// Texts that a model writes, shared by the ranks.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "parallel/groups.h"
#include "train/sample.h"

namespace lockstep::train {

/// Alike on all ranks.
struct TextsRequest {
  std::int64_t texts = 1;
  std::vector<std::int32_t> prompt;     ///< that each continues; not empty
  SampleOptions sampling;               ///< text n has number n
  std::vector<std::int32_t> ends = {};  ///< tokens that end a text before its length, and are not in it
  std::vector<std::string> stops = {};  ///< texts, none empty, that do so too, wherever tokens are cut
  std::string behind = "\n";            ///< what comes behind each text
};

/// When rank 0's last text began and ended.
struct Pace {
  double first = 0, last = 0;
  std::int64_t tokens = 0;
  /// Tokens a second; 0 for less than two.
  double rate() const { return tokens > 1 ? static_cast<double>(tokens - 1) / (last - first) : 0; }
};

/// Texts, prompt included, dealt out to the ranks, of which each makes as many passes. Rank 0 gives all of them to `put` in
/// order, its own as they come. The same texts for any number of ranks. Collective.
Pace write_texts(const TextsRequest& request, const data::Tokenizer& tokenizer, TextSampler& sampler,
                 const parallel::Groups& groups, const std::function<void(std::string_view)>& put);

}  // namespace lockstep::train
