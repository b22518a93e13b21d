#include "app/gpu/certificate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/text/lower.h"
#include "device/choose_device.h"
#include "device/cuda/cuda_runtime.h"
#include "ops/cuda/backend.h"

namespace lockstep::app {
namespace {

std::string cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return cache;
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache";
  throw UserError("a certificate lies in the user's cache, and neither XDG_CACHE_HOME nor HOME is set",
                  "HOME=FOLDER lockstep ...");
}

GpuCertificate certificate_from(const Json& json) {
  GpuCertificate certificate{.of = {json.at("gpu").string(), json.at("driver").string(), json.at("kernels").string()},
                             .date = json.at("date").string(),
                             .trials = json.at("trials").integer(),
                             .wrong = {}};
  for (const Json& each : json.at("wrong").array()) certificate.wrong.push_back(each.string());
  return certificate;
}

}  // namespace

GpuKernels kernels_of_gpu(int number) {
  cuda::GpuFacts names = cuda::facts_of_gpu(choose_device("cuda", number).index);
  return {std::move(names.gpu), std::move(names.driver), std::string(ops::cuda::kernels_hash())};
}

io::Path certificate_file(const GpuKernels& of) {
  std::string name = lower(of.gpu);
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
  return io::Path(cache_folder()) / "lockstep/gpu" / fmt::format("{}-{}-{}.json", name, of.driver, of.hash);
}

void write_certificate(const GpuCertificate& certificate) {
  const io::Path file = certificate_file(certificate.of);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  const Json json{Json::Object{{"gpu", certificate.of.gpu},
                               {"driver", certificate.of.driver},
                               {"kernels", certificate.of.hash},
                               {"date", certificate.date},
                               {"trials", certificate.trials},
                               {"wrong", Json::Array(certificate.wrong.begin(), certificate.wrong.end())}}};
  io::replace_file(file, json.dump() + "\n");
}

std::optional<GpuCertificate> find_certificate(const GpuKernels& of) {
  try {
    const io::Path file = certificate_file(of);
    if (!std::filesystem::exists(std::filesystem::path(file))) return {};
    GpuCertificate certificate = certificate_from(Json::parse(io::read_file(file)));
    if (certificate.of == of) return certificate;
    return {};
  } catch (const std::exception&) {  // what cannot be read shows nothing
    return {};
  }
}

std::string note_on(const std::optional<GpuCertificate>& certificate) {
  if (!certificate) return ", whose kernels nobody has tried yet on this GPU (lockstep doctor --device cuda does)";
  if (certificate->wrong.empty())
    return fmt::format(", whose kernels agreed with the processor's in {} trials on {}", certificate->trials, certificate->date);
  throw UserError(fmt::format("train.device=cuda: on this GPU ({}, driver {}) {} of {} trials on {} found a kernel wrong: {}",
                              certificate->of.gpu, certificate->of.driver, certificate->wrong.size(), certificate->trials,
                              certificate->date, fmt::join(certificate->wrong, "; ")),
                  "train.device=cpu computes on the processor; lockstep doctor --device cuda tries again");
}

std::string note_on_gpu(int number) { return note_on(find_certificate(kernels_of_gpu(number))); }

bool has_certified_gpu(int number) {
  if (cuda::device_count() == 0) return false;
  const std::optional<GpuCertificate> certificate = find_certificate(kernels_of_gpu(number));
  return certificate && certificate->wrong.empty();
}

}  // namespace lockstep::app
