#pragma once

// How well a model predicts a text, window by window.

#include <cstdint>
#include <functional>

#include "data/token_file.h"
#include "device/runtime.h"
#include "train/inference.h"

namespace lockstep::train {

/// A request that is alike on all ranks, but for the functions, which rank 0 calls.
struct TextLossRequest {
  std::int64_t length = 1;                              ///< tokens of a window; at most the model's block size
  std::int64_t stride = 1;                              ///< from one window to the next; at most the length
  bool logits = false;                                  ///< whether logits are asked for
  std::function<void(const Tensor&)> take_logits = {};  ///< [tokens, V] f32 on the host, of all windows in order, in pieces
  std::function<void(std::int64_t)> have_windows = {};  ///< so many windows are done
};

struct TextLoss {
  double loss = 0;          ///< sum of token losses over their number
  std::int64_t tokens = 0;  ///< targets that count
};

/// The loss over every target of `file`. A target counts once, in the first window that has it. The model's ranks divide the
/// windows, and each makes as many passes. The result is the same on all ranks and for any number of ranks. Throws UserError when
/// no target counts and for a loss that is not finite. Collective.
TextLoss loss_of_text(const Inference& model, const data::TokenFile& file, const TextLossRequest& request, Runtime& runtime);

}  // namespace lockstep::train
