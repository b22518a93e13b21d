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
  double seconds = 0;    ///< of a step, that the others wait for it
  double factor = 1;     ///< its work, by what is expected of it
  bool by_peers = true;  ///< ranks with the same work say what is expected; else its own past does
};

/// A rank that is late from now on, or no longer.
struct LateChange : LateRank {
  bool late = true;
};

/// One rank's work in the last steps. Three windows, and the rest of the one in which a rank becomes slow, are less than 20
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
  /// The mean but for the longest step, which may have had a page fault or a log line. Begins the next window.
  double take() {
    const WorkWindow whole = std::exchange(*this, {});
    return (whole.sum_ - whole.longest_) / static_cast<double>(whole.count_ - 1);
  }

 private:
  double sum_ = 0, longest_ = 0;
  int count_ = 0;
};

/// A rank becomes late when its work exceeds what is expected in three windows of steps in a row. The excess is above an eighth,
/// above a millisecond a step, and above 3.5 standard deviations of the noise. Three windows without half of the eighth or of
/// the deviations end that. The first window, in which everything warms up, does not count.
class LateRanks {
 public:
  /// `kinds`, by rank: ranks with one number have the same work. One that is alone with its number is compared with all others,
  /// by their ratio in the past.
  explicit LateRanks(const std::vector<int>& kinds);
  /// Another window. `seconds`, by rank, that it worked in one of its steps. Returns what that changes; until the next call.
  std::span<const LateChange> add(std::span<const double> seconds);
  /// The late rank that the others wait for longest, over the last windows.
  std::optional<LateRank> worst() const;

 private:
  static constexpr int windows_in_a_row = 3;
  /// The last values of something.
  class Past {
   public:
    static constexpr std::size_t most = 32;
    void add(double value) { values_[added_++ % most] = value; }
    std::size_t count() const { return std::min(added_, most); }
    /// 0 of nothing.
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
    /// The lower median of the others of one with so many `seconds`.
    double others(double seconds) const;
  };
  struct Rank {
    std::size_t group = 0;
    Past ratios, noise;  ///< to its group; how ratios that follow each other differ
    double last_ratio = 0;
    bool late = false;
    int turns = 0;  ///< windows in a row that say otherwise
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
