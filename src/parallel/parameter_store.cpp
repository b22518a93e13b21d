#include "parallel/parameter_store.h"

#include <utility>

namespace lockstep::parallel {

Lease::Lease(Lease&& other) noexcept : store_(std::exchange(other.store_, nullptr)), unit_(other.unit_), flat_(other.flat_) {}

Lease::~Lease() {
  if (store_ != nullptr) store_->release(unit_);
}

void publish(ParameterStore& store, ops::Elementwise& elementwise) {
  for (std::size_t u = 0; u < store.units().size(); ++u) {
    const ParameterStore::Shard shard = store.shard(UnitIndex{static_cast<int>(u)});
    if (shard.published.data != shard.master.data) elementwise.cast(shard.published, shard.master);
  }
  store.updated();
}

}  // namespace lockstep::parallel
