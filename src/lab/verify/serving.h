#pragma once

// Shows that a text written beside others is the same as when it is written alone.

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
  bool packed = false;  ///< whether weights lie as for writing one token at a time
};
std::vector<ServingCase> serving_cases();

struct ServingReport {
  std::string model, words;
  std::int64_t texts = 0, tokens = 0, saved = 0;  ///< `saved`: tokens of prompts that cached pages had
  std::int64_t different = 0;                     ///< texts that differ from the same text alone
  std::string first;                              ///< the first of these: which, and where it differs
};

/// Compares written texts with the expected ones, and adds the result to the report.
void compare(ServingReport& report, const std::vector<std::vector<std::int32_t>>& written,
             const std::vector<std::vector<std::int32_t>>& expected);

/// Each model, with random weights, first writes each text alone, then all texts in every case. `told` is called with each
/// report.
std::vector<ServingReport> verify_serving(const std::vector<VerifyModel>& models, const std::vector<ServingCase>& cases,
                                          const std::function<void(const ServingReport&)>& told);

}  // namespace lockstep::lab
