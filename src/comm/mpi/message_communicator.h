#pragma once

// Ranks of several hosts: what they give goes to the others in messages. Sums are made by combine() as everywhere, each rank's
// part of them by that rank, so the bits are those of ranks that share memory. The operations of a group run one after another.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/library.h"

namespace lockstep::comm {

class MessageCommunicator;

/// What the groups of one rank share. Used by the rank's thread alone.
struct MessageRank {
  double timeout = 600;  ///< seconds until an operation that others do not enter ends the run
  bool crowded = false;  ///< more ranks than cores
  int next_group = 1;
  std::vector<MessageCommunicator*> groups = {};

  void progress();
};

/// An operation that does not fit or does not end throws RunAborted on the rank that finds it; whoever runs the ranks ends the
/// job.
class MessageCommunicator final : public Communicator {
 public:
  /// Member `rank` of `members` (ranks of the world); `group` is its number, the same on all of them. `context` outlives it.
  MessageCommunicator(MessageRank& context, std::string name, int group, std::vector<int> members, int rank);
  ~MessageCommunicator() override;
  MessageCommunicator(const MessageCommunicator&) = delete;
  MessageCommunicator& operator=(const MessageCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void attach(Stream& stream, cpu::Team& team) override;
  MemorySource& window(MemorySource& usual) override { return usual; }

  /// Does what can be done now.
  void progress();

 private:
  friend class CollectivePending;
  friend class LetterPending;
  /// What a rank says of an operation before it gives anything.
  struct Card {
    std::uint64_t sequence;
    Collective kind;
    Reduction reduction;
    DType dtype;
    std::int32_t root;
    std::int64_t count;
    std::uint64_t counts;  ///< a hash of the counts by rank
    std::int64_t piece;    ///< all_to_all: what the reader of the card gets
    bool operator==(const Card& other) const = default;
  };
  enum class Phase : std::uint8_t { fresh, cards, data, results };
  struct Running {
    Operation operation;
    std::vector<std::int64_t> counts, out_counts;
    Phase phase = Phase::fresh;
    std::vector<Card> sent, got;
    std::vector<Transfers> greetings;  ///< by rank
    Transfers transfers;
    std::vector<std::byte> space;  ///< what others gave to be combined
  };
  struct Range {
    std::int64_t first, count;  ///< elements
  };

  Request issue(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(int colour, std::vector<int> members) override;
  bool advance(Running& running);
  void greet(Running& running);
  bool all_greeted(Running& running);
  void check(const Running& running) const;
  void give(Running& running);
  void give_inputs(Running& running);
  void give_results(Running& running);
  void combine_range(Running& running);
  Range range_of(const Running& running, int rank) const;
  Range given_to(const Running& running, int r) const;
  Range got_from(const Running& running, int r) const;
  void send(Running& running, const Tensor& from, Range range, int to, int use);
  void receive(Running& running, const Tensor& to, Range range, int from, int use);
  std::string report(double seconds);
  template <class Done>
  void await(Done done);
  // One turn of waiting, which began at `since` (0: now).
  template <class Done>
  bool attempt(Done done, double& since);

  MessageRank& context_;
  std::string name_;
  int group_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t issued_ = 0, done_ = 0;
  std::deque<Running> running_;
  int groups_made_ = 0;
};

}  // namespace lockstep::comm
