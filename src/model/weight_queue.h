#pragma once

// Weight gradients of a block that are made later.

#include <vector>

#include "base/error.h"
#include "ops/weight_work.h"

namespace lockstep::model {

class WeightQueue final : public ops::WeightSink {
 public:
  /// Room for `works` at a time.
  explicit WeightQueue(std::size_t works) { works_.reserve(works); }
  void push(const ops::WeightWork& work) override {
    ensure(works_.size() < works_.capacity(), "a queue has room for a block's weight gradients");
    works_.push_back(work);
  }
  /// Hands all of them on, in their order.
  void run(ops::WeightSink& sink) {
    for (const ops::WeightWork& work : works_) sink.push(work);
    works_.clear();
  }

 private:
  std::vector<ops::WeightWork> works_;
};

}  // namespace lockstep::model
