#include "comm/mpi/message_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "base/timer.h"
#include "comm/combine.h"
#include "comm/errors.h"
#include "comm/host/rank.h"
#include "device/stream.h"

namespace lockstep::comm {
namespace {

// What a message is for; a tag is a group's number and that.
enum Use : std::uint8_t { use_card, use_input, use_result, use_letter_card, use_letter, uses };

struct LetterCard {
  DType dtype;
  std::int64_t count;
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::uint64_t hash_of(std::span<const std::int64_t> counts) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::int64_t count : counts) hash = (hash ^ static_cast<std::uint64_t>(count)) * 1099511628211ULL;
  return hash;
}

std::int64_t before(std::span<const std::int64_t> counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

bool is_reduction(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::reduce_scatter;
}

}  // namespace

void MessageRank::progress() {
  for (MessageCommunicator* group : groups) group->progress();
}

/// An operation of a group.
class CollectivePending final : public Request::Pending {
 public:
  CollectivePending(MessageCommunicator& group, std::uint64_t number) : group_(group), number_(number) {}
  void wait() override {
    group_.await([this] { return ended(); });
  }
  bool poll() override {
    return group_.attempt([this] { return ended(); }, since_);
  }

 private:
  bool ended() const { return group_.done_ > number_; }
  MessageCommunicator& group_;
  std::uint64_t number_;
  double since_ = 0;
};

/// A message to or from another rank: its card, then what it says.
class LetterPending final : public Request::Pending {
 public:
  LetterPending(MessageCommunicator& group, const Operation& operation, int tag) : group_(group), operation_(operation) {
    const bool sends = operation.kind == Collective::send;
    const Tensor& tensor = sends ? operation.in : operation.out;
    const int other = group.members_[static_cast<std::size_t>(operation.root)];
    const std::span<std::byte> bytes(tensor.data, tensor.bytes());
    if (sends) {
      card_ = {operation.dtype, operation.count};
      card_transfer_.send(bytes_of(card_), other, tag + use_letter_card);
      data_transfer_.send(bytes, other, tag + use_letter);
    } else {
      card_transfer_.receive(bytes_of(card_), other, tag + use_letter_card);
      data_transfer_.receive(bytes, other, tag + use_letter);
    }
  }
  void wait() override {
    group_.await([this] { return ended(); });
  }
  bool poll() override {
    return group_.attempt([this] { return ended(); }, since_);
  }

 private:
  bool ended() {
    if (!card_transfer_.done()) return false;
    if (card_.dtype == operation_.dtype && card_.count == operation_.count) return data_transfer_.done();
    throw RunAborted(fmt::format("rank {} sends {} {} to rank {}, which expects {} {}",
                                 group_.members_[static_cast<std::size_t>(operation_.root)], card_.count, name_of(card_.dtype),
                                 group_.members_[static_cast<std::size_t>(group_.rank_)], operation_.count,
                                 name_of(operation_.dtype)));
  }

