#pragma once

// A store in front of another gradient store. It takes checksums of what a step's first micro-batch gives each tensor. It does so
// before anything else is added to the gradient and before ranks reduce it. Gradients of a micro-batch that is done again for
// another replica end here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/parameters.h"
#include "layout/unit.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/zero/gradients.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Where gradients are made again.
struct AuditMemory {
  /// Units that are done in turn share one place. What a tied matrix gets from the head has another one.
  void declare(Arena& arena, const std::vector<layout::Unit>& units, const GradientWork& work);
  bool any() const { return !places.empty(); }

  std::vector<Tensor> places;      ///< f32
  std::vector<int> of_units = {};  ///< by unit: its place; -1: it gets no gradient here
};

class AuditedGradients final : public GradientStore {
 public:
  /// The references outlive this.
  AuditedGradients(GradientStore& whole, const AuditMemory& memory, const std::vector<layout::Unit>& units,
                   const arch::UnitMap& map, ops::Ops& ops);

  /// Kinds of passes: of a step that is not audited, of one that is, and of a first micro-batch that is done again.
  enum class Passes : std::uint8_t { plain, own, again };
  /// `tokens` [n] i32 of the first micro-batch, in host memory until the passes are over.
  void listen(Passes passes, const Tensor& tokens = {});
  /// Called when the passes are over. Returns their checksums by tensor, until listen() is called for such passes again.
  std::vector<std::int64_t>& sums(Passes passes);
  /// The name of tensor `index` of sums().
  const std::string& name(std::size_t index) const { return names_[index]; }

  void begin(int microbatches) override { whole_.begin(microbatches); }
  void expect(const Tensor& tokens) override { whole_.expect(tokens); }
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  Tensor open_rows(Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override { whole_.finish(); }
  Shard shard(UnitIndex unit) override { return whole_.shard(unit); }
  bool reduces_each_microbatch() const override { return whole_.reduces_each_microbatch(); }

 private:
  std::vector<std::int64_t>& of(Passes passes) { return passes == Passes::again ? again_ : own_; }
  /// Takes the checksum of the token table's rows, where these lie apart: of the first micro-batch's tokens.
  void sum_rows();

  GradientStore& whole_;
  const AuditMemory& memory_;
  const std::vector<layout::Unit>& units_;
  ops::Ops& ops_;
  std::optional<arch::TokenTable> table_;  ///< where the rank has one
  std::vector<std::size_t> first_;         ///< by unit: the number of its first tensor in the sums
  std::vector<std::string> names_;
  std::vector<std::int64_t> own_, again_;
  std::vector<Tensor> open_;  ///< by unit: its gradient, open for the first micro-batch
  Passes passes_ = Passes::plain;
  Tensor tokens_, rows_;  ///< rows_: open for the first micro-batch, apart from the unit
};

}  // namespace lockstep::parallel
