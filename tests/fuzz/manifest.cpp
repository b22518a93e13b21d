// Manifests of checkpoints whose checksum is right, whatever they say, and the model that follows from one.

#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <string>

#include "arch/config_json.h"
#include "arch/parameters.h"
#include "fuzz/target.h"
#include "io/checksum.h"

namespace lockstep::fuzz {
namespace {

std::string sealed(std::string_view text) {
  constexpr std::string_view seal = ",\n  \"checksum\": \"";
  const std::string body(text.substr(0, text.rfind(seal)));
  return fmt::format("{}{}{:016x}\"\n}}\n", body, seal, io::checksum(std::as_bytes(std::span(body)), 1, 0));
}

}  // namespace

void read(std::span<const std::byte> input) {
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(sealed(text_of(input)), "input");
  ensure(manifest.step >= 0 && manifest.next_sample >= 0 && manifest.global_batch >= 0, "counts are counts");
  const std::string text = checkpoint::manifest_text(manifest);
  ensure(checkpoint::manifest_text(checkpoint::parse_manifest(text, "again")) == text, "a manifest survives its file");
  manifest.bytes();
  for (const checkpoint::StoredTensor& stored : manifest.tensors)
    ensure(stored.tensor.shape.elements() >= 0, "a shape has a size");
  const arch::ModelConfig model = arch::model_from_json(manifest.model, "input");
  if (model.layers > 16) return;  // more of the same
  ensure(arch::count_parameters(model, arch::DecayRule::all).decayed > 0, "a model has parameters");
}

}  // namespace lockstep::fuzz
