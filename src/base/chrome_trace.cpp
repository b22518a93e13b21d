#include "base/chrome_trace.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace lockstep {
namespace {

constexpr double kMicro = 1e6;

// Nanoseconds are what clocks here can tell.
Json micro(double seconds) { return Json(std::round(seconds * kMicro * 1e3) / 1e3); }

}  // namespace

void ChromeTrace::add(const std::string& events) {
  if (!events_.empty() && !events.empty()) events_ += ",\n";
  events_ += events;
}

void ChromeTrace::add(Json::Object event) { add(Json(std::move(event)).dump()); }

void ChromeTrace::name_process(int process, std::string_view name) {
  add({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", Json(Json::Object{{"name", name}})}});
  add({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", process}, {"args", Json(Json::Object{{"sort_index", process}})}});
}

void ChromeTrace::name_row(const Row& row, std::string_view name) {
  add({{"name", "thread_name"},
       {"ph", "M"},
       {"pid", row.process},
       {"tid", row.row},
       {"args", Json(Json::Object{{"name", name}})}});
  add({{"name", "thread_sort_index"},
       {"ph", "M"},
       {"pid", row.process},
       {"tid", row.row},
       {"args", Json(Json::Object{{"sort_index", row.row}})}});
}

void ChromeTrace::span(const Row& row, std::string_view category, std::string_view name, double start, double end,
                       Json::Object details) {
  Json::Object event{{"name", name},       {"cat", category},          {"ph", "X"}, {"pid", row.process}, {"tid", row.row},
                     {"ts", micro(start)}, {"dur", micro(end - start)}};
  if (!details.empty()) event.emplace_back("args", Json(std::move(details)));
  add(std::move(event));
}

void ChromeTrace::counter(int process, std::string_view name, std::string_view of, double seconds, double value) {
  add({{"name", name},
       {"ph", "C"},
       {"pid", process},
       {"ts", micro(seconds)},
       {"args", Json(Json::Object{{std::string(of), value}})}});
}

std::string ChromeTrace::text(const Json& about) const {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n", about.dump(), events_);
}

}  // namespace lockstep
