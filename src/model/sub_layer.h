#pragma once

// What attention and feed-forward have in common: `out = x + dropout(w2 inner(w1 norm(x)) + b2)`. `inner` is theirs, entered and
// left through a boundary. Where the model has norms behind branches, `out = x + dropout(norm(w2 inner(w1 norm(x)) + b2))`. The
// norm before is left out where the model has none. What is added may be multiplied by the model's residual scale. Ro rows of the
// residual stream outside, R rows inside, C width. With a local boundary the last product adds bias and residual itself.
// Otherwise it leaves sums in f32, and the bias comes when they are complete.

#include "model/context.h"
#include "model/leases.h"
#include "model/saved.h"
#include "model/weights.h"

namespace lockstep::model {

/// The sub-layer's parameters outside of `inner`, and where its dropout is.
struct SubLayerParts {
  arch::Role gain, norm_bias;
  arch::Role in_weight, in_bias;    ///< w1
  arch::Role out_weight, out_bias;  ///< w2, b2
  arch::Role post_gain, post_bias;  ///< of the norm behind the branch
  ops::Site dropout;
  ops::SumGrid Sums::* in_grid;   ///< of w1's outputs
  ops::SumGrid Sums::* out_grid;  ///< of w2's inputs
};

/// What a branch is added to, and where it is kept for the norm behind it.
struct Leaving {
  const Tensor& x;  ///< [Ro, C]
  const SavedBranch& branch;
};

/// What goes back through the entry of a sub-layer.
struct EnterBackward {
  const Tensor &x, &stats;  ///< of enter()
  const Tensor& d_in;       ///< the gradient of w1's product [R, ...]
  const Tensor& d;          ///< [Ro, C]: the gradient of `out` on entry, of x on return, the residual's part included
};

class SubLayer {
 public:
  SubLayer(const Context& context, parallel::Boundary& boundary, const SubLayerParts& parts, int layer)
      : context_(context), boundary_(boundary), norm_(norm_of(context)), parts_(parts), layer_(layer) {}

  /// norm(x) inside [R, C], of x [Ro, C]; keeps stats [Ro, 2], the norm's. Without a norm before the sub-layer it is x itself.
  Tensor enter(const Pass& pass, const LayerWeights& w, const Tensor& x, const Tensor& stats, const Scratch& scratch) const;
  /// out [Ro, C] = x + dropout(w2 inner + b2), of inner [R, ...]; out may be x.
  void leave(const Pass& pass, const LayerWeights& w, const Tensor& out, const Leaving& to, const Tensor& inner,
             const Scratch& scratch) const;

  /// The gradient of w2's product [R, C] for d [Ro, C], that of `out`. `kept`: what leave() kept.
  Tensor leave_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const Tensor& d,
                        const SavedBranch& kept, const Scratch& scratch) const;
  /// Pushes w2's gradient, for the d_out that leave_backward() gave and project_back() went through.
  void push_out(const LayerWeights& w, const Gradients& gradients, const Tensor& inner, const Tensor& d_out,
                const Scratch& scratch) const;
  /// Goes from the gradient of w1's product to that of x. w1's gradient is pushed while sums are carried out.
  void enter_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const EnterBackward& call,
                      const Scratch& scratch) const;

 private:
  bool is_local() const { return boundary_.kind() == parallel::BoundaryKind::local; }
  bool splits() const { return boundary_.kind() == parallel::BoundaryKind::splitting; }
  bool has_post_norm() const { return context_.config.post_norm; }
  bool has_pre_norm() const { return context_.config.pre_norm; }
  /// Multiplies by the residual scale, if there is one.
  void scale(const Tensor& branch) const;
  /// Goes back through the norm before the sub-layer, or past it. norm.dx gets the gradient, added to the residual's.
  void leave_norm(const Pass& pass, const ops::NormBackward& norm) const;
  ops::DropoutSite dropout(const Pass& pass) const;
  /// Goes through the norm behind the branch: to = residual + norm(branch).
  void normalise(const LayerWeights& w, const Tensor& to, const SavedBranch& branch, const Tensor& residual) const;
  /// The gradient of the input of the norm behind the branch. d [Ro, C] is the gradient of its output.
  Tensor normalise_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const Tensor& d,
                            const SavedBranch& kept, const Scratch& scratch) const;
  /// Whether the gradient of w2's bias is made with w2's, instead of from the rows outside.
  bool sums_bias_inside() const { return is_local() && context_.grid(&Sums::tokens) == nullptr; }
  /// All rows of `outside`, gathered into `inside` if need be.
  Tensor gathered(const Pass& pass, const Tensor& outside, const Tensor& inside) const;
  /// Where `partial` [R, C] is summed to.
  Tensor sums(const Pass& pass, const Tensor& partial, const Scratch& scratch) const;

  const Context& context_;
  parallel::Boundary& boundary_;
  ops::Norm& norm_;
  SubLayerParts parts_;
  int layer_;
};

}  // namespace lockstep::model
