#pragma once

// Canonical mode (numerics.md section 3.8) where ranks divide the positions of samples. Sums over tokens are made as one rank
// makes them. Ranks bring the rows of whole samples together, and each makes the sums of some columns.

#include "parallel/context/row_exchange.h"

namespace lockstep::parallel {

class WholeSamples {
 public:
  /// `rank` of `ranks` ranks that divide samples of `positions` positions.
  WholeSamples(std::int64_t positions, int rank, int ranks);
  /// `group`: the ranks that have the samples' other positions. Called before the first pass. Not needed where no rank has
  /// others.
  void connect(comm::Communicator& group);
  bool divided() const { return ranks() > 1; }
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(usual_.size()); }
  /// The range of n columns, or of n things of any kind, whose sums this rank makes.
  layout::Range share(std::int64_t n) const { return layout::part_of(n, rank_, ranks()); }

  /// Declares memory for samples of at most `rows` rows together, where positions are divided. gather() gets at most `gathered`
  /// columns, deal() at most `dealt`.
  void declare(Arena& workspace, std::int64_t rows, std::int64_t gathered, std::int64_t dealt, DType type);

  // Collective. `parts` has the positions of a sample that each rank has, by rank. When it is empty they are as split_positions()
  // says. A result stays valid until the next call of the same function. Where positions are whole the result is `own`.
  /// Returns [R', n]: the rows of whole samples, from every rank's own [R, n].
  Tensor gather(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts);
  /// Returns [R', share(n)]: this rank's columns of every rank's own [R, n].
  Tensor deal(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts);
  /// x has one piece for each rank, all of one size. Each rank gives its own piece and gets the others.
  void collect(ops::Ops& ops, const Tensor& x);
  /// x = the sum of every rank's x, f32.
  void add_up(ops::Ops& ops, const Tensor& x);
  /// As add_up(), where samples are not brought together. x = the sum over all ranks of connect(). Each of them has a part of the
  /// samples.
  void add_parts(ops::Ops& ops, const Tensor& x);

  /// own [R, n] = this rank's rows of all [R', n]. `own` is f32 or bf16.
  void take_own(ops::Ops& ops, const Tensor& own, const Tensor& all, std::span<const ops::Positions> parts) const;

 private:
  SplitRows rows(std::int64_t own, std::span<const ops::Positions> parts) const;
  Tensor bring(ops::Ops& ops, const Tensor& own, std::span<const ops::Positions> parts, const Tensor& to);

  std::int64_t positions_;
  int rank_;
  std::vector<ops::Positions> usual_;  ///< by rank
  comm::Communicator* group_ = nullptr;
  RowExchange exchange_;
  RowExchange::Columns columns_;
  Tensor gathered_, dealt_;  ///< flat
};

}  // namespace lockstep::parallel
