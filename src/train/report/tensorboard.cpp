#include "train/report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "io/crc32c.h"

namespace lockstep::train {
namespace {

double wall_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Wire types that a scalar needs in tensorflow's event.proto and summary.proto. A field is its number, its wire type, a value.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void add_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(0x80U | (value & 0x7FU));
  to += static_cast<char>(value);
}

void add_field(std::string& to, unsigned number, Wire wire) { add_varint(to, number << 3 | static_cast<unsigned>(wire)); }

template <class Word>
void add_word(std::string& to, Word word) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) to += static_cast<char>(static_cast<unsigned char>(word >> 8 * i));
}

void add_bytes(std::string& to, unsigned number, std::string_view bytes) {
  add_field(to, number, Wire::bytes);
  add_varint(to, bytes.size());
  to += bytes;
}

// Event: 1 wall_time, 2 step, then what it is about.
std::string event(std::int64_t step) {
  std::string text;
  add_field(text, 1, Wire::fixed64);
  add_word(text, std::bit_cast<std::uint64_t>(wall_time()));
  add_field(text, 2, Wire::varint);
  add_varint(text, static_cast<std::uint64_t>(step));
  return text;
}

// Event: 3 file_version.
std::string version_event() {
  std::string text = event(0);
  add_bytes(text, 3, "brain.Event:2");
  return text;
}

// Event: 7 session_log { 1 status: 1, START }, which drops what was there from its step on.
std::string start_event(std::int64_t step) {
  std::string text = event(step);
  add_bytes(text, 7, "\x08\x01");
  return text;
}

// Event: 5 summary { 1 value { 1 tag, 2 simple_value }, ... }.
std::string summary_event(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    add_bytes(value, 1, scalar.tag);
    add_field(value, 2, Wire::fixed32);
    add_word(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    add_bytes(summary, 1, value);
  }
  std::string text = event(step);
  add_bytes(text, 5, summary);
  return text;
}

// Scalars with tags by which TensorBoard groups them.
std::vector<Scalar> scalars_of(const Metrics& m) {
  std::vector<Scalar> scalars{{"optimizer/lr", m.learning_rate},
                              {"optimizer/grad_norm", m.gradient_norm},
                              {"speed/tokens_per_second", m.tps},
                              {"speed/mfu", m.mfu},
                              {"speed/hfu", m.hfu},
                              {"speed/tflops_per_gpu", m.tflops_per_gpu},
                              {"speed/dt", m.dt},
                              {"speed/data_wait", m.data_wait},
                              {"speed/exposed_seconds", m.exposed_seconds}};
  if (has_loss(m)) scalars.push_back({"loss/train", m.loss});
  if (m.late) scalars.push_back({"speed/lost_seconds", m.late->seconds});
  for (const auto& [purpose, all] : sent_by_purpose(m.exchanged)) {
    scalars.push_back({"exchange/" + purpose + "_sent_bytes", static_cast<double>(all.sent)});
    scalars.push_back({"exchange/" + purpose + "_waited", all.waited});
    scalars.push_back({"exchange/" + purpose + "_hidden", all.hidden});
  }
  for (std::size_t i = 0; m.figures && i < m.figures->names.size(); ++i)
    scalars.push_back({std::string(m.figures->names[i]), m.figures->values[i]});
  if (const auto scale = m.noise ? m.noise->scale() : std::nullopt) scalars.push_back({"optimizer/noise_scale", *scale});
  if (m.staleness) scalars.push_back({"optimizer/staleness", m.staleness->mean});
  return scalars;
}

std::uint32_t masked_checksum(std::string_view bytes) {
  return std::rotr(io::crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8U;
}

std::string file_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "localhost");
  // Names sort by time: a later file is read later.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("events.out.tfevents.{:010}.{:06}.{}.{}", std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                     std::chrono::duration_cast<std::chrono::microseconds>(now).count() % 1'000'000, host.data(), getpid());
}

io::Path made(const io::Path& folder) {
  io::make_folder(folder);
  return folder / file_name();
}

}  // namespace

EventFile::EventFile(const io::Path& folder, std::int64_t first_step) : file_(made(folder), io::AppendedFile::Open::new_one) {
  write(version_event());
  write(start_event(first_step));
}

void EventFile::logged(const Metrics& metrics) { add(metrics.step, scalars_of(metrics)); }

void EventFile::kept(const Losses& losses) {
  add(losses.step, std::array<Scalar, 2>{{{"loss/train_evaluated", losses.train}, {"loss/val", losses.validation}}});
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) { write(summary_event(step, scalars)); }

// A record: length, its checksum, the event, its checksum. It goes out whole: what a crash cuts off is the last record.
void EventFile::write(const std::string& event) {
  std::string record;
  add_word(record, static_cast<std::uint64_t>(event.size()));
  add_word(record, masked_checksum(record));
  record += event;
  add_word(record, masked_checksum(event));
  file_.append(record);
}

}  // namespace lockstep::train
