#pragma once

#include <vector>

namespace lockstep {

/// Of at least one value; of an even number of them the mean of the two in the middle.
double median_of(std::vector<double> values);

}  // namespace lockstep
