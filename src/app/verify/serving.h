#pragma once

// `lockstep verify --serve`: texts that are written side by side, beside those that are written alone.

#include <vector>

#include "app/folder/answer_line.h"
#include "lab/verify/verify_model.h"

namespace lockstep::app {

/// Prints the table. Returns 0 where all texts are the same, else 1.
int verify_serving(const std::vector<lab::VerifyModel>& models, AnswerLine& line);

}  // namespace lockstep::app
