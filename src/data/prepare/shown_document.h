#pragma once

// A document as it is taught, for people.

#include <cstdint>
#include <span>
#include <string>

#include "base/text/paint.h"
#include "data/tokenizer.h"

namespace lockstep::data {

struct ShownDocument {
  std::int64_t number;  ///< from 1
  bool trains;          ///< else it is for validation
  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t> mask;  ///< 1: a token is taught
};

/// Lines of its text, its ids and what ends it. What is taught is in colour, or between {+ and +} where there is none.
std::string show(const ShownDocument& document, const Tokenizer& tokenizer, const Paint& paint);

}  // namespace lockstep::data
