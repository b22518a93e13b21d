#pragma once

// The gain of data-loading threads, counted as ml-engineering's benchmark of DataLoader does. A run makes items, each of which
// takes a while, in batches. A computation follows each batch. The figure is the run's seconds less those of the computations.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/text/answer.h"

namespace lockstep::lab {

struct LoaderBenchOptions {
  std::vector<int> workers = {0, 1, 2, 3, 4};
  std::int64_t items = 200, batch = 20;
  double item_seconds = 0.005, compute_seconds = 0.04;  ///< the latter for each batch; both pass without work
  int rounds = 5;                                       ///< each times every number of workers once
  std::int64_t positions = 1024;                        ///< tokens of an item
  std::function<void()> progress = {};                  ///< after each measurement; may be empty

  std::int64_t batches() const { return items / batch; }
};

struct LoaderRow {
  int workers = 0;
  std::vector<double> seconds;  ///< of a run, less its computations, by round
  std::vector<double> waited;   ///< in the loader's next(), of a run, by round

  double median() const;
};

/// The least loading seconds with `workers`: they share the making of items, which goes on during computations.
double least_loading_seconds(const LoaderBenchOptions& options, int workers);

std::vector<LoaderRow> bench_loader(const LoaderBenchOptions& options);
Answer answer_of(const LoaderBenchOptions& options, const std::vector<LoaderRow>& rows);

}  // namespace lockstep::lab
