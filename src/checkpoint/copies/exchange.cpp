#include "checkpoint/copies/exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr double seconds_of_turn = 0.25;  // of a step, for each that it makes
constexpr double most_turns = 64;

Tensor bytes_view(std::span<std::byte> bytes) {
  return view(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), Shape{std::ssize(bytes)});
}

}  // namespace

Neighbours neighbours_of(const std::vector<std::string>& hosts, int rank) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> ranks;
  Neighbours all;
  std::size_t place = 0;
  for (int r = 0; r < std::ssize(hosts); ++r) {
    const auto known = std::ranges::find(names, hosts[static_cast<std::size_t>(r)]);
    const auto host = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      names.push_back(hosts[static_cast<std::size_t>(r)]);
      ranks.emplace_back();
    }
    if (r == rank) {
      all.host = static_cast<int>(host);
      place = ranks[host].size();
    }
    ranks[host].push_back(r);
  }
  for (std::size_t host = 0; host < ranks.size(); ++host) {
    if (ranks[host].size() == ranks[0].size()) continue;
    throw UserError(fmt::format("checkpoint.copies = neighbour: host {} has {} ranks and host {} has {}; each needs as many",
                                names[0], ranks[0].size(), names[host], ranks[host].size()),
                    "start as many ranks on every host (lockstep launch does), or checkpoint.copies=none");
  }
  all.hosts = static_cast<int>(names.size());
  const auto at = [&](int host) { return ranks[static_cast<std::size_t>(host % all.hosts)][place]; };
  all.to = at(all.host + 1);
  all.from = at(all.host + all.hosts - 1);
  return all;
}

Exchange::Exchange(comm::Communicator& ranks, const Neighbours& neighbours, const io::Path& folder, const Piece& own,
                   const Tensor& room, double step_seconds)
    : ranks_(ranks), neighbours_(neighbours), folder_(folder), files_(folder), room_(room), own_(own) {
  exchange_texts(own);
  // What all ranks have in common: the least buffers, and the most parts and turns.
  std::array<std::int64_t, 2> most{-(std::ssize(elements<std::byte>(room_)) / least_parts / part_bytes * part_bytes),
                                   static_cast<std::int64_t>(std::clamp(step_seconds / seconds_of_turn, 1.0, most_turns))};
  const auto agree = [&](std::span<std::int64_t> numbers) {
    ranks_.host().all_reduce(view(numbers, Shape{std::ssize(numbers)}), comm::Reduction::max).wait();
  };
  agree(most);
  capacity_ = -most[0];
  pace_ = most[1];
  ensure(capacity_ > 0, "the buffers of an exchange have room for a part");
  outgoing_ = rounds_of(own_.parts);
  incoming_ = rounds_of(theirs_.parts);
  rounds_ = std::ssize(outgoing_);
  agree(std::span(&rounds_, 1));
  start_job(-1, 0);
}

void Exchange::exchange_texts(const Piece& own) {
  std::string mine = piece_text(own), theirs;
  std::int64_t length = std::ssize(mine);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(ranks_.size()));
  const std::vector<std::int64_t> ones(lengths.size(), 1);
  ranks_.host().all_gather(view(std::span(lengths), Shape{ranks_.size()}), view(std::span(&length, 1), Shape{1}), ones).wait();
  theirs.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(neighbours_.from)]));
  comm::Request sent = ranks_.host().send(bytes_view(std::as_writable_bytes(std::span(mine))), neighbours_.to);
  ranks_.host().receive(bytes_view(std::as_writable_bytes(std::span(theirs))), neighbours_.from).wait();
  sent.wait();
  theirs_ = parse_piece(theirs, fmt::format("the piece of rank {}", neighbours_.from));
}

std::vector<Exchange::Parts> Exchange::rounds_of(Parts parts) const {
  std::vector<Parts> rounds;
  std::size_t first = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto more = static_cast<std::int64_t>(files_.bytes_of(parts[i]));
    if (bytes + more > capacity_) {
      rounds.push_back(parts.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  if (first < parts.size()) rounds.push_back(parts.subspan(first));
  return rounds;
}

Exchange::Parts Exchange::round_of(const std::vector<Parts>& rounds, std::int64_t number) const {
  return number >= 0 && number < std::ssize(rounds) ? rounds[static_cast<std::size_t>(number)] : Parts();
}

std::int64_t Exchange::bytes_of(Parts parts) const {
  std::int64_t bytes = 0;
  for (const CopiedPart& part : parts) bytes += static_cast<std::int64_t>(files_.bytes_of(part));
  return bytes;
}

// Two for each way: while one travels the other is filled or emptied.
std::span<std::byte> Exchange::buffer(bool incoming, std::int64_t round) const {
  return elements<std::byte>(room_.flat(((incoming ? 2 : 0) + round % 2) * capacity_, capacity_));
}

template <class Use>
void Exchange::for_each(Parts parts, std::span<std::byte> bytes, const Use& use) const {
  for (const CopiedPart& part : parts) {
    const std::size_t size = files_.bytes_of(part);
    use(part, bytes.first(size));
    bytes = bytes.subspan(size);
  }
}

void Exchange::start_job(std::int64_t drained, std::int64_t filled) {
  job_.emplace("copy", [this, drained, filled](const std::stop_token& /*stop*/) {
    if (const Parts parts = round_of(incoming_, drained); !parts.empty())
      for_each(parts, buffer(true, drained), [&](const CopiedPart& part, auto bytes) { files_.write(part, bytes); });
    if (const Parts parts = round_of(outgoing_, filled); !parts.empty())
      for_each(parts, buffer(false, filled), [&](const CopiedPart& part, auto bytes) { files_.read(part, bytes); });
  });
}

void Exchange::settle() {
  job_->wait();
  for (comm::Request& request : requests_) request.wait();
  job_->rethrow();
}

// In turn t round t travels, what came in round t - 1 is written, and round t + 1 is read.
bool Exchange::turn() {
  settle();
  if (turn_ > rounds_) return true;
  const auto travelling = [&](const std::vector<Parts>& rounds, bool incoming) {
    const auto bytes = static_cast<std::size_t>(bytes_of(round_of(rounds, turn_)));
    return bytes_view(buffer(incoming, turn_).first(bytes));
  };
  comm::Communicator& host = ranks_.host();
  if (turn_ < std::ssize(outgoing_)) requests_[0] = host.send(travelling(outgoing_, false), neighbours_.to);
  if (turn_ < std::ssize(incoming_)) requests_[1] = host.receive(travelling(incoming_, true), neighbours_.from);
  start_job(turn_ - 1, turn_ + 1);
  ++turn_;
  return false;
}

bool Exchange::advance() {
  for (std::int64_t i = 0; i < pace_; ++i) {
    if (!turn()) continue;
    write_piece(folder_, theirs_);
    return true;
  }
  return false;
}

void Exchange::stop() { settle(); }

}  // namespace lockstep::checkpoint
