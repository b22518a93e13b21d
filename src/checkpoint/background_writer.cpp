#include "checkpoint/background_writer.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace lockstep::checkpoint {

void BackgroundWriter::declare_copies(Arena& host, Tensor& copies, std::int64_t bytes, std::int64_t least) {
  constexpr std::int64_t share = 8;
  host.declare(copies, "copies for saves", Shape{std::max(least * part_bytes, round_up(bytes / share, part_bytes))}, DType::u8);
}

BackgroundWriter::BackgroundWriter(Writer& writer, const Tensor& copies) : writer_(writer), copies_(copies) {
  for (std::int64_t slot = copies.elements() / part_bytes; slot > 0; --slot) free_.push_back(static_cast<std::size_t>(slot - 1));
  ensure(!free_.empty(), "what is saved in the background has room for a copy");
}

BackgroundWriter::~BackgroundWriter() = default;

void BackgroundWriter::lend(int group, std::span<const HeldTensor> tensors) {
  ensure(!thread_, "ranges are lent before they are written");
  for (Writer::Part& part : writer_.parts_of(tensors)) items_.push_back({.part = std::move(part), .group = group});
}

void BackgroundWriter::start() {
  std::ranges::sort(items_, {}, &Item::group);
  lent_ = items_.size();
  thread_.emplace("save", [this](const std::stop_token& stop) { run(stop); });
}

void BackgroundWriter::settle(int group, Team& team) {
  std::unique_lock lock(mutex_);
  const auto lent = std::ranges::subrange(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(lent_));
  while (!failed_) {
    std::vector<Item*> read, waiting;
    for (Item& item : std::ranges::equal_range(lent, group, {}, &Item::group)) {
      if (item.is_read()) read.push_back(&item);
      if (item.is_read() && item.state == State::waiting) waiting.push_back(&item);
    }
    if (read.empty()) return;
    for (Item* item : copy_some(waiting, lock, team)) {
      item->copied = item->state == State::waiting;  // the thread may have come to it meanwhile
      item->copied ? void(item->part.range.values = in_slot(*item)) : free_slot(item->slot);
    }
  }
}

void BackgroundWriter::take(std::span<const HeldTensor> tensors, Team& team) {
  std::deque<Item> taken;
  std::vector<Item*> left;
  for (Writer::Part& part : writer_.parts_of(tensors)) left.push_back(&taken.emplace_back(Item{.part = std::move(part)}));
  std::unique_lock lock(mutex_);
  ensure(!closed_, "nothing is taken when all was");
  for (std::size_t first = 0; first < left.size() && !failed_;) {
    const std::vector<Item*> batch = copy_some(std::span(left).subspan(first), lock, team);
    for (Item* item : batch) {
      item->copied = true;
      item->part.range.values = in_slot(*item);
      items_.push_back(std::move(*item));
    }
    first += batch.size();
    changed_.notify_all();
  }
}

void BackgroundWriter::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::vector<BackgroundWriter::Item*> BackgroundWriter::give_slots(std::span<Item* const> items) {
  std::vector<Item*> given;
  for (Item* item : items) {
    ensure(item->part.range.values.bytes() <= static_cast<std::size_t>(part_bytes), "a part has room in a slot");
    if (free_.empty()) break;
    item->slot = free_.back();
    free_.pop_back();
    given.push_back(item);
  }
  return given;
}

std::vector<BackgroundWriter::Item*> BackgroundWriter::copy_some(std::span<Item* const> items, std::unique_lock<std::mutex>& lock,
                                                                 Team& team) {
  const std::vector<Item*> batch = give_slots(items);
  if (batch.empty()) {
    changed_.wait(lock);
    return batch;
  }
  lock.unlock();
  team.for_each(std::ssize(batch), [&](std::int64_t i, int) {
    const Item& item = *batch[static_cast<std::size_t>(i)];
    const Tensor& values = item.part.range.values;
    std::memcpy(in_slot(item).data, values.data, values.bytes());
  });
  lock.lock();
  return batch;
}

void BackgroundWriter::free_slot(std::size_t slot) {
  free_.push_back(slot);
  changed_.notify_all();
}

Tensor BackgroundWriter::in_slot(const Item& item) const {
  Tensor values = item.part.range.values;
  values.data = copies_.data + item.slot * static_cast<std::size_t>(part_bytes);
  return values;
}

void BackgroundWriter::run(const std::stop_token& stop) {
  try {
    write_all(stop);
    verify(stop);
    if (!stop.stop_requested()) writer_.sync();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
    throw;
  }
}

void BackgroundWriter::write_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (next_ == items_.size() && closed_) return;
    if (!changed_.wait(lock, stop, [&] { return next_ < items_.size() || closed_; }) || next_ == items_.size()) continue;
    Item& item = items_[next_++];
    item.state = State::being_written;
    const Writer::Part part = item.part;
    lock.unlock();
    const std::uint64_t checksum = writer_.write(part);
    lock.lock();
    item.checksum = checksum;
    item.state = State::written;
    if (item.copied) free_slot(item.slot);
    changed_.notify_all();
  }
}

// All items are there by now.
void BackgroundWriter::verify(const std::stop_token& stop) const {
  for (const Item& item : items_) {
    if (stop.stop_requested()) return;
    writer_.verify(item.part, item.checksum);
  }
}

}  // namespace lockstep::checkpoint
