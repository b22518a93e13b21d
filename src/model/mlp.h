#pragma once

// The feed-forward sub-layer: x + down(activation(up(norm(x)))), or with a gate x + down(activation(gate(norm(x))) *
// up(norm(x))).

#include "model/sub_layer.h"

namespace lockstep::model {

class Mlp {
 public:
  Mlp(const Context& context, int layer);
  /// out [Ro, C] from saved.middle; keeps stats2 and pre_activation.
  void forward(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const;
  /// Makes stats2 and pre_activation again from saved.middle [Ro, C], as forward() left them, and no output. `all`: the branch
  /// too, where a norm is behind it.
  void run_again(const Pass& pass, const LayerWeights& w, BlockSaved& saved, std::int64_t rows, const Scratch& scratch,
                 bool all) const;
  /// d [Ro, C]: the gradient of the output on entry, of saved.middle on return.
  void backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                const Scratch& scratch) const;

 private:
  /// Columns [R, U] of a matrix as wide as the up matrix is high; no gate: empty.
  struct Halves {
    Tensor gate, up;
  };
  Halves split(const Tensor& hidden) const;
  /// Both halves from norm(x) [R, C], the gate's first; y [R, F] is what goes up, with an epilogue.
  void project_up(const Tensor& gate, const Tensor& y, const Tensor& normed, const LayerWeights& w, ops::Epilogue epilogue,
                  const Scratch& scratch) const;
  /// The first row of the half that goes up; the gate's rows come before it.
  std::int64_t up_row() const { return context_.dims.up_width() - context_.dims.ffn_width; }
  const Context& context_;
  SubLayer sub_layer_;
};

}  // namespace lockstep::model
