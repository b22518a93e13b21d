#include "arch/huggingface/known_keys.h"

#include <array>

namespace lockstep::arch::huggingface {
namespace {

constexpr auto common_only = std::to_array<OnlyValue>({
    {"quantization_config", "null", "the weights are quantised; give the model before that"},
    {"auto_map", "null",
     "the model has code of its own (leave the key out where transformers reads it without trust_remote_code)"},
    {"is_encoder_decoder", "false", "a decoder that reads an encoder"},
    {"add_cross_attention", "false", "a decoder that reads an encoder"},
    {"tie_encoder_decoder", "false", "a decoder that reads an encoder"},
    {"cross_attention_hidden_size", "null", "a decoder that reads an encoder"},
    {"is_causal", "true", "attention to tokens that come later"},
    {"pruned_heads", "{}", "heads that were taken out"},
    {"per_layer_config", "{}", "layers that are not alike"},
});
constexpr auto common_harmless = std::to_array<std::string_view>({
    // Names and versions.
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "model_type",
    "architectures",
    "transformers_version",
    "transformers.js_config",
    "unsloth_version",
    "unsloth_fixed",
    "finetuning_task",
    "task_specific_params",
    "tokenizer_class",
    "prefix",
    "model_max_length",
    "tokenizer_model_max_length",
    "tokenizer_padding_side",
    // Tokens; eos_token_id is read.
    "bos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    // How a program holds, runs and trains it. The tensors say their types themselves.
    "initializer_range",
    "gradient_checkpointing",
    "use_bfloat16",
    "torchscript",
    "use_cache",
    "is_decoder",
    "chunk_size_feed_forward",
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "experts_implementation",
    "_experts_implementation",
    // What a call returns, and heads for other tasks.
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "return_dict",
    "tie_last_hidden_states",
    "num_labels",
    "_num_labels",
    "id2label",
    "label2id",
    "problem_type",
    "classifier_dropout",
});

constexpr auto gpt2_classes = std::to_array<std::string_view>({"GPT2LMHeadModel", "GPT2Model"});
constexpr auto gpt2_only = std::to_array<OnlyValue>({
    {"scale_attn_weights", "true", "scores that are not scaled"},
    {"scale_attn_by_inverse_layer_idx", "false", "scores that are scaled by the layer"},
    {"n_special", "0", "tokens beside the vocabulary"},
});
constexpr auto gpt2_harmless = std::to_array<std::string_view>({
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "predict_special_tokens",
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_proj_to_labels",
    "summary_first_dropout",
    // The same scores, scaled before instead of behind the product.
    "reorder_and_upcast_attn",
});

constexpr auto llama_classes = std::to_array<std::string_view>({"LlamaForCausalLM"});
constexpr auto llama_only = std::to_array<OnlyValue>({
    {"partial_rotary_factor", "1", "rotary positions of a part of each head"},
    {"rope_interleaved", "false", "rotary positions of neighbouring features"},
    {"sliding_window", "null", "attention in a sliding window"},
    {"use_sliding_window", "false", "attention in a sliding window"},
});
constexpr auto llama_harmless = std::to_array<std::string_view>({
    "attention_dropout",
    "is_llama_config",
    "max_sequence_length",
    // Into so many products older versions cut one; transformers 5 does not read it.
    "pretraining_tp",
});

constexpr auto qwen2_classes = std::to_array<std::string_view>({"Qwen2ForCausalLM"});
constexpr auto qwen3_classes = std::to_array<std::string_view>({"Qwen3ForCausalLM"});
constexpr auto mistral_classes = std::to_array<std::string_view>({"MistralForCausalLM"});
constexpr auto phi3_classes = std::to_array<std::string_view>({"Phi3ForCausalLM"});
constexpr auto unbiased_only = std::to_array<OnlyValue>({
    {"partial_rotary_factor", "1", "rotary positions of a part of each head"},
    {"rope_interleaved", "false", "rotary positions of neighbouring features"},
    {"use_mrope", "false", "positions of several axes"},
    {"attention_bias", "false", "biases of queries, keys, values and what comes out"},
});
constexpr auto attention_harmless = std::to_array<std::string_view>({"attention_dropout"});
// Without a longer context there is nothing that its first one belongs to; with one it is read.
constexpr auto phi3_harmless =
    std::to_array<std::string_view>({"attention_dropout", "resid_pdrop", "embd_pdrop", "original_max_position_embeddings"});
constexpr auto smollm3_classes = std::to_array<std::string_view>({"SmolLM3ForCausalLM"});
constexpr auto smollm3_harmless = std::to_array<std::string_view>({"attention_dropout", "max_window_layers", "pretraining_tp"});

constexpr auto gemma_classes = std::to_array<std::string_view>({"GemmaForCausalLM"});
constexpr auto gemma2_classes = std::to_array<std::string_view>({"Gemma2ForCausalLM"});
constexpr auto gemma3_classes = std::to_array<std::string_view>({"Gemma3ForCausalLM"});
constexpr auto gemma_only = std::to_array<OnlyValue>({
    {"partial_rotary_factor", "1", "rotary positions of a part of each head"},
    {"attention_bias", "false", "biases of queries, keys, values and what comes out"},
    {"use_bidirectional_attention", "false", "attention to tokens that come later"},
});
// transformers writes the underscored one and does not read it: "layer_types" is beside it. "hidden_activation" is what counts.
constexpr auto gemma3_harmless =
    std::to_array<std::string_view>({"attention_dropout", "cache_implementation", "_sliding_window_pattern", "hidden_act"});

constexpr auto olmo2_classes = std::to_array<std::string_view>({"Olmo2ForCausalLM"});
constexpr auto granite_classes = std::to_array<std::string_view>({"GraniteForCausalLM"});

constexpr auto rasbt_harmless = std::to_array<std::string_view>({"drop_rate"});

constexpr auto rope_only = std::to_array<OnlyValue>({
    {"partial_rotary_factor", "1", "rotary positions of a part of each head"},
});
// Without a scaling there is nothing that it belongs to; with one it is read.
constexpr auto rope_harmless = std::to_array<std::string_view>({"original_max_position_embeddings"});

}  // namespace

KnownKeys common_keys() { return {{}, common_only, common_harmless}; }

KnownKeys keys_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return {gpt2_classes, gpt2_only, gpt2_harmless};
    case Family::llama:
      return {llama_classes, llama_only, llama_harmless};
    case Family::mistral:
      return {mistral_classes, unbiased_only, attention_harmless};
    case Family::phi3:
      return {phi3_classes, unbiased_only, phi3_harmless};
    case Family::qwen2:
      return {qwen2_classes, unbiased_only, attention_harmless};
    case Family::qwen3:
      return {qwen3_classes, unbiased_only, attention_harmless};
    case Family::smollm3:
      return {smollm3_classes, llama_only, smollm3_harmless};
    case Family::gemma:
      return {gemma_classes, gemma_only, attention_harmless};
    case Family::gemma2:
      return {gemma2_classes, gemma_only, gemma3_harmless};
    case Family::gemma3:
      return {gemma3_classes, gemma_only, gemma3_harmless};
    case Family::olmo2:
      return {olmo2_classes, unbiased_only, attention_harmless};
    case Family::granite:
      return {granite_classes, llama_only, attention_harmless};
    case Family::rasbt:
    case Family::rasbt_fused:
      return {{}, {}, rasbt_harmless};
  }
  throw BrokenRule("every family has its keys");
}

KnownKeys rope_keys() { return {{}, rope_only, rope_harmless}; }

}  // namespace lockstep::arch::huggingface
