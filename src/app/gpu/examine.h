#pragma once

// The examination of a GPU by `lockstep doctor --device cuda`: every kernel beside the processor's, rates, a certificate.

#include "app/folder/answer_line.h"

namespace lockstep::app {

/// Examines the GPU and prints the answer at the end. Returns 0 where every kernel agrees, 1 where the certificate names some
/// that do not. Throws UserError where there is no GPU.
int examine_gpu(AnswerLine& line);

}  // namespace lockstep::app
