#pragma once

// Training state that lies whole in this rank's memory, the same on every rank of a group: visits bring nothing and write nothing
// back.

#include <optional>

#include "comm/communicator.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Throws SystemError on every rank unless all have the same bits. Collective.
void check_alike(comm::Communicator& group, std::span<const Tensor> tensors);
/// Every rank of `group` takes rank 0's tensors, and check_alike() is done. Collective.
void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors);

class ResidentState : public TrainingState {
 public:
  /// Who has slots: every rank of the group, or rank 0 alone, which then answers for all of them.
  enum class SlotsOn : std::uint8_t { all_ranks, rank0 };
  /// `group`: the ranks with the same state. The references outlive this.
  ResidentState(ParameterStore& parameters, GradientStore& gradients, std::vector<std::string> slots, comm::Communicator& group,
                SlotsOn slots_on = SlotsOn::all_ranks);
  /// Slots; zero at the start.
  void declare(Arena& arena);

  const std::vector<layout::Unit>& units() const override { return parameters_.units(); }
  const std::vector<std::string>& slots() const override { return slots_; }
  DType type() const override { return parameters_.owned_dtype(); }
  void distribute(std::int64_t step) override;
  void gather() override;
  void check_copies() override;
  void collect() override {}

 protected:
  bool has_slots() const { return slots_on_ == SlotsOn::all_ranks || group_.rank() == 0; }
  /// Of a unit, whole; empty where this rank has none.
  std::span<const Tensor> slots_of(UnitIndex unit) const;
  comm::Communicator& group() const { return group_; }

 private:
  void visit(const Use& use, Call call, void* body) override;
  /// What every rank of the group has.
  std::vector<Tensor> copies();

  ParameterStore& parameters_;
  GradientStore& gradients_;
  std::vector<std::string> slots_;
  comm::Communicator& group_;
  SlotsOn slots_on_;
  std::vector<std::vector<Tensor>> memory_;  ///< by unit, then slot
};

}  // namespace lockstep::parallel
