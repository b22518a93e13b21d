#include "comm/traffic.h"

namespace lockstep::comm {

std::string_view name_of(Purpose purpose) {
  static constexpr std::array<std::string_view, kPurposes> names{"gradients", "weights", "activations", "keys", "other"};
  return names[static_cast<std::size_t>(purpose)];
}

Exchanged& Exchanged::operator+=(const Exchanged& more) {
  sent += more.sent;
  waited += more.waited;
  hidden += more.hidden;
  return *this;
}

Exchanged Traffic::of(Purpose purpose) const {
  Exchanged sum;
  for (const Exchanged& kind : all[static_cast<std::size_t>(purpose)]) sum += kind;
  return sum;
}

Exchanged Traffic::total() const {
  Exchanged sum;
  for (std::size_t purpose = 0; purpose < kPurposes; ++purpose) sum += of(static_cast<Purpose>(purpose));
  return sum;
}

CollectiveSeconds Traffic::waited() const {
  CollectiveSeconds seconds = {};
  for (const auto& kinds : all) {
    for (std::size_t kind = 0; kind < kCollectives; ++kind) seconds[kind] += kinds[kind].waited;
  }
  return seconds;
}

Traffic Traffic::operator-(const Traffic& before) const {
  Traffic since;
  for (std::size_t purpose = 0; purpose < kPurposes; ++purpose) {
    for (std::size_t kind = 0; kind < kCollectives; ++kind)
      since.all[purpose][kind] = all[purpose][kind] - before.all[purpose][kind];
  }
  return since;
}

std::int64_t sent_bytes(const Operation& operation, int rank, int size) {
  const auto in = static_cast<std::int64_t>(operation.in.bytes()), out = static_cast<std::int64_t>(operation.out.bytes());
  const std::int64_t others = size - 1;
  const bool root = rank == operation.root;
  switch (operation.kind) {
    case Collective::all_reduce:
      return (2 * in * others + rank) / size;  // all ranks together: 2 S (n - 1)
    case Collective::reduce:
      return root ? 0 : in;
    case Collective::broadcast:
      return root ? in : 0;
    case Collective::all_gather:
      return in * others;
    case Collective::reduce_scatter:
      return in - out;
    case Collective::gather:
      return root ? 0 : in;
    case Collective::scatter:
      return root ? in - out : 0;
    case Collective::all_to_all:
      return in - operation.counts[static_cast<std::size_t>(rank)] * static_cast<std::int64_t>(size_of(operation.dtype));
    case Collective::send:
      return in;
    case Collective::receive:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

}  // namespace lockstep::comm
