#include "comm/mpi/message_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/timer.h"
#include "comm/errors.h"
#include "comm/host/rank.h"
#include "device/stream.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;  // of an all_reduce
constexpr std::size_t most_pieces = 8;                       // pieces that send or receive

constexpr double seconds_per_poll = 5e-6;
constexpr double most_polls = 1000;
constexpr double seconds_until_told = 0.05;  // the ranks of this host, that this one waits

struct LetterCard {
  DType dtype;
  std::int64_t count;
};

}  // namespace

void MessageRank::progress() {
  for (MessageCommunicator* group : groups) group->progress();
  for (const Other& other : others) other.progress();
}

// MPI looks at its sockets only now and then when it is asked, and takes one message a time. So it is asked the more often, the
// longer ago that was last done, until all that has come is taken.
void MessageRank::progress_between_ops() {
  const double now = now_seconds();
  const int polls = static_cast<int>(std::min((now - last_progress) / seconds_per_poll, most_polls));
  if (polls < 1) return;
  const auto busy = [](const MessageCommunicator* group) { return group->busy(); };
  for (int i = 0; i == 0 || (i < polls && std::ranges::any_of(groups, busy)); ++i) progress();
  last_progress = now_seconds();
}

/// An operation of a group.
class CollectivePending final : public Request::Pending {
 public:
  CollectivePending(MessageCommunicator& group, std::uint64_t number) : group_(group), number_(number) {}
  void wait() override {
    group_.await([this] { return ended(); }, -1);
  }
  bool poll(bool patient) override {
    group_.context_.progress();
    if (ended()) {
      group_.waits_no_more(since_);
      return true;
    }
    if (!patient) group_.check_time(since_, -1);
    return false;
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
  LetterPending(MessageCommunicator& group, const Operation& operation) : group_(group), operation_(operation) {
    const bool sends = operation.kind == Collective::send;
    const Tensor& tensor = sends ? operation.in : operation.out;
    const int other = group.world_rank(operation.root);
    const std::span<std::byte> bytes(tensor.data, tensor.bytes());
    if (sends) {
      card_ = {operation.dtype, operation.count};
      card_transfer_.send(bytes_of(card_), other, group.group_.tag(use_letter_card));
      data_transfer_.send(bytes, other, group.group_.tag(use_letter));
    } else {
      card_transfer_.receive(bytes_of(card_), other, group.group_.tag(use_letter_card));
      data_transfer_.receive(bytes, other, group.group_.tag(use_letter));
    }
  }
  void wait() override {
    group_.await([this] { return ended(); }, operation_.root);
  }
  bool poll(bool patient) override {
    group_.context_.progress();
    if (ended()) {
      group_.waits_no_more(since_);
      return true;
    }
    if (!patient) group_.check_time(since_, operation_.root);
    return false;
  }

 private:
  bool ended() {
    if (!card_transfer_.done()) return false;
    if (card_.dtype == operation_.dtype && card_.count == operation_.count) return data_transfer_.done();
    throw RunAborted(fmt::format("rank {} sends {} {} to rank {}, which expects {} {}", group_.world_rank(operation_.root),
                                 card_.count, name_of(card_.dtype), group_.world_rank(group_.rank()), operation_.count,
                                 name_of(operation_.dtype)));
  }

  MessageCommunicator& group_;
  Operation operation_;
  LetterCard card_{};
  Transfers card_transfer_, data_transfer_;
  double since_ = 0;
};

MessageCommunicator::MessageCommunicator(MessageRank& context, std::string name, int group, std::vector<int> members, int rank)
    : context_(context), group_{.name = std::move(name), .number = group, .members = std::move(members), .rank = rank} {
  group_.last.resize(group_.members.size());
  context_.groups.push_back(this);
}

MessageCommunicator::~MessageCommunicator() { std::erase(context_.groups, this); }

void MessageCommunicator::attach(Stream& stream, Team&) {
  stream.add_progress([&context = context_] { context.progress_between_ops(); });
}

Request MessageCommunicator::issue(const Operation& operation) {
  if (operation.kind == Collective::send || operation.kind == Collective::receive) {
    return Request(std::make_unique<LetterPending>(*this, operation));
  }
  const std::uint64_t sequence = issued_++;
  if (operation.kind == Collective::all_reduce && operation.count > 0) {
    const std::int64_t most = piece_bytes / static_cast<std::int64_t>(size_of(operation.dtype));
    Operation piece = operation;
    for (std::int64_t first = 0; first < operation.count; first += most) {
      piece.count = std::min(most, operation.count - first);
      piece.in = piece.out = operation.in.flat(first, piece.count);
      enter(piece, sequence, operation.count);
    }
  } else {
    enter(operation, sequence, operation.count);
  }
  progress();
  return Request(std::make_unique<CollectivePending>(*this, sequence));
}

Request MessageCommunicator::announce(const Operation& operation) {
  Operation nothing = operation;
  nothing.count = 0;
  nothing.in = nothing.out = {};
  enter(nothing, issued_, operation.count);
  return Request(std::make_unique<CollectivePending>(*this, issued_++));
}

void MessageCommunicator::enter(const Operation& operation, std::uint64_t sequence, std::int64_t count) {
  if (idle_.empty()) idle_.push_back(std::make_unique<MessageOperation>(group_));
  running_.push_back(std::move(idle_.back()));
  idle_.pop_back();
  running_.back()->begin(operation, sequence, count);
}

void MessageCommunicator::progress() {
  auto limit = MessageOperation::Phase::ended;
  for (std::size_t i = 0; i < std::min(running_.size(), most_pieces); ++i) {
    running_[i]->advance(limit);
    limit = running_[i]->phase();
  }
  while (!running_.empty() && running_.front()->phase() == MessageOperation::Phase::ended) {
    idle_.push_back(std::move(running_.front()));
    running_.pop_front();
    done_ = running_.empty() ? issued_ : running_.front()->card().sequence;
  }
}

template <class Done>
void MessageCommunicator::await(Done done, int other) {
  double since = 0;
  for (int turn = 0;; ++turn) {
    context_.progress();
    if (done()) return waits_no_more(since);
    check_time(since, other);
    host::relax(turn, context_.crowded);
  }
}

void MessageCommunicator::check_time(double& since, int other) const {
  const double now = now_seconds();
  if (since == 0) since = now;
  if (now - since > context_.timeout) throw RunAborted(report(other));
  if (context_.roll == nullptr || now - since < seconds_until_told) return;
  if (other < 0 && !running_.empty()) {
    const std::vector<int> missing = running_.front()->missing();
    const std::vector<int> awaited = missing.empty() ? running_.front()->behind() : missing;
    if (!awaited.empty()) context_.roll->set_awaited(context_.number, awaited.front());
  } else if (other >= 0) {
    context_.roll->set_awaited(context_.number, world_rank(other));
  }
}

void MessageCommunicator::waits_no_more(double since) const {
  if (context_.roll != nullptr && since != 0) context_.roll->set_awaited(context_.number, std::nullopt);
}

std::string MessageCommunicator::report(int other) const {
  if (other >= 0 || running_.empty()) {
    const std::string with = other < 0 ? "" : fmt::format(" between ranks {} and {}", world_rank(rank()), world_rank(other));
    return fmt::format("a message{} of '{}' did not end within comm.timeout = {} s; what each rank was heard to enter last:{}",
                       with, group_.name, context_.timeout, last_operations());
  }
  const MessageOperation& running = *running_.front();
  const std::vector<int> missing = running.missing();
  return fmt::format(
      "{}, operation {} of '{}' did not end within comm.timeout = {} s: {}; what each rank was heard to enter last:{}",
      describe(running.card()), running.card().sequence, group_.name, context_.timeout,
      missing.empty() ? fmt::format("entered by all, but waiting for rank {}", fmt::join(running.behind(), ", "))
                      : fmt::format("not entered by rank {}", fmt::join(missing, ", ")),
      last_operations());
}

std::string MessageCommunicator::last_operations() const {
  std::string text;
  const double now = now_seconds();
  for (std::size_t r = 0; r < group_.last.size(); ++r) {
    const MessageGroup::Last& last = group_.last[r];
    text += fmt::format("\n  rank {}: ", group_.members[r]);
    text += last.heard == 0
                ? "nothing"
                : fmt::format("{}, operation {}, {:.1f} s ago", describe(last.card), last.card.sequence, now - last.heard);
  }
  return text;
}

std::unique_ptr<Communicator> MessageCommunicator::make_group(int colour, std::vector<int> members) {
  return make_message_group(colour, std::move(members));
}

std::unique_ptr<MessageCommunicator> MessageCommunicator::make_message_group(int colour, std::vector<int> members) {
  std::int32_t number = context_.next_group;
  all_reduce(view(std::span(&number, 1), Shape{1}), Reduction::max).wait();
  context_.next_group = number + 1;
  const auto place = std::ranges::find(members, rank()) - members.begin();
  for (int& r : members) r = group_.members[static_cast<std::size_t>(r)];
  std::string name = fmt::format("{}/{}.{}", group_.name, groups_made_++, colour);
  return std::make_unique<MessageCommunicator>(context_, std::move(name), number, std::move(members), static_cast<int>(place));
}

}  // namespace lockstep::comm
