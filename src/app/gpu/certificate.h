#pragma once

// What `lockstep doctor --device cuda` has found of a GPU's kernels, kept for the user's later runs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"

namespace lockstep::app {

/// What a certificate is for; it does not count for another GPU, driver or kernel.
struct GpuKernels {
  std::string gpu, driver;  ///< cuda::facts_of_gpu()
  std::string hash;         ///< ops::cuda::kernels_hash()
  friend bool operator==(const GpuKernels&, const GpuKernels&) = default;
};
/// The kernels of the GPU that choose_device() deals out for this number. There must be one.
GpuKernels kernels_of_gpu(int number);

struct GpuCertificate {
  GpuKernels of;
  std::string date;  ///< "2026-11-27"
  std::int64_t trials = 0;
  std::vector<std::string> wrong;  ///< the trials in which the processor's kernels made something else: "reduce, all (fp32)"
};

/// Where the certificate of these kernels lies, in the user's cache ($XDG_CACHE_HOME, or ~/.cache). Throws UserError where
/// neither is set.
io::Path certificate_file(const GpuKernels& of);
void write_certificate(const GpuCertificate& certificate);
/// The certificate of these kernels; nothing where there is none, or it cannot be read.
std::optional<GpuCertificate> find_certificate(const GpuKernels& of);

/// How a start line goes on behind the GPU's name. Throws UserError where the certificate names kernels that are wrong.
std::string note_on(const std::optional<GpuCertificate>& certificate);
std::string note_on_gpu(int number);
/// Whether there is a GPU of this number, whose certificate names no wrong kernel.
bool has_certified_gpu(int number);

}  // namespace lockstep::app
