#include "app/folder/manifest.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <fstream>
#include <thread>

#include "app/cli/build_info.h"
#include "app/cli/commit.h"
#include "base/units.h"
#include "io/free_memory.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

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
  const std::optional<std::int64_t> bytes = io::memory_of_machine();
  out.set("memory", bytes ? format_bytes(static_cast<std::uint64_t>(*bytes)) : "unknown");
  out.set("instruction_sets", std::move(isas));
  return out;
}

Json program() {
  Json out;
  out.set("version", kVersion);
  out.set("commit", built_commit());
  out.set("dirty", built_dirty());
  out.set("compiler", kCompiler);
  out.set("build_type", kBuildType);
  out.set("flags", kFlags);
  return out;
}

// What may change a run, or says where it ran. A run folder gets shared, and a variable may hold anything: others are left out.
bool is_listed(std::string_view name) {
  constexpr std::array<std::string_view, 23> beginnings{
      "LOCKSTEP_", "OMPI_", "PMIX_",   "PMI_",  "PRTE_",   "SLURM_", "PBS_", "OMP_", "KMP_",   "GOMP_",   "MKL_", "OPENBLAS_",
      "BLIS_",     "DNNL_", "ONEDNN_", "CUDA_", "NVIDIA_", "NCCL_",  "UCX_", "FI_",  "HWLOC_", "MALLOC_", "LC_"};
  constexpr std::array<std::string_view, 21> names{
      "PATH",        "LD_LIBRARY_PATH", "LD_PRELOAD",         "GLIBC_TUNABLES", "HOSTNAME", "HOSTFILE",   "NGPU_PER_HOST",
      "NHOSTS",      "NGPUS",           "DIST_LAUNCH",        "JOBENV_FILE",    "RANK",     "WORLD_SIZE", "LOCAL_RANK",
      "MASTER_ADDR", "MASTER_PORT",     "LOG_FROM_ALL_RANKS", "LANG",           "TZ",       "TMPDIR",     "PWD"};
  return std::ranges::find(names, name) != names.end() ||
         std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

// Listed variables that hold what opens doors.
bool is_secret(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const char* part : {"TOKEN", "SECRET", "PASS", "CREDENTIAL", "KEY", "JWT", "AUTH", "COOKIE", "PRECONDITION_TRANSPORTS"}) {
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
    if (is_listed(name))
      out.set(name, !may_be_kept(name) ? std::string("(hidden)") : without_credentials(line.substr(equals + 1)));
  }
  return out;
}

}  // namespace

std::string program_version() {
  return fmt::format("lockstep {} (commit {}{})", kVersion, built_commit(), built_dirty() ? ", dirty" : "");
}

bool may_be_kept(const std::string& name) { return is_listed(name) && !is_secret(name); }

std::string without_credentials(const std::string& text) {
  constexpr std::string_view scheme = "://", blanks = " \t\n\"'";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find(scheme, at);
    if (found == std::string::npos) return out + text.substr(at);
    const std::size_t host = found + scheme.size();
    out += text.substr(at, host - at);
    const std::size_t end = std::min(text.find_first_of(blanks, host), text.size());
    const std::string url = text.substr(host, end - host);
    const std::size_t host_end = std::min(url.find_first_of("/?#"), url.size());
    const std::size_t user_end = url.rfind('@', host_end);
    const std::size_t begin = user_end == std::string::npos ? 0 : user_end + 1;
    out += url.substr(begin, std::min(url.find_first_of("?#"), url.size()) - begin);
    at = end;
  }
  return out;
}

Json environment_manifest(const std::vector<std::string>& command_line) {
  Json::Array words;
  for (const std::string& word : command_line) words.emplace_back(without_credentials(word));
  Json libraries{Json::Object{}};
  for (const Library& library : kLibraries) libraries.set(std::string(library.name), library.version);
  Json out;
  out.set("program", program());
  out.set("command_line", std::move(words));
  out.set("time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now())));
  out.set("host", host());
  out.set("libraries", std::move(libraries));
  out.set("environment", environment());
  return out;
}

}  // namespace lockstep::app
