#pragma once

// A stream of items through several threads: worked on at once, delivered in order.

#include <cstddef>
#include <functional>

namespace lockstep::data {

using ItemFunction = std::function<void(std::size_t slot, std::size_t item)>;

/// Calls work(slot, item) for every item 0 .. count - 1 on `threads` threads at once. Each item then goes to deliver(slot, item)
/// on one of them, one at a time and in order of the items. `slot` = item % slots names the item's own memory: an item begins
/// when the one that had its slot was delivered. What an item throws ends the run and is thrown here. Where several throw, the
/// lowest item's counts, so errors do not depend on timing.
void run_ordered(std::size_t count, std::size_t threads, std::size_t slots, const ItemFunction& work,
                 const ItemFunction& deliver);

}  // namespace lockstep::data
