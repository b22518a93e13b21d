#pragma once

// Each rank sends its piece of a copy to a rank of the next host, and gets that of a rank of the host before. Some parts go at a
// time, so that steps go on between. A thread beside the rank's own reads and writes what travels. The rank's own thread alone
// speaks with other ranks.

#include <array>
#include <optional>

#include "base/aside.h"
#include "checkpoint/copies/piece.h"

namespace lockstep::checkpoint {

/// The ranks of a host, and the rank at the same place on the next host and on the one before.
struct Neighbours {
  int hosts = 1, host = 0;
  int to = 0, from = 0;
};
/// `hosts`: of each rank, its name. Throws UserError where hosts have different numbers of ranks.
Neighbours neighbours_of(const std::vector<std::string>& hosts, int rank);

class Exchange {
 public:
  /// The buffers are in `room`, of at least `least_parts` times part_bytes. The longer a step of `step_seconds` is, the more
  /// bytes go at a time. The arguments outlive this. Collective over `ranks`.
  Exchange(comm::Communicator& ranks, const Neighbours& neighbours, const io::Path& folder, const Piece& own, const Tensor& room,
           double step_seconds);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  static constexpr std::int64_t least_parts = 4;

  /// Whether the thread still does what advance() would wait for.
  bool busy() const { return job_ && !job_->done(); }
  /// Goes on with the exchange. True when the other rank's piece is here and its file is written. Collective.
  bool advance();
  /// Ends what is under way; nothing more comes. Collective.
  void stop();

 private:
  using Parts = std::span<const CopiedPart>;
  void exchange_texts(const Piece& own);
  std::vector<Parts> rounds_of(Parts parts) const;
  Parts round_of(const std::vector<Parts>& rounds, std::int64_t number) const;
  std::span<std::byte> buffer(bool incoming, std::int64_t round) const;
  std::int64_t bytes_of(Parts parts) const;
  /// Calls use(part, its bytes) for each part in a buffer.
  template <class Use>
  void for_each(Parts parts, std::span<std::byte> bytes, const Use& use) const;
  void start_job(std::int64_t drained, std::int64_t filled);
  void settle();
  bool turn();

  comm::Communicator& ranks_;
  Neighbours neighbours_;
  io::Path folder_;
  CopyFiles files_;
  Tensor room_;
  std::int64_t capacity_ = 0, rounds_ = 0, pace_ = 1, turn_ = 0;
  Piece own_, theirs_;
  std::vector<Parts> outgoing_, incoming_;
  std::array<comm::Request, 2> requests_;
  std::optional<Aside> job_;  ///< last: it ends before the rest goes
};

}  // namespace lockstep::checkpoint
