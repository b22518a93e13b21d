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

/// A request that is alike on all ranks.
struct TextsRequest {
  std::int64_t texts = 1;
  std::vector<std::int32_t> prompt;     ///< the prompt of each text; not empty
  SampleOptions sampling;               ///< text n has number n
  std::vector<std::int32_t> ends = {};  ///< tokens that end a text before its length, and are not in it
  std::vector<std::string> stops = {};  ///< texts, none empty, that end a text too, wherever tokens cut them
  std::string behind = "\n";            ///< what comes behind each text
};

/// When rank 0's last text began and ended.
struct Pace {
  double first = 0, last = 0;
  std::int64_t tokens = 0;
  /// Tokens a second; 0 for less than two.
  double rate() const { return tokens > 1 ? static_cast<double>(tokens - 1) / (last - first) : 0; }
};

/// Writes texts, prompt included, which are dealt out to the ranks; each rank makes as many passes. Rank 0 gives all texts to
/// `put` in order, its own as their tokens come. The texts are the same for any number of ranks. Collective.
Pace write_texts(const TextsRequest& request, const data::Tokenizer& tokenizer, TextSampler& sampler,
                 const parallel::Groups& groups, const std::function<void(std::string_view)>& put);

}  // namespace lockstep::train
