#pragma once

// One operation of a group whose ranks send each other messages, or a piece of it, from its entry to its end. Every rank tells
// the others what it has entered, and sends at once what they need of it. When all have told, their entries are compared. Then
// what comes is received. Sums are made by combine() as everywhere. Each rank makes its part of them.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mpi/library.h"
#include "comm/operation.h"

namespace lockstep::comm {

/// What a message is for. A tag is made of a group's number and this use.
enum MessageUse : std::uint8_t { use_card, use_input, use_result, use_letter_card, use_letter, message_uses };

/// What a rank says of an operation that it enters.
struct MessageCard {
  std::uint64_t sequence;
  Collective kind;
  Reduction reduction;
  DType dtype;
  std::int32_t root;
  std::int64_t count;
  std::uint64_t counts;  ///< a hash of the counts by rank
  std::int64_t piece;    ///< all_to_all: what the reader of the card gets
  bool operator==(const MessageCard& other) const = default;
};

/// "all_reduce (sum, 1,000 F32)".
std::string describe(const MessageCard& card);

/// What the operations of a group share.
struct MessageGroup {
  std::string name;
  int number;                ///< the same on all members
  std::vector<int> members;  ///< ranks of the world
  int rank;                  ///< this rank's number in the group
  struct Last {
    MessageCard card;
    double heard = 0;  ///< now_seconds(); 0: never
  };
  std::vector<Last> last = {};                      ///< what each member has told last
  std::vector<std::vector<std::byte>> spaces = {};  ///< memory that no operation uses just now

  int size() const { return static_cast<int>(members.size()); }
  int tag(MessageUse use) const { return number * message_uses + use; }
};

class MessageOperation {
 public:
  enum class Phase : std::uint8_t { fresh, cards, data, results, ended };

  /// `group` outlives it.
  explicit MessageOperation(MessageGroup& group) : group_(group) {}

  /// Begins operation `sequence` of the group. `count` is that of all its pieces. An operation begins only when it is fresh or
  /// has ended.
  void begin(const Operation& operation, std::uint64_t sequence, std::int64_t count);
  /// Does what can be done now, but does not go beyond `limit`. Operations pass each phase in their order, so that messages meet.
  /// Throws RunAborted when the ranks have entered different operations.
  void advance(Phase limit);
  Phase phase() const { return phase_; }
  const MessageCard& card() const { return own_; }
  /// Ranks of the world that have not told that they entered the operation.
  std::vector<int> missing() const;
  /// Ranks of the world that have not sent their share, or not taken this rank's.
  std::vector<int> behind() const { return transfers_.under_way(); }

 private:
  struct Range {
    std::int64_t first, count;  ///< elements
  };
  bool step();
  void greet();
  bool all_greeted();
  void check() const;
  void send_parts();
  void receive_parts();
  void combine_range();
  void exchange_results();
  Range range_of(int rank) const;
  Range given_to(int rank) const;
  Range got_from(int rank) const;
  void send(const Tensor& from, Range range, int to, MessageUse use);
  void receive(std::byte* to, Range range, int from, MessageUse use);

  MessageGroup& group_;
  Operation operation_;
  std::vector<std::int64_t> counts_, out_counts_;
  Phase phase_ = Phase::fresh;
  MessageCard own_{};
  std::vector<MessageCard> sent_, got_;  // by rank, as the next two
  std::vector<Transfers> greetings_;
  std::vector<char> greeted_;
  Transfers transfers_;
  std::vector<std::byte> space_;  // what others gave to be combined
  std::vector<const std::byte*> sources_;
};

}  // namespace lockstep::comm
