#include "model/embedding.h"

namespace lockstep::model {
namespace {

/// Dropout's layer number of the embedding: blocks have 0, 1, ...
constexpr int embedding_layer = -1;

}  // namespace

using arch::Role;

void EmbeddingLayer::forward(const Pass& pass, const WeightSet& w, const Tensor& token_table, const Tensor& tokens,
                             const Tensor& out, std::int64_t first_position) const {
  context_.ops.embedding().forward(out, tokens, token_table, w[Role::position_table], pass.positions, first_position);
  const ops::DropoutSite site = dropout_site(context_, pass, embedding_layer, ops::Site::embedding);
  if (site.p > 0) context_.ops.dropout().forward(out, out, site);
}

void EmbeddingLayer::backward(const Pass& pass, const WeightSet& gradient, const Tensor& d_tokens, bool accumulate,
                              const Tensor& tokens, const Tensor& d) const {
  const ops::DropoutSite site = dropout_site(context_, pass, embedding_layer, ops::Site::embedding);
  if (site.p > 0) context_.ops.dropout().backward(d, d, site);
  context_.ops.embedding().backward_tokens(d_tokens, d, tokens);
  if (gradient[Role::position_table]) {
    context_.ops.embedding().backward_positions(gradient[Role::position_table], d, pass.positions, accumulate);
  }
}

}  // namespace lockstep::model
