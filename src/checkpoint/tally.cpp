#include "checkpoint/tally.h"

#include <atomic>
#include <vector>

namespace lockstep::checkpoint {

void Tally::add(std::uint64_t checksum_of, std::int64_t count) {
  std::atomic_ref(checksum).fetch_add(checksum_of, std::memory_order_relaxed);
  std::atomic_ref(elements).fetch_add(count, std::memory_order_relaxed);
}

void add_over(comm::Communicator& ranks, std::span<Tally> tallies) {
  if (ranks.size() == 1 || tallies.empty()) return;
  // Sums of signed integers must not overflow: the halves of a checksum travel apart.
  constexpr std::uint64_t low = 0xFFFFFFFF;
  std::vector<std::int64_t> numbers;
  numbers.reserve(3 * tallies.size());
  for (const Tally& tally : tallies) {
    numbers.push_back(static_cast<std::int64_t>(tally.checksum & low));
    numbers.push_back(static_cast<std::int64_t>(tally.checksum >> 32));
    numbers.push_back(tally.elements);
  }
  ranks.host().all_reduce(view(std::span(numbers), Shape{std::ssize(numbers)}), comm::Reduction::sum).wait();
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    tallies[i].checksum = static_cast<std::uint64_t>(numbers[3 * i]) + (static_cast<std::uint64_t>(numbers[3 * i + 1]) << 32);
    tallies[i].elements = numbers[3 * i + 2];
  }
}

}  // namespace lockstep::checkpoint
