#include "comm/host/host_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/cache_control.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/timer.h"
#include "comm/errors.h"
#include "comm/host/moves.h"
#include "comm/host/report.h"
#include "comm/host/staging.h"

namespace lockstep::comm::host {

void Rank::progress() {
  for (HostCommunicator* group : groups) group->progress();
}

void relax(int turn, bool crowded) {
  constexpr int spins = 4096, yields = 8192;
  if (turn < (crowded ? 16 : spins)) {
    hwy::Pause();
  } else if (turn < spins + yields) {
    sched_yield();
  } else {
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
}

namespace {

constexpr int turns_between_looks = 64;

/// While it lives, the rank may touch the others' buffers.
class Move {
 public:
  explicit Move(Rank& context) : context_(context) {
    if (!context_.roll.begin_move(context_.number)) throw RunAborted(context_.roll.reason());
  }
  ~Move() { context_.roll.end_move(context_.number); }
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

 private:
  Rank& context_;
};

}  // namespace

/// A collective, or a message to or from another rank.
class HostPending final : public Request::Pending {
 public:
  enum class Kind : std::uint8_t { collective, send, receive };
  HostPending(HostCommunicator& group, Kind kind, std::uint64_t number, int other)
      : group_(group), kind_(kind), number_(number), other_(other) {}

  void wait() override {
    or_abandon([&] {
      group_.await([this] { return ended(); }, sequence(), other_);
      return true;
    });
  }
  bool poll(bool patient) override {
    if (!patient) patience_.since = std::min(patience_.since, now_seconds());
    return or_abandon([&] { return group_.attempt([this] { return ended(); }, patience_, sequence(), other_); });
  }
  // The run ends; from then on no rank touches its buffers.
  void abandon() override {
    const Rank& rank = group_.context_;
    if (!rank.roll.aborted()) rank.roll.announce_failure(rank.number);
    rank.roll.await_no_moves(rank.number, rank.longest_move, rank.look_after);
  }

 private:
  // A wait that throws ends this rank, which takes the buffers along.
  template <class Action>
  bool or_abandon(const Action& action) {
    try {
      return action();
    } catch (...) {
      abandon();
      throw;
    }
  }
  bool ended() const {
    switch (kind_) {
      case Kind::collective:
        return group_.all_done(number_);
      case Kind::send:
        return group_.board_.channel(group_.rank_, other_).taken.load(std::memory_order_acquire) > number_;
      case Kind::receive:
        return group_.taken_[static_cast<std::size_t>(other_)] > number_;
    }
    return true;
  }
  const std::uint64_t* sequence() const { return kind_ == Kind::collective ? &number_ : nullptr; }

  HostCommunicator& group_;
  Kind kind_;
  std::uint64_t number_;
  int other_;
  HostCommunicator::Patience patience_;
};

HostCommunicator::HostCommunicator(Rank& context, std::string name, Board board, std::vector<int> members, int rank)
    : context_(context),
      name_(std::move(name)),
      board_(board),
      members_(std::move(members)),
      rank_(rank),
      sent_(members_.size()),
      received_(members_.size()),
      taken_(members_.size()) {
  context_.groups.push_back(this);
}

HostCommunicator::~HostCommunicator() { std::erase(context_.groups, this); }

void HostCommunicator::attach(Stream& stream, Team& team) {
  context_.team = &team;
  context_.stream = &stream;
  stream.add_progress([&context = context_] { context.progress(); });
}

void HostCommunicator::abort(const std::string& reason) const {
  context_.roll.abort(reason);
  throw RunAborted(context_.roll.reason());
}

Request HostCommunicator::issue(const Operation& operation) {
  if (context_.roll.aborted()) throw RunAborted(context_.roll.reason());
  if (context_.staging == nullptr) return start(operation);
  return context_.staging->issue(operation, rank_, context_, [this](const Operation& shared) { return start(shared); });
}

Request HostCommunicator::start(const Operation& operation) {
  switch (operation.kind) {
    case Collective::send:
      return post(operation);
    case Collective::receive:
      return expect(operation);
    default:
      return enter(operation);
  }
}

Request HostCommunicator::enter(const Operation& operation) {
  const std::uint64_t sequence = entered_;
  // The oldest operation's slot is free when everybody has done it.
  if (sequence >= Board::depth) {
    const std::uint64_t oldest = sequence - Board::depth;
    await([&] { return all_done(oldest); }, &oldest, -1);
  }
  Slot& slot = board_.slot(rank_, sequence);
  const auto token = [&](const Tensor& tensor) { return tensor ? context_.memory.token(tensor.data) : 0; };
  slot = {operation.kind,  operation.reduction, operation.dtype,     operation.root,
          operation.count, now_seconds(),       token(operation.in), token(operation.out)};
  std::int64_t* counts = board_.counts(rank_, sequence);
  std::copy(operation.counts.begin(), operation.counts.end(), counts);
  Own& own = own_[sequence % Board::depth];
  own.operation = operation;
  own.operation.counts = {counts, operation.counts.size()};
  own.out_counts.assign(operation.out_counts.begin(), operation.out_counts.end());
  own.operation.out_counts = own.out_counts;
  board_.counters(rank_).entered.store(++entered_, std::memory_order_release);
  progress();
  return Request(std::make_unique<HostPending>(*this, HostPending::Kind::collective, sequence, -1));
}

Request HostCommunicator::post(const Operation& operation) {
  Channel& channel = board_.channel(rank_, operation.root);
  const std::uint64_t ticket = sent_[static_cast<std::size_t>(operation.root)]++;
  await([&] { return channel.taken.load(std::memory_order_acquire) + channel_depth > ticket; }, nullptr, operation.root);
  channel.letters[ticket % channel_depth] = {operation.dtype, operation.count,
                                             operation.in ? context_.memory.token(operation.in.data) : 0};
  channel.posted.store(ticket + 1, std::memory_order_release);
  return Request(std::make_unique<HostPending>(*this, HostPending::Kind::send, ticket, operation.root));
}

Request HostCommunicator::expect(const Operation& operation) {
  const std::uint64_t ticket = received_[static_cast<std::size_t>(operation.root)]++;
  receives_.push_back({operation.out, operation.root, ticket});
  progress();
  return Request(std::make_unique<HostPending>(*this, HostPending::Kind::receive, ticket, operation.root));
}

void HostCommunicator::progress() {
  while (executed_ < entered_ && all_entered(executed_)) {
    execute(executed_);
    board_.counters(rank_).done.store(++executed_, std::memory_order_release);
  }
  if (!receives_.empty()) std::erase_if(receives_, [this](const Receive& receive) { return take(receive); });
}

bool HostCommunicator::all_entered(std::uint64_t sequence) const {
  for (int r = 0; r < size(); ++r) {
    if (board_.counters(r).entered.load(std::memory_order_acquire) <= sequence) return false;
  }
  return true;
}

bool HostCommunicator::all_done(std::uint64_t sequence) {
  if (sequence < finished_) return true;
  std::uint64_t least = executed_;
  for (int r = 0; r < size(); ++r) least = std::min(least, board_.counters(r).done.load(std::memory_order_acquire));
  finished_ = least;
  return sequence < finished_;
}

void HostCommunicator::execute(std::uint64_t sequence) {
  const Operation& operation = own_[sequence % Board::depth].operation;
  if (const std::string difference = disagreement({board_, members_, name_}, sequence); !difference.empty()) abort(difference);
  if (operation.kind == Collective::all_to_all) check_counts(operation, sequence);
  const Move move(context_);
  do_share({board_, context_.memory, members_, rank_, context_.team}, operation, sequence);
}

void HostCommunicator::check_counts(const Operation& operation, std::uint64_t sequence) const {
  for (int r = 0; r < size(); ++r) {
    const std::int64_t sent = board_.counts(r, sequence)[rank_];
    const std::int64_t expected = operation.out_counts[static_cast<std::size_t>(r)];
    if (sent == expected) continue;
    abort(fmt::format("all_to_all, operation {} of '{}': rank {} sends {} elements to rank {}, which expects {}", sequence, name_,
                      members_[static_cast<std::size_t>(r)], sent, context_.number, expected));
  }
}

// Receives from one rank take its letters in order: `erase_if` visits them in the order they were issued.
bool HostCommunicator::take(const Receive& receive) {
  const auto from = static_cast<std::size_t>(receive.from);
  Channel& channel = board_.channel(receive.from, rank_);
  if (receive.ticket != taken_[from] || channel.posted.load(std::memory_order_acquire) <= receive.ticket) return false;
  const Letter& letter = channel.letters[receive.ticket % channel_depth];
  if (letter.dtype != receive.to.dtype || letter.count != receive.to.elements()) {
    abort(fmt::format("rank {} sends {} {} to rank {}, which expects {} {}", members_[from], letter.count, name_of(letter.dtype),
                      context_.number, receive.to.elements(), name_of(receive.to.dtype)));
  }
  if (letter.count > 0) {
    const Move move(context_);
    copy(context_.team, receive.to.data, context_.memory.find(members_[from], letter.address),
         static_cast<std::int64_t>(receive.to.bytes()));
  }
  ++taken_[from];
  channel.taken.store(receive.ticket + 1, std::memory_order_release);
  return true;
}

template <class Done>
void HostCommunicator::await(Done done, const std::uint64_t* sequence, int other) {
  context_.progress();
  if (done()) return;
  Patience patience{.since = now_seconds()};
  while (!attempt(done, patience, sequence, other)) relax(patience.turn, context_.crowded);
}

template <class Done>
bool HostCommunicator::attempt(Done done, Patience& patience, const std::uint64_t* sequence, int other) {
  context_.progress();
  if (done()) {
    if (patience.turn >= turns_between_looks) context_.roll.set_awaited(context_.number, std::nullopt);
    return true;
  }
  if (context_.roll.aborted()) throw RunAborted(context_.roll.reason());
  if (++patience.turn % turns_between_looks == 0) {
    if (context_.look_after) context_.look_after();
    const int gone = gone_of(sequence, other);
    if (gone >= 0 && done()) return true;  // it did its part, then ended
    check_others(patience.since, sequence, other, gone);
  }
  return false;
}

std::vector<int> HostCommunicator::absent(const std::uint64_t* sequence, int other) const {
  if (sequence != nullptr) return missing({board_, members_, name_}, *sequence);
  return {members_[static_cast<std::size_t>(other)]};
}

int HostCommunicator::gone_of(const std::uint64_t* sequence, int other) const {
  for (const int r : absent(sequence, other))
    if (context_.roll.phase(r) != Phase::running) return r;
  return -1;
}

// The awaited rank may have ended, or never come.
void HostCommunicator::check_others(double since, const std::uint64_t* sequence, int other, int gone) const {
  const GroupView view{board_, members_, name_};
  const auto what = [&] {
    return sequence != nullptr ? name_operation(view, rank_, *sequence)
                               : fmt::format("a message between ranks {} and {} of '{}'", context_.number,
                                             members_[static_cast<std::size_t>(other)], name_);
  };
  if (gone >= 0) {
    abort(fmt::format("rank {} has ended, but rank {} waits for it in {}; what each rank did last:{}", gone, context_.number,
                      what(), last_operations(view)));
  }
  std::vector<int> late = absent(sequence, other);
  const auto first = std::ranges::find_if(late, [&](int r) { return r != context_.number; });
  context_.roll.set_awaited(context_.number, first == late.end() ? std::nullopt : std::optional(*first));
  if (now_seconds() - since < context_.timeout) return;
  std::vector<std::string> named;
  for (const int r : late) named.push_back(fmt::format("{}{}", r, context_.roll.awaited_by(r)));
  abort(fmt::format("{} did not end within comm.timeout = {} s: {}; what each rank did last:{}", what(), context_.timeout,
                    late.empty() ? std::string("a rank that entered it did not do its share")
                                 : fmt::format("not entered by rank {}", fmt::join(named, ", ")),
                    last_operations(view)));
}

std::unique_ptr<Communicator> HostCommunicator::make_group(int colour, std::vector<int> members) {
  const int parts = static_cast<int>(members.size());

  // The group's first member makes its board and tells where it lies.
  std::int64_t token = 0;
  if (members.front() == rank_) {
    token = static_cast<std::int64_t>(context_.memory.token(context_.memory.allocate(Board::bytes(parts))));
  }
  std::vector<std::int64_t> tokens(members_.size());
  const std::vector<std::int64_t> ones(tokens.size(), 1);
  all_gather(view(std::span(tokens), Shape{size()}), view(std::span(&token, 1), Shape{1}), ones).wait();
  const int leader = members_[static_cast<std::size_t>(members.front())];
  std::byte* memory = context_.memory.find(leader, static_cast<std::uint64_t>(tokens[static_cast<std::size_t>(members.front())]));
  const auto place = std::ranges::find(members, rank_) - members.begin();
  for (int& r : members) r = members_[static_cast<std::size_t>(r)];
  std::string name = fmt::format("{}/{}.{}", name_, groups_made_++, colour);
  return std::make_unique<HostCommunicator>(context_, std::move(name), Board(memory, parts), std::move(members),
                                            static_cast<int>(place));
}

}  // namespace lockstep::comm::host