  MessageCommunicator& group_;
  Operation operation_;
  LetterCard card_{};
  Transfers card_transfer_, data_transfer_;
  double since_ = 0;
};

MessageCommunicator::MessageCommunicator(MessageRank& context, std::string name, int group, std::vector<int> members, int rank)
    : context_(context), name_(std::move(name)), group_(group), members_(std::move(members)), rank_(rank) {
  context_.groups.push_back(this);
}

MessageCommunicator::~MessageCommunicator() { std::erase(context_.groups, this); }

void MessageCommunicator::attach(Stream& stream, cpu::Team&) {
  stream.add_progress([&context = context_] { context.progress(); });
}

Request MessageCommunicator::issue(const Operation& operation) {
  if (operation.kind == Collective::send || operation.kind == Collective::receive) {
    return Request(std::make_unique<LetterPending>(*this, operation, group_ * uses));
  }
  Running& running = running_.emplace_back();
  running.operation = operation;
  running.counts.assign(operation.counts.begin(), operation.counts.end());
  running.out_counts.assign(operation.out_counts.begin(), operation.out_counts.end());
  running.operation.counts = running.counts;
  running.operation.out_counts = running.out_counts;
  const std::uint64_t number = issued_++;
  progress();
  return Request(std::make_unique<CollectivePending>(*this, number));
}

void MessageCommunicator::progress() {
  while (!running_.empty() && advance(running_.front())) {
    running_.pop_front();
    ++done_;
  }
}

bool MessageCommunicator::advance(Running& running) {
  if (running.phase == Phase::fresh) greet(running);
  if (running.phase == Phase::cards) {
    if (!all_greeted(running)) return false;
    check(running);
    give(running);
    running.phase = Phase::data;
  }
  if (running.phase == Phase::data) {
    if (!running.transfers.done()) return false;
    if (is_reduction(running.operation.kind)) combine_range(running);
    if (running.operation.kind == Collective::all_reduce) give_results(running);
    running.phase = Phase::results;
  }
  return running.transfers.done();
}

// Tells everybody what this rank has entered.
void MessageCommunicator::greet(Running& running) {
  const Operation& op = running.operation;
  const auto n = static_cast<std::size_t>(size());
  const bool by_rank = op.kind == Collective::all_gather || op.kind == Collective::reduce_scatter;
  Card card{};
  card.sequence = done_;
  card.kind = op.kind;
  card.reduction = op.reduction;
  card.dtype = op.dtype;
  card.root = op.root;
  card.count = op.count;
  card.counts = by_rank ? hash_of(running.counts) : 0;
  running.sent.assign(n, card);
  running.got.resize(n);
  running.greetings.resize(n);
  for (std::size_t r = 0; r < n; ++r) {
    if (op.kind == Collective::all_to_all) running.sent[r].piece = running.counts[r];
    if (static_cast<int>(r) == rank_) continue;
    running.greetings[r].receive(bytes_of(running.got[r]), members_[r], group_ * uses + use_card);
    running.transfers.send(bytes_of(running.sent[r]), members_[r], group_ * uses + use_card);
  }
  running.got[static_cast<std::size_t>(rank_)] = running.sent[static_cast<std::size_t>(rank_)];
  running.phase = Phase::cards;
}

bool MessageCommunicator::all_greeted(Running& running) {
  const bool sent = running.transfers.done();
  return std::ranges::all_of(running.greetings, [](Transfers& greeting) { return greeting.done(); }) && sent;
}

void MessageCommunicator::check(const Running& running) const {
  const auto me = static_cast<std::size_t>(rank_);
  for (std::size_t r = 0; r < members_.size(); ++r) {
    const Card &got = running.got[r], &own = running.sent[me];
    Card same = got;
    same.piece = own.piece;
    if (same != own) {
      const auto name = [](const Card& card) { return describe(card.kind, card.reduction, card.dtype, card.root, card.count); };
      throw RunAborted(fmt::format("ranks {} and {} entered different operations as operation {} of '{}': {} and {}{}",
                                   members_[std::min(r, me)], members_[std::max(r, me)], done_, name_,
                                   name(running.got[std::min(r, me)]), name(running.got[std::max(r, me)]),
                                   name(got) == name(own) ? ", with other counts by rank" : ""));
    }
    if (own.kind == Collective::all_to_all && got.piece != running.out_counts[r]) {
      throw RunAborted(fmt::format("all_to_all, operation {} of '{}': rank {} sends {} elements to rank {}, which expects {}",
                                   done_, name_, members_[r], got.piece, members_[me], running.out_counts[r]));
    }
  }
}

// What a rank makes of a reduction.
MessageCommunicator::Range MessageCommunicator::range_of(const Running& running, int rank) const {
  const Operation& op = running.operation;
  if (op.kind == Collective::reduce_scatter)
    return {before(running.counts, rank), running.counts[static_cast<std::size_t>(rank)]};
  if (op.kind == Collective::reduce) return {0, rank == op.root ? op.count : 0};
  const std::int64_t part = div_up(op.count, static_cast<std::int64_t>(size()));
  const std::int64_t first = std::min(op.count, part * rank);
  return {first, std::min(part, op.count - first)};
}

void MessageCommunicator::send(Running& running, const Tensor& from, Range range, int to, int use) {
  if (range.count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(running.operation.dtype));
  const std::span<const std::byte> bytes(from.data + range.first * size, static_cast<std::size_t>(range.count * size));
  running.transfers.send(bytes, members_[static_cast<std::size_t>(to)], group_ * uses + use);
}

void MessageCommunicator::receive(Running& running, const Tensor& to, Range range, int from, int use) {
  if (range.count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(running.operation.dtype));
  const std::span<std::byte> bytes(to.data + range.first * size, static_cast<std::size_t>(range.count * size));
  running.transfers.receive(bytes, members_[static_cast<std::size_t>(from)], group_ * uses + use);
}

// Of `in`, what rank r gets.
MessageCommunicator::Range MessageCommunicator::given_to(const Running& running, int r) const {
  const Operation& op = running.operation;
  switch (op.kind) {
    case Collective::broadcast:
      return {0, rank_ == op.root ? op.count : 0};
    case Collective::all_gather:
      return {0, running.counts[static_cast<std::size_t>(rank_)]};
    case Collective::gather:
      return {0, r == op.root ? op.count : 0};
    case Collective::scatter:
      return {r * op.count, rank_ == op.root ? op.count : 0};
    case Collective::all_to_all:
      return {before(running.counts, r), running.counts[static_cast<std::size_t>(r)]};
    default:
      return {0, 0};
  }
}

// Of `out`, what rank r gives.
MessageCommunicator::Range MessageCommunicator::got_from(const Running& running, int r) const {
  const Operation& op = running.operation;
  switch (op.kind) {
    case Collective::broadcast:
    case Collective::scatter:
      return {0, r == op.root ? op.count : 0};
    case Collective::all_gather:
      return {before(running.counts, r), running.counts[static_cast<std::size_t>(r)]};
    case Collective::gather:
      return {r * op.count, rank_ == op.root ? op.count : 0};
    case Collective::all_to_all:
      return {before(running.out_counts, r), running.out_counts[static_cast<std::size_t>(r)]};
    default:
      return {0, 0};
  }
}

// Messages between every two ranks that have something for each other; a rank's own goes straight to its place.
void MessageCommunicator::give(Running& running) {
  const Operation& op = running.operation;
  if (is_reduction(op.kind)) return give_inputs(running);
  for (int r = 0; r < size(); ++r) {
    const Range from = given_to(running, r), to = got_from(running, r);
    if (r != rank_) {
      send(running, op.in, from, r, use_input);
      receive(running, op.out, to, r, use_input);
    } else if (to.count > 0) {
      const auto element = static_cast<std::int64_t>(size_of(op.dtype));
      std::memmove(op.out.data + to.first * element, op.in.data + from.first * element,
                   static_cast<std::size_t>(to.count * element));
    }
  }
}

// Everybody's part of a rank's range goes to that rank, one behind another.
void MessageCommunicator::give_inputs(Running& running) {
  const Operation& op = running.operation;
  const Range mine = range_of(running, rank_);
  running.space.resize(static_cast<std::size_t>(mine.count * (size() - 1)) * size_of(op.dtype));
  Tensor space;
  space.data = running.space.data();
  std::int64_t at = 0;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    send(running, op.in, range_of(running, r), r, use_input);
    receive(running, space, {at, mine.count}, r, use_input);
    at += mine.count;
  }
}

