#include "parallel/parameter_store.h"

#include <utility>

namespace lockstep::parallel {

Lease::Lease(Lease&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), unit_(other.unit_), flat_(other.flat_), packed_(other.packed_) {}

Lease::~Lease() {
  if (store_ != nullptr) store_->release(unit_);
}

}  // namespace lockstep::parallel
