#pragma once

// Which rank the others wait for, told from the seconds that each rank worked in its steps. There is no clock and no exchange
// here.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::train {

/// A rank that the others wait for.
struct LateRank {
  int rank = 0;
  double seconds = 0;    ///< that the others wait for it in a step
  double factor = 1;     ///< its seconds of work over those expected of it
  bool by_peers = true;  ///< expected by ranks with the same work; else by its own past
};

/// A rank that is late from now on, or no longer.
struct LateChange : LateRank {
  bool late = true;
};

/// One rank's seconds of work in the last steps. The window in which a rank becomes slow and the three after it take less than 20
/// steps.
class WorkWindow {
 public:
  static constexpr int steps = 5;
  void add(double seconds) {
    sum_ += seconds;
    longest_ = std::max(longest_, seconds);
    ++count_;
  }
  bool full() const { return count_ >= steps; }
  /// The mean of the window's steps without the longest, which may have had a page fault or a log line. Begins the next window.
  double take() {
    const WorkWindow whole = std::exchange(*this, {});
    return (whole.sum_ - whole.longest_) / static_cast<double>(whole.count_ - 1);
  }

 private:
  double sum_ = 0, longest_ = 0;
  int count_ = 0;
};

/// A rank becomes late when its work exceeds what is expected in three windows of steps in a row. The excess is above an eighth,
/// above a millisecond a step, and above 3.5 standard deviations of the noise. Three windows with at most half of the larger of
/// eighth and deviations end that. The first window, in which everything warms up, does not count.
class LateRanks {
 public:
  /// `kinds`, by rank: ranks with the same number have the same work. A rank whose number no other has is compared with all
  /// others, by their ratio in the past.
  explicit LateRanks(const std::vector<int>& kinds);
  /// Ends a window. `seconds`: by rank, its mean seconds of work in a step. Returns who became late or no longer is; valid until
  /// the next call.
  std::span<const LateChange> add(std::span<const double> seconds);
  /// The late rank that the others wait for longest, over the last windows.
  std::optional<LateRank> worst() const;

 private:
  static constexpr int windows_in_a_row = 3;
  /// The last values of a series.
  class Past {
   public:
    static constexpr std::size_t most = 32;
    void add(double value) { values_[added_++ % most] = value; }
    std::size_t count() const { return std::min(added_, most); }
    /// The median; 0 without values.
    double median() const;

   private:
    std::array<double, most> values_{};
    std::size_t added_ = 0;
  };
  /// Ranks that are compared with each other.
  struct Group {
    std::vector<int> ranks = {};
    std::vector<double> sorted = {};  ///< their seconds
    bool same_work = true;
    /// The lower median of the group's other ranks, as a rank with so many `seconds` sees them.
    double others(double seconds) const;
  };
  struct Rank {
    std::size_t group = 0;
    Past ratios, noise;  ///< `ratios` of its work to its group's; `noise`: how far successive ratios differ
    double last_ratio = 0;
    bool late = false;
    int turns = 0;  ///< windows in a row that contradict `late`
    std::array<double, windows_in_a_row> lost{}, factors{};
  };
  void judge(int number, double seconds);
  LateRank tell(int number) const;

  std::vector<Group> groups_;
  std::vector<Rank> ranks_;
  std::vector<LateChange> changes_;
  std::size_t windows_ = 0;
};

}  // namespace lockstep::train
