#include "app/manifest.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "app/build_info.h"
#include "ops/ops.h"

namespace lockstep::app {
namespace {

// What a command prints, or nothing when it fails.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), count);
  if (pclose(pipe) != 0) return std::nullopt;
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The value of the first line "NAME<blanks>: VALUE" of a file of /proc; empty when there is none.
std::string field_of(const char* file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(name, 0) == 0 && colon != std::string::npos) return line.substr(std::min(colon + 2, line.size()));
  }
  return "";
}

Json host() {
  utsname system{};
  uname(&system);
  Json::Array isas;
  for (const ops::Isa isa : ops::available_isas()) isas.emplace_back(ops::name_of(isa));
  Json out;
  out.set("name", std::string(system.nodename));
  out.set("system", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  out.set("cpu", field_of("/proc/cpuinfo", "model name"));
  out.set("cores", static_cast<std::int64_t>(std::thread::hardware_concurrency()));
  out.set("memory", field_of("/proc/meminfo", "MemTotal"));
  out.set("instruction_sets", std::move(isas));
  return out;
}

Json program() {
  Json out;
  out.set("version", kVersion);
  out.set("compiler", kCompiler);
  out.set("build_type", kBuildType);
  out.set("flags", kFlags);
  return out;
}

// Variables that hold passwords by their names: a run folder gets shared.
bool is_secret(const std::string& name) {
  for (const char* part : {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

Json environment() {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) lines.emplace_back(*entry);
  std::sort(lines.begin(), lines.end());
  Json out{Json::Object{}};
  for (const std::string& line : lines) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    out.set(name, is_secret(name) ? std::string("(hidden)") : line.substr(equals + 1));
  }
  return out;
}

}  // namespace

Json source_state(const std::string& folder) {
  const std::string git = "git -C " + quoted(folder) + " ";
  const auto commit = output_of(git + "rev-parse HEAD");
  const auto diff = output_of(git + "diff HEAD");
  if (!commit || !diff) return {};
  Json out;
  out.set("commit", trimmed(*commit));
  out.set("uncommitted", *diff);
  return out;
}

Json environment_manifest(const std::vector<std::string>& command_line) {
  Json::Array words(command_line.begin(), command_line.end());
  Json libraries{Json::Object{}};
  for (const Library& library : kLibraries) libraries.set(std::string(library.name), library.version);
  Json out;
  out.set("program", program());
  out.set("command_line", std::move(words));
  out.set("time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now())));
  out.set("host", host());
  out.set("libraries", std::move(libraries));
  out.set("source", source_state("."));
  out.set("environment", environment());
  return out;
}

}  // namespace lockstep::app
