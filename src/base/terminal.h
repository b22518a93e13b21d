#pragma once

// What a person at a terminal sees: width, a progress bar, plots. Plots are text and need no terminal.

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/text/paint.h"

namespace lockstep {

/// Whether `file` is a terminal that can redraw a line (TERM set and not "dumb").
bool is_terminal(std::FILE* file);
/// Prints all of `text` and returns whether it was written. A reader that is gone does not end the program.
bool say(std::FILE* file, std::string_view text);
/// Whether `file` is a pipe or a terminal whose reader is gone.
bool is_unread(std::FILE* file);
/// Columns of the terminal, 80 when unknown.
int terminal_width();
/// Columns for text that `file` gets: COLUMNS, else those of the terminal that it is, else 80.
int text_width(std::FILE* file);

/// One redrawn line: label, bar, percent, text, ETA. Draws nothing when `out` is no terminal. Log lines may be printed
/// above it when it is set as the Log's guard.
class ProgressBar : public Log::Guard {
 public:
  ProgressBar(std::FILE* out, std::string label, double total);
  ~ProgressBar() override;  // leaves the cursor on a fresh line
  /// `done` of `total`; `text` is shown behind the bar. Redraws at most 10 times a second.
  void update(double done, std::string_view text);
  void finish();
  void hide() override;
  void show() override;

 private:
  void draw();
  std::FILE* out_;
  std::string label_, text_;
  double total_, done_ = 0, started_, drawn_ = 0;
  bool live_, visible_ = false;
};

struct Series {
  std::string name;
  std::vector<double> x, y;
};

/// The series in at most `most` points, which are means of neighbours. A mean without a finite point is not finite.
Series thinned(const Series& all, std::size_t most);
/// A box-drawn line plot of 18 text rows, 40 to 120 columns wide (0: the terminal's width). Ticks stand at multiples of 1, 2 or
/// 5. The first series is drawn in braille; others have marks, which a legend names. Values that are not finite leave a gap. A
/// series with more points than columns is drawn by means of neighbours.
std::string plot(std::string_view title, std::string_view x_label, const std::vector<Series>& series, int columns = 0);
/// `text` with colours on the curves of the plots in it.
std::string with_coloured_curves(std::string_view text, const Paint& paint);

}  // namespace lockstep
