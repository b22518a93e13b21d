#include "parallel/parameter_store.h"

#include <utility>

namespace lockstep::parallel {

Lease::Lease(Lease&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), access_(other.access_), flat_(other.flat_), packed_(other.packed_) {}

Lease::~Lease() {
  if (store_ != nullptr) store_->release(access_);
}

}  // namespace lockstep::parallel
