#pragma once

#include <vector>

namespace lockstep {

/// The median of one or more values. For an even number of values it is the mean of the two in the middle.
double median_of(std::vector<double> values);

}  // namespace lockstep
