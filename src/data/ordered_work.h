#pragma once

// A stream of items through several threads: worked on at once, delivered in order.

#include <cstddef>
#include <functional>

namespace lockstep::data {

using ItemFunction = std::function<void(std::size_t worker, std::size_t item)>;

/// For every item 0 .. count - 1: work(worker, item) on `threads` threads at once, then deliver(worker, item) on the same thread,
/// one at a time and in order of the items. `worker` < threads names the thread's own buffers. What an item throws ends the run
/// and is thrown here; of several the lowest item's, so errors do not depend on timing.
void run_ordered(std::size_t count, std::size_t threads, const ItemFunction& work, const ItemFunction& deliver);

}  // namespace lockstep::data
