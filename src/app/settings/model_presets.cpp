#include "app/settings/model_presets.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::settings {
namespace {

using Assignments = std::vector<std::string>;

struct Gpt2 {
  std::string_view name;
  int layers, heads, width, block_size, batch_size;
  double dropout;
};

constexpr Gpt2 gpt2_sizes[] = {
    {"default", 12, 12, 768, 1024, 12, 0},     {"shakespeare", 6, 6, 384, 256, 64, 0.2}, {"gpt2", 12, 12, 768, 1024, 12, 0},
    {"gpt2_medium", 24, 16, 1024, 1024, 4, 0}, {"gpt2_large", 36, 20, 1280, 1024, 4, 0}, {"gpt2_xl", 48, 25, 1600, 1024, 1, 0},
};

Assignments gpt2(const Gpt2& size) {
  return {fmt::format("model.n_layer={}", size.layers),
          fmt::format("model.n_head={}", size.heads),
          fmt::format("model.n_embd={}", size.width),
          fmt::format("model.batch_size={}", size.batch_size),
          fmt::format("model.block_size={}", size.block_size),
          fmt::format("model.dropout={}", size.dropout),
          "model.vocab_size=null",
          "model.n_kv_head=null",
          "model.head_dim=null",
          "model.ffn_width=null",
          "model.norm=layernorm",
          "model.norm_eps=1e-5",
          "model.position=learned",
          "model.activation=gelu",
          "model.bias=false",
          "model.qkv_bias=null",
          "model.qk_norm=false",
          "model.tied=true"};
}

// The GPT-2 of Sebastian Raschka's "Build a Large Language Model (From Scratch)".
Assignments rasbt() {
  Assignments all = gpt2({"rasbt", 12, 12, 768, 1024, 8, 0.1});
  for (const char* one :
       {"model.bias=true", "model.qkv_bias=false", "model.tied=false", "model.activation=gelu_tanh", "model.init=pytorch"}) {
    all.emplace_back(one);
  }
  return all;
}

// GPT-3 (Brown et al. 2020, table 2.1), its vocabulary rounded up so that tensor ranks have the same part of it (Narayanan et al.
// 2021).
Assignments gpt3() {
  Assignments all = gpt2({"gpt3_175B", 96, 96, 12288, 2048, 1, 0});
  for (const char* one : {"model.bias=true", "model.vocab_size=51200", "model.activation=gelu_tanh"}) all.emplace_back(one);
  return all;
}

struct Llama {
  std::string_view name;
  int layers, heads, kv_heads, width, ffn_width, block_size;
  std::string_view vocabulary, theta, eps;
  bool qkv_bias, tied;
  bool qk_norm = false;  ///< with heads of 128
};

// The first two have the sizes of WordPlay's presets of these names, with the parts of Llama 2. The others are as their
// config.json has them (Llama 3.2 1B and 3B without their stretched rotation, Mistral 7B v0.3).
constexpr Llama llama_sizes[] = {
    {"llama2B", 10, 32, 32, 4096, 11008, 1024, "null", "10000", "1e-5", false, false},
    {"llama7B", 32, 32, 32, 4096, 11008, 1024, "null", "10000", "1e-5", false, false},
    {"llama3_8B", 32, 32, 8, 4096, 14336, 8192, "128256", "500000", "1e-5", false, false},
    {"llama3_1B", 16, 32, 8, 2048, 8192, 8192, "128256", "500000", "1e-5", false, true},
    {"llama3_3B", 28, 24, 8, 3072, 8192, 8192, "128256", "500000", "1e-5", false, true},
    {"llama3_70B", 80, 64, 8, 8192, 28672, 8192, "128256", "500000", "1e-5", false, false},
    {"llama3_405B", 126, 128, 8, 16384, 53248, 8192, "128256", "500000", "1e-5", false, false},
    {"mistral_7B", 32, 32, 8, 4096, 14336, 32768, "32768", "1000000", "1e-5", false, false},
    {"qwen2_7B", 28, 28, 4, 3584, 18944, 32768, "152064", "1000000", "1e-6", true, false},
    {"qwen2_0.5B", 24, 14, 2, 896, 4864, 32768, "151936", "1000000", "1e-6", true, true},
    {"qwen3_0.6B", 28, 16, 8, 1024, 3072, 32768, "151936", "1000000", "1e-6", false, true, true},
    {"qwen3_4B", 36, 32, 8, 2560, 9728, 32768, "151936", "1000000", "1e-6", false, true, true},
    {"qwen3_8B", 36, 32, 8, 4096, 12288, 32768, "151936", "1000000", "1e-6", false, false, true},
    {"qwen3_32B", 64, 64, 8, 5120, 25600, 32768, "151936", "1000000", "1e-6", false, false, true},
};

Assignments llama(const Llama& size) {
  return {fmt::format("model.n_layer={}", size.layers),
          fmt::format("model.n_head={}", size.heads),
          fmt::format("model.n_kv_head={}", size.kv_heads),
          fmt::format("model.n_embd={}", size.width),
          fmt::format("model.ffn_width={}", size.ffn_width),
          fmt::format("model.block_size={}", size.block_size),
          fmt::format("model.vocab_size={}", size.vocabulary),
          fmt::format("model.rope_theta={}", size.theta),
          fmt::format("model.norm_eps={}", size.eps),
          fmt::format("model.qkv_bias={}", size.qkv_bias),
          fmt::format("model.tied={}", size.tied),
          fmt::format("model.qk_norm={}", size.qk_norm),
          fmt::format("model.head_dim={}", size.qk_norm ? "128" : "null"),
          "model.batch_size=1",
          "model.norm=rmsnorm",
          "model.position=rope",
          "model.rope_scaling=none",
          "model.activation=swiglu",
          "model.bias=false",
          "model.dropout=0"};
}

// Gemma 3's text models as their config.json has them.
struct Gemma {
  std::string_view name;
  int layers, width, ffn_width;
};
constexpr Gemma gemma_sizes[] = {{"gemma3_270M", 18, 640, 2048}, {"gemma3_1B", 26, 1152, 6912}};

Assignments gemma(const Gemma& size) {
  Assignments all =
      llama({size.name, size.layers, 4, 1, size.width, size.ffn_width, 32768, "262144", "1000000", "1e-6", false, true, true});
  all.push_back(fmt::format("model.embedding_scale={}", std::sqrt(size.width)));
  for (const char* one : {"model.head_dim=256", "model.activation=geglu", "model.post_norm=true", "model.norm_unit_offset=true",
                          "model.window=512", "model.global_every=6", "model.rope_local_theta=10000"}) {
    all.emplace_back(one);
  }
  return all;
}

}  // namespace

std::vector<Preset> model_presets() {
  std::vector<Preset> all = {{"model", "rasbt", rasbt()}, {"model", "gpt3_175B", gpt3()}};
  for (const Gpt2& size : gpt2_sizes) all.push_back({"model", std::string(size.name), gpt2(size)});
  for (const Llama& size : llama_sizes) all.push_back({"model", std::string(size.name), llama(size)});
  for (const Gemma& size : gemma_sizes) all.push_back({"model", std::string(size.name), gemma(size)});
  return all;
}

}  // namespace lockstep::settings
