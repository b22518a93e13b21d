// What the environment says about a test_dist run.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/number_text.h"
#include "lab/test_dist.h"

namespace lockstep::lab {
namespace {

using Variable = std::function<const char*(const char*)>;

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t most) {
  const auto value = number_from<std::int64_t>(text);
  return value && *value >= 1 && *value <= most ? value : std::nullopt;
}

class VariableReader {
 public:
  explicit VariableReader(const Variable& variable) : variable_(variable) {}

  void number(const char* name, std::int64_t& target, std::int64_t most) {
    const char* text = variable_(name);
    if (text == nullptr) return;
    if (const auto value = number_in(text, most)) {
      target = *value;
    } else {
      wrong(name, text, fmt::format("must be a whole number from 1 to {}", most), std::to_string(target));
    }
  }

  // "1024,512,256,128"; empty: no layer between.
  void widths(const char* name, std::vector<std::int64_t>& target, std::int64_t most) {
    const char* text = variable_(name);
    if (text == nullptr) return;
    std::vector<std::int64_t> values;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const auto value = number_in(rest.substr(0, comma), most);
      if (!value || comma + 1 == rest.size()) {
        return wrong(name, text, fmt::format("must be whole numbers from 1 to {} with commas between", most), "1024,512,256,128");
      }
      values.push_back(*value);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    target = values;
  }

  void one_of(const char* name, std::initializer_list<std::string_view> allowed, std::string_view why) {
    const char* text = variable_(name);
    if (text == nullptr) return;
    for (const std::string_view value : allowed) {
      if (value == text) return;
    }
    wrong(name, text, std::string(why), std::string(*allowed.begin()));
  }

  void wrong(std::string_view name, std::string_view text, const std::string& rule, const std::string& remedy) {
    problems_.push_back({fmt::format("{}={}: {}", name, text, rule), fmt::format("{}={}, or leave it unset", name, remedy)});
  }

  void finish() {
    if (!problems_.empty()) throw UserError(std::move(problems_));
  }

 private:
  const Variable& variable_;
  std::vector<Problem> problems_;
};

}  // namespace

TestDistOptions test_dist_options(const Variable& variable) {
  constexpr std::int64_t widest = 1 << 14;
  TestDistOptions options;
  VariableReader reader(variable);
  reader.number("BATCH_SIZE", options.batch, widest);
  reader.number("INPUT_SIZE", options.input, widest);
  reader.number("OUTPUT_SIZE", options.output, widest);
  for (const char* name : {"LAYERS", "SIZES", "LAYER_SIZES"}) reader.widths(name, options.layers, widest);
  reader.number("TRAIN_ITERS", options.iterations, 1'000'000);
  reader.number("LOG_FREQ", options.log_every, 1'000'000);
  std::int64_t port = 29500;
  reader.number("MASTER_PORT", port, 65535);
  reader.one_of("DTYPE", {"float32", "fp32", "f32"}, "test_dist computes in float32");
  reader.one_of("BACKEND", {"DDP", "ddp"}, "test_dist averages gradients (DDP) and knows no other way");
  if (options.input != options.output) {
    reader.wrong("OUTPUT_SIZE", std::to_string(options.output),
                 fmt::format("the network learns to give back its input, so it must be INPUT_SIZE = {}", options.input),
                 std::to_string(options.input));
  }
  reader.finish();
  return options;
}

}  // namespace lockstep::lab
