#include "arch/huggingface/generation_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "arch/huggingface/fields.h"

namespace lockstep::arch::huggingface {
namespace {

/// What changes a text, and is done here with one value alone.
constexpr auto only = std::to_array<OnlyValue>({
    {"repetition_penalty", "1", ""},
    {"encoder_repetition_penalty", "1", ""},
    {"no_repeat_ngram_size", "0", ""},
    {"encoder_no_repeat_ngram_size", "0", ""},
    {"num_beams", "1", ""},
    {"num_beam_groups", "1", ""},
    {"diversity_penalty", "0", ""},
    {"penalty_alpha", "0", ""},
    {"min_length", "0", ""},
    {"min_new_tokens", "0", ""},
    {"min_p", "0", ""},
    {"top_h", "null", ""},
    {"typical_p", "1", ""},
    {"epsilon_cutoff", "0", ""},
    {"eta_cutoff", "0", ""},
    {"bad_words_ids", "[]", ""},
    {"force_words_ids", "[]", ""},
    {"constraints", "[]", ""},
    {"forced_bos_token_id", "null", ""},
    {"forced_eos_token_id", "null", ""},
    {"begin_suppress_tokens", "[]", ""},
    {"exponential_decay_length_penalty", "null", ""},
    {"sequence_bias", "{}", ""},
    {"guidance_scale", "1", ""},
    {"watermarking_config", "null", ""},
    {"dola_layers", "null", ""},
    {"token_healing", "false", ""},
    {"max_time", "null", ""},
});
constexpr auto read = std::to_array<std::string_view>(
    {"eos_token_id", "do_sample", "temperature", "top_k", "top_p", "suppress_tokens", "stop_strings"});
constexpr auto harmless = std::to_array<std::string_view>({
    // Names and versions; tokens that nothing is written with.
    "_from_model_config",
    "transformers_version",
    "_commit_hash",
    "trust_remote_code",
    "bos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    // How long a text is at most the user says.
    "max_length",
    "max_new_tokens",
    "num_return_sequences",
    // They concern beam search, which there is none of.
    "early_stopping",
    "length_penalty",
    // How fast and in which memory; what a call returns; repairs of what is never drawn here.
    "use_cache",
    "cache_implementation",
    "cache_config",
    "max_cache_len",
    "prefill_chunk_size",
    "low_memory",
    "compile_config",
    "disable_compile",
    "continuous_batching_config",
    "use_mtp",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "assistant_ensemble_weight",
    "target_lookbehind",
    "speculation_type",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "remove_invalid_values",
    "renormalize_logits",
});

constexpr auto all_keys = [] {
  std::array<std::string_view, only.size() + read.size() + harmless.size()> all{};
  std::size_t n = 0;
  for (const OnlyValue& row : only) all[n++] = row.key;
  for (const std::string_view key : read) all[n++] = key;
  for (const std::string_view key : harmless) all[n++] = key;
  return all;
}();

/// With "do_sample" what is not said is transformers' default (GenerationConfig._get_default_generation_params).
void read_sampling(Fields& fields, Generation& generation) {
  const auto number = [&](std::string_view key, bool (*holds)(double), std::string_view rule) -> std::optional<double> {
    const Json* value = fields.present(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number() && holds(value->number())) return value->number();
    fields.wrong(key, *value, rule);
    return std::nullopt;
  };
  const bool said = fields.present("do_sample") != nullptr, samples = fields.flag("do_sample", false);
  generation.temperature = number("temperature", [](double t) { return t >= 0 && std::isfinite(t); }, "a number of at least 0");
  generation.top_p = number("top_p", [](double p) { return p > 0 && p <= 1; }, "a number in (0, 1]");
  const auto top_k =
      number("top_k", [](double k) { return k >= 0 && k <= 1e9 && k == std::floor(k); }, "a whole number of at least 0");
  if (top_k) generation.top_k = static_cast<std::int64_t>(*top_k);
  if (!said) return;
  if (!samples) {
    generation.temperature = 0;
    return;
  }
  generation.temperature = generation.temperature.value_or(1);
  generation.top_k = generation.top_k.value_or(50);
  generation.top_p = generation.top_p.value_or(1);
}

}  // namespace

Generation generation_from_json(const Json& json, std::string_view what) {
  if (!json.is_object())
    throw UserError(fmt::format("{}: this is no JSON object", what), "take the file that the weights were published with");
  Fields fields(json, what);
  Generation generation;
  generation.ends = fields.numbers("eos_token_id");
  read_sampling(fields, generation);
  generation.suppressed = fields.numbers("suppress_tokens");
  generation.stops = fields.texts("stop_strings");
  for (const OnlyValue& row : only) {
    if (const Json* value = fields.present(row.key); differs(value, row))
      generation.undone.push_back(fmt::format("{} is {}", row.key, shown(*value)));
  }
  fields.pass(harmless);
  fields.refuse_unknown("leave it out: this version does not do it");
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  return generation;
}

Json generation_in_config(const Json& config) {
  Json said;
  const auto take = [&](std::string_view key) { said.set(std::string(key), *config.find(key)); };
  for (const OnlyValue& row : only) {
    if (const Json* value = config.find(row.key); value != nullptr && !value->is_null() && differs(value, row)) take(row.key);
  }
  for (const std::string_view key : read) {
    if (const Json* value = config.find(key); key != "eos_token_id" && value != nullptr && !value->is_null()) take(key);
  }
  return said;
}

std::vector<std::int64_t> token_ids(const Json& json, std::string_view key, std::string_view what) {
  Fields fields(json, what);
  std::vector<std::int64_t> ids = fields.numbers(key);
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  return ids;
}

std::span<const std::string_view> generation_keys() { return all_keys; }

}  // namespace lockstep::arch::huggingface