void MessageCommunicator::combine_range(Running& running) {
  const Operation& op = running.operation;
  const Range mine = range_of(running, rank_);
  if (mine.count == 0) return;
  const auto element = static_cast<std::int64_t>(size_of(op.dtype));
  std::vector<const std::byte*> sources;
  std::int64_t at = 0;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) {
      sources.push_back(op.in.data + mine.first * element);
    } else {
      sources.push_back(running.space.data() + at * element);
      at += mine.count;
    }
  }
  const std::array<std::byte*, 1> to{op.out.data + (op.kind == Collective::reduce_scatter ? 0 : mine.first * element)};
  combine(op.reduction, op.dtype, sources, to, 0, mine.count);
}

void MessageCommunicator::give_results(Running& running) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    send(running, running.operation.out, range_of(running, rank_), r, use_result);
    receive(running, running.operation.out, range_of(running, r), r, use_result);
  }
}

template <class Done>
void MessageCommunicator::await(Done done) {
  double since = 0;
  for (int turn = 0; !attempt(done, since); ++turn) host::relax(turn, context_.crowded);
}

template <class Done>
bool MessageCommunicator::attempt(Done done, double& since) {
  context_.progress();
  if (done()) return true;
  const double now = now_seconds();
  if (since == 0) since = now;
  if (now - since > context_.timeout) throw RunAborted(report(context_.timeout));
  return false;
}

std::string MessageCommunicator::report(double seconds) {
  if (running_.empty()) return fmt::format("a message of '{}' did not come within comm.timeout = {} s", name_, seconds);
  Running& running = running_.front();
  const Operation& op = running.operation;
  std::vector<int> missing;
  for (std::size_t r = 0; r < running.greetings.size(); ++r) {
    if (!running.greetings[r].done()) missing.push_back(members_[r]);
  }
  return fmt::format("{}, operation {} of '{}' did not end within comm.timeout = {} s: {}",
                     describe(op.kind, op.reduction, op.dtype, op.root, op.count), done_, name_, seconds,
                     missing.empty() ? std::string("a rank that entered it did not do its share")
                                     : fmt::format("not entered by rank {}", fmt::join(missing, ", ")));
}

std::unique_ptr<Communicator> MessageCommunicator::make_group(int colour, std::vector<int> members) {
  std::int32_t number = context_.next_group;
  all_reduce(view(std::span(&number, 1), Shape{1}), Reduction::max).wait();
  context_.next_group = number + 1;
  const auto place = std::ranges::find(members, rank_) - members.begin();
  for (int& r : members) r = members_[static_cast<std::size_t>(r)];
  std::string name = fmt::format("{}/{}.{}", name_, groups_made_++, colour);
  return std::make_unique<MessageCommunicator>(context_, std::move(name), number, std::move(members), static_cast<int>(place));
}

}  // namespace lockstep::comm
