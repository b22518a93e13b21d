#pragma once

// Ranges of tensors on their way into a checkpoint's files while their owner computes. A thread writes what was lent from where
// it lies. Before the owner changes a range, the part that is not in the files yet is copied into a buffer that was declared for
// it. Where the buffer is full, the owner waits. The thread takes each part's checksum as it reads it. At the end it compares the
// checksum with the file.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/aside.h"
#include "checkpoint/writer.h"
#include "tensor/arena.h"

namespace lockstep::checkpoint {

class BackgroundWriter {
 public:
  /// Declares the buffer of a rank that writes `bytes`: an eighth of them, in whole parts, and at least `least` parts.
  static void declare_copies(Arena& host, Tensor& copies, std::int64_t bytes, std::int64_t least = 1);
  /// The arguments outlive this; `copies`: as declared.
  BackgroundWriter(Writer& writer, const Tensor& copies);
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  /// Ends the thread; a part under way is still written.
  ~BackgroundWriter();

  // These are called by the owner's thread, in this order. What fails in the background is thrown by rethrow() alone.
  /// Ranges that stay as they are until settle(group) has returned.
  void lend(int group, std::span<const HeldTensor> tensors);
  /// Starts to write what was lent, groups in the order of their numbers.
  void start();
  /// Returns when nothing that was lent of the group is read any more.
  void settle(int group, Team& team);
  /// Ranges that stay as they are during the call alone.
  void take(std::span<const HeldTensor> tensors, Team& team);
  /// Nothing more is taken: when all is written, it is verified and synced.
  void close();

  /// All is on the device, or something failed.
  bool done() const { return thread_->done(); }
  void wait() const { thread_->wait(); }
  /// Throws what failed, once done.
  void rethrow() const { thread_->rethrow(); }
  /// Calls use(part, its checksum) for all that was written, once done. The values of parts may have gone.
  template <class Use>
  void for_each_written(const Use& use) const {
    for (const Item& item : items_) use(item.part, item.checksum);
  }

 private:
  enum class State : std::uint8_t { waiting, being_written, written };
  struct Item {
    Writer::Part part;
    int group = 0;
    State state = State::waiting;
    bool copied = false;  ///< the part lies in `slot`
    std::size_t slot = 0;
    std::uint64_t checksum = 0;
    bool is_read() const { return state != State::written && !copied; }  ///< the values are read from where they were lent
  };
  void run(const std::stop_token& stop);
  void write_all(const std::stop_token& stop);
  void verify(const std::stop_token& stop) const;
  /// Gives as many of the items as there are slots one each; returns those.
  std::vector<Item*> give_slots(std::span<Item* const> items);
  /// Copies those of the items that there are slots for, and returns them. With no slot free it waits for a change and returns
  /// nothing. The caller holds `lock`, which is given up while copying and waiting.
  std::vector<Item*> copy_some(std::span<Item* const> items, std::unique_lock<std::mutex>& lock, Team& team);
  void free_slot(std::size_t slot);
  Tensor in_slot(const Item& item) const;

  Writer& writer_;
  const Tensor& copies_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_;           ///< lent ones first, by group
  std::size_t lent_ = 0, next_ = 0;  ///< how many are lent; which item is written next
  std::vector<std::size_t> free_;    ///< free slots
  bool closed_ = false, failed_ = false;
  std::optional<Aside> thread_;  ///< last: it ends before the rest goes
};

}  // namespace lockstep::checkpoint
