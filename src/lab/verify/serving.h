#pragma once

// Shows that a text which is written beside others is the one that is written alone.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "lab/verify/verify_model.h"
#include "ops/open_ops.h"
#include "train/serving/text_batch.h"

namespace lockstep::lab {

/// One way to write all texts.
struct ServingCase {
  std::string words;  ///< "8 side by side, 50 pages, 300 rows"
  train::BatchSize size;
  int threads = 1;
  ops::Isa isa = ops::Isa::automatic;
  bool packed = false;  ///< weights lie as for writing a token at a time
};
std::vector<ServingCase> serving_cases();

struct ServingReport {
  std::string model, words;
  std::int64_t texts = 0, tokens = 0, saved = 0;  ///< tokens of prompts that pages had
  std::int64_t different = 0;                     ///< texts that are not as the first one alone
  std::string first;                              ///< of them: which, and where
};

/// Adds texts that were written to the report, beside those that were expected.
void compare(ServingReport& report, const std::vector<std::vector<std::int32_t>>& written,
             const std::vector<std::vector<std::int32_t>>& expected);

/// Each model, with random weights, writes the same texts in every case, and first each of them alone. `told`: as they come.
std::vector<ServingReport> verify_serving(const std::vector<VerifyModel>& models, const std::vector<ServingCase>& cases,
                                          const std::function<void(const ServingReport&)>& told);

}  // namespace lockstep::lab
