#pragma once

// Where a unit's weights are when the model needs them. The model says lease(part of a unit). The store turns that into nothing,
// an all-gather, a copy from host memory or a read from a disk. As a lease may be a collective, the ranks of a group take the
// same leases in the same order. They do so whatever each of them has to do.

#include <span>
#include <vector>

#include "layout/access_order.h"
#include "layout/unit.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

class ParameterStore;

/// How weights are kept.
struct WeightStorage {
  DType type = DType::f32;  ///< f32 or bf16: as the model reads them, and with them the type of its activations
  bool master = true;       ///< beside bf16 weights: a copy in f32 is updated in their place
  bool halves = false;      ///< the bf16 weights are one half of that copy, where both lie on the device
  /// The type of what is updated.
  DType owned() const { return master ? DType::f32 : type; }
};

/// A matrix of a unit as products read it fastest (ops::Linear::prepack). The matrix belongs to the store: its memory is the
/// unit's own, or a copy's.
struct PackedMatrix {
  int role;  ///< under which the model finds it (layout::ParameterInfo)
  Tensor tensor;
};

/// Weights of a part of a unit, whole and readable, for as long as this lives. Move-only.
class [[nodiscard]] Lease {
 public:
  Lease(ParameterStore* store, const layout::Access& access, Tensor flat, std::span<const PackedMatrix> packed = {})
      : store_(store), access_(access), flat_(flat), packed_(packed) {}
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  ~Lease();
  /// [elements of the part], in the parameters' dtype. For a tile it has all elements of the tile's rows, where these lie whole
  /// in memory.
  const Tensor& flat() const { return flat_; }
  /// The matrices to read in place of the unit's parameters of the same roles, or beside them. They are those of the whole unit.
  std::span<const PackedMatrix> packed() const { return packed_; }

 private:
  ParameterStore* store_;
  layout::Access access_;
  Tensor flat_;
  std::span<const PackedMatrix> packed_;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  virtual const std::vector<layout::Unit>& units() const = 0;
  /// The type of leased weights.
  virtual DType dtype() const = 0;
  /// The type of what is updated: Shard::master.
  virtual DType owned_dtype() const = 0;
  virtual Lease lease(const layout::Access& access) = 0;
  /// Whether a lease may wait: for the stream, a disk or other ranks.
  virtual bool waits() const { return true; }
  /// The leases until the next begin() follow `order` (a training step). An empty order means any (evaluation, generation).
  virtual void begin(const std::vector<layout::Access>& order) = 0;
  /// The part of a unit that this rank owns and updates: flat, and where it begins in the unit. `published` is what the model
  /// reads (the same memory when there is no other copy).
  struct Shard {
    Tensor master;     ///< f32; without a master copy the weights themselves; empty where it lies elsewhere, or in halves
    Tensor published;  ///< parameters' dtype; empty where it lies elsewhere
    std::int64_t first = 0;
    Tensor low = {};  ///< u16: the other half of a master copy that is kept in halves
  };
  virtual Shard shard(UnitIndex unit) = 0;
  /// Which shards were changed: all, or those of units that are trained.
  enum class Changed : std::uint8_t { all, trained };
  /// The shards of all units, or of those that are trained, were updated: every other copy of them is stale.
  virtual void updated(Changed what = Changed::all) = 0;
  /// Leases of `unit` carry `matrix` from now on, until the unit is updated. A matrix that lies in the unit's own memory is
  /// packed in the shard, too. This rank keeps the unit whole.
  virtual void add_packed(UnitIndex unit, const PackedMatrix& matrix) = 0;

 private:
  friend class Lease;
  virtual void release(const layout::Access& access) noexcept = 0;
};

}  // namespace lockstep::parallel
