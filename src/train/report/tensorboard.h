#pragma once

// Curves for TensorBoard: an event file of scalars, as TensorFlow's summary writers make it. It has records with checksums. Each
// record is a small protocol buffer, encoded by hand.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/appended_file.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

struct Scalar {
  std::string tag;  ///< "loss/train": the part before the slash groups charts
  double value = 0;
};

class EventFile final : public RunListener {
 public:
  /// Makes a new file in `folder`, which is made where it is absent. TensorBoard drops what an earlier attempt wrote of steps
  /// from `first_step` on. Throws UserError when the file cannot be written.
  EventFile(const io::Path& folder, std::int64_t first_step);

  void logged(const Metrics& metrics) override;
  void kept(const Losses& losses) override;
  /// Writes one event, which is in the file when this returns. Throws UserError when the disk refuses.
  void add(std::int64_t step, std::span<const Scalar> scalars);

  const io::Path& path() const { return file_.path(); }

 private:
  void write(const std::string& event);
  io::AppendedFile file_;
};

}  // namespace lockstep::train
