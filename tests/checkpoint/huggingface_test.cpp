// Published models: what is read of them, and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "checkpoint/huggingface/weights.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint::huggingface {
namespace {

namespace fs = std::filesystem;

testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not said in: " << text;
}

void fill(const Weights& weights, std::span<const HeldTensor> tensors, Team& team) {
  const std::unique_ptr<RangeReader> reader = weights.read_model(logical(tensors));
  reader->fill(tensors, team);
  reader->finish(*comm::make_self());
}

class Published : public testing::Test {
 protected:
  /// A copy of a golden model, to be damaged.
  fs::path copy(const std::string& name) {
    const fs::path folder = folder_ / name;
    fs::remove_all(folder);
    fs::copy(fs::path("tests/golden/data/huggingface") / name, folder);
    return folder;
  }
  static void edit(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = io::read_file(file);
    bool found = false;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
      found = true;
    }
    ASSERT_TRUE(found) << from;
    io::replace_file(file, text);
  }
  static std::string refusal(const fs::path& path) {
    try {
      const Weights weights(path);
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) EXPECT_FALSE(problem.message.empty());
      return error.what();
    }
    ADD_FAILURE() << path << " was read";
    return "";
  }
  /// The refusal of a golden model whose config.json says something else.
  std::string refused(const std::string& name, const std::string& from, const std::string& to) {
    const fs::path folder = copy(name);
    edit(folder / "config.json", from, to);
    return refusal(folder);
  }
  TempFolder folder_;
};

TEST_F(Published, IsToldFromOtherFolders) {
  EXPECT_TRUE(is_published("tests/golden/data/huggingface/gpt2"));
  EXPECT_TRUE(is_published("tests/golden/data/huggingface/gpt2/model.safetensors"));
  EXPECT_FALSE(is_published(folder_.path()));
  EXPECT_FALSE(is_published(folder_ / "nothing"));
  const fs::path run = folder_ / "run";
  io::make_folders(run);
  io::replace_file(run / "config.json", "{}");
  EXPECT_TRUE(is_published(run));
  io::replace_file(run / "config.toml", "");
  EXPECT_FALSE(is_published(run)) << "a run has its settings in both";
  const fs::path checkpoint = folder_ / "step_1";
  io::make_folders(checkpoint);
  io::replace_file(checkpoint / "model.safetensors", "");
  EXPECT_TRUE(is_published(checkpoint));
  io::replace_file(checkpoint / "manifest.json", "{}");
  EXPECT_FALSE(is_published(checkpoint));
}

TEST_F(Published, AFileIsReadWithTheConfigBesideIt) {
  const Weights weights("tests/golden/data/huggingface/llama/model.safetensors");
  EXPECT_EQ(weights.config().kv_heads, 2);
  EXPECT_EQ(weights.config().head_size, 10);
  EXPECT_EQ(weights.config().rope.scaling, arch::RopeScaling::llama3);
  EXPECT_EQ(weights.config().rope.original_block_size, 32);
  const fs::path folder = copy("llama");
  fs::rename(folder / "model.safetensors", folder / "small.safetensors");
  EXPECT_EQ(Weights(folder).config(), weights.config()) << "the only one of a folder has any name";
}

TEST_F(Published, AHeadThatDiffersFromATiedEmbeddingIsAHead) {
  const fs::path folder = copy("llama");
  edit(folder / "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  const Weights weights(folder);
  EXPECT_FALSE(weights.config().tied);
  ASSERT_EQ(weights.warnings().size(), 1U);
  EXPECT_TRUE(says(weights.warnings()[0], "\"lm_head.weight\" differ"));
}

TEST_F(Published, AnAdapterBesideTheWeightsIsSaidToBeLeftOut) {
  const fs::path folder = copy("llama");
  io::replace_file(folder / "adapter_config.json", "{}");
  const Weights weights(folder);
  ASSERT_EQ(weights.warnings().size(), 1U);
  EXPECT_TRUE(says(weights.warnings()[0], "--adapter " + folder.string())) << weights.warnings()[0];
}

TEST_F(Published, LearnedPositionsMayBeCropped) {
  const Weights weights("tests/golden/data/huggingface/gpt2");
  Team team(2);
  std::vector<HeldTensor> whole, cropped;
  std::vector<std::vector<float>> memory;
  memory.reserve(100);
  for (auto* list : {&whole, &cropped}) {
    for (const auto& parameter : weights.parameters()) {
      const Shape shape = parameter.positions && list == &cropped ? Shape{5, parameter.shape[1]} : parameter.shape;
      memory.emplace_back(static_cast<std::size_t>(shape.elements()));
      list->push_back(hold_whole(parameter.name, view(std::span(memory.back()), shape)));
    }
  }
  fill(weights, whole, team);
  fill(weights, cropped, team);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto all = elements<float>(whole[i].ranges[0].values), some = elements<float>(cropped[i].ranges[0].values);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << whole[i].tensor.name;
  }
  memory.emplace_back(static_cast<std::size_t>(13 * 24));
  const HeldTensor longer = hold_whole("transformer.wpe.weight", view(std::span(memory.back()), Shape{13, 24}));
  EXPECT_THROW(fill(weights, std::span(&longer, 1), team), UserError);
}

// The columns that a rank of tensor parallelism holds, in either type.
TEST_F(Published, RectanglesAreRead) {
  const Weights weights("tests/golden/data/huggingface/gpt2_untied");
  Team team(2);
  for (const auto& parameter : weights.parameters()) {
    if (parameter.shape.rank() != 2) continue;
    const std::int64_t rows = parameter.shape[0], columns = parameter.shape[1], first = columns / 3, count = columns / 2;
    std::vector<float> whole(static_cast<std::size_t>(rows * columns)), part(static_cast<std::size_t>(rows * count));
    std::vector<std::uint16_t> narrow(part.size());
    const HeldTensor held = hold_whole(parameter.name, view(std::span(whole), parameter.shape));
    fill(weights, std::span(&held, 1), team);
    const HeldTensor range{held.tensor, {{first, view(std::span(part), Shape{rows, count}), columns}}};
    Tensor halves = view(std::span(narrow), Shape{rows, count});
    halves.dtype = DType::bf16;
    const HeldTensor rounded{{parameter.name, parameter.shape, DType::bf16}, {{first, halves, columns}}};
    fill(weights, std::span(&range, 1), team);
    fill(weights, std::span(&rounded, 1), team);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / count, column = first + static_cast<std::int64_t>(i) % count;
      ASSERT_EQ(part[i], whole[static_cast<std::size_t>(row * columns + column)]) << parameter.name;
      ASSERT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(narrow[i]) << 16U), part[i]) << "the file is bf16";
    }
  }
}

// Ranges need not begin at rows, whichever way round the file has them, and bf16 is rounded once.
TEST_F(Published, AnyRangeIsRead) {
  const Weights weights("tests/golden/data/huggingface/gpt2_untied");
  Team team(2);
  for (const auto& parameter : weights.parameters()) {
    std::vector<float> whole(static_cast<std::size_t>(parameter.shape.elements()));
    const HeldTensor held = hold_whole(parameter.name, view(std::span(whole), parameter.shape));
    fill(weights, std::span(&held, 1), team);
    const std::int64_t first = parameter.shape.elements() / 3 + 1, count = parameter.shape.elements() / 2;
    std::vector<float> part(static_cast<std::size_t>(count));
    std::vector<std::uint16_t> narrow(static_cast<std::size_t>(count));
    const HeldTensor range{held.tensor, {{first, view(std::span(part), Shape{count})}}};
    Tensor halves = view(std::span(narrow), Shape{count});
    halves.dtype = DType::bf16;
    const HeldTensor rounded{{parameter.name, parameter.shape, DType::bf16}, {{first, halves}}};
    fill(weights, std::span(&range, 1), team);
    fill(weights, std::span(&rounded, 1), team);
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], whole[i + static_cast<std::size_t>(first)]) << parameter.name;
      ASSERT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(narrow[i]) << 16U), part[i]) << "the file is bf16";
    }
  }
}

TEST_F(Published, UnknownPartsAreNamed) {
  EXPECT_TRUE(
      says(refused("llama", "\"model_type\": \"llama\"", "\"model_type\": \"mamba\""), "architecture \"mamba\" is not known"));
  EXPECT_TRUE(says(refused("llama", "\"rope_type\": \"llama3\"", "\"rope_type\": \"ntk\""), "type \"ntk\" are not known"));
  EXPECT_TRUE(says(refused("llama", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""), "a gate other than silu"));
  EXPECT_TRUE(says(refused("llama", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"xielu\""), "activation \"xielu\""));
  EXPECT_TRUE(says(refused("llama", "\"hidden_act\"", "\"attention_bias\": true, \"hidden_act\""), "\"mlp_bias\" is false"));
  EXPECT_TRUE(says(refused("llama", "\"factor\"", "\"partial_rotary_factor\": 0.5, \"factor\""), "partial_rotary_factor"));
  EXPECT_TRUE(says(refused("llama", "\"hidden_act\"", "\"sliding_window\": 5, \"hidden_act\""), "sliding window"));
  EXPECT_TRUE(
      says(refused("llama", "\"hidden_act\"", "\"layer_types\": [\"sliding_attention\"], \"hidden_act\""), "sliding window"));
  EXPECT_TRUE(
      says(refused("gpt2", "\"n_ctx\"", "\"scale_attn_by_inverse_layer_idx\": true, \"n_ctx\""), "scale_attn_by_inverse"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_ctx\"", "\"scale_attn_weights\": false, \"n_ctx\""), "scale_attn_weights"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_ctx\"", "\"quantization_config\": {\"bits\": 4}, \"n_ctx\""), "quantised"));
}

TEST_F(Published, AConfigThatIsNoneIsRefused) {
  const fs::path folder = copy("llama");
  for (const char* text : {"", "{", "[]", "7", "{}"}) {
    io::replace_file(folder / "config.json", text);
    EXPECT_TRUE(says(refusal(folder), "config.json"));
  }
  EXPECT_TRUE(says(refusal(folder), "\"model_type\""));
  fs::remove(folder / "config.json");
  EXPECT_TRUE(says(refusal(folder), "there is no config.json"));
  EXPECT_TRUE(says(refusal(folder_ / "nowhere"), "there is no such file or folder"));
  EXPECT_TRUE(says(refused("llama", "\"hidden_size\"", "\"hidden_sizes\""), "\"hidden_size\" is missing"));
  EXPECT_TRUE(says(refused("llama", "\"low_freq_factor\"", "\"low\""), "\"rope_scaling.low_freq_factor\" is missing"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_embd\": 24", "\"n_embd\": \"24\""), "\"n_embd\" is \"24\", but must be a whole number"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_embd\": 24", "\"n_embd\": -24"), "from 1 to"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_layer\": 1", "\"n_layer\": 1000000000000"), "from 1 to 4096"));
  EXPECT_TRUE(says(refused("gpt2", "\"n_head\": 3", "\"n_head\": 5"), "5 heads do not divide a width of 24"));
  EXPECT_TRUE(says(refused("llama", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": true"), "a number above 0"));
  EXPECT_TRUE(says(refused("llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"), "does not divide"));
  // All at once.
  const std::string all = refused("gpt2", "\"n_", "\"x_");
  for (const char* key : {"n_positions", "n_embd", "n_layer", "n_head"}) EXPECT_TRUE(says(all, key));
}

TEST_F(Published, TensorsThatAreMissingOrUnknownAreListed) {
  const std::string missing = refused("llama", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
  EXPECT_TRUE(says(missing, "\"model.layers.1.input_layernorm.weight\" [24] is missing"));
  EXPECT_TRUE(says(missing, "\"model.layers.1.self_attn.q_proj.weight\" [60, 24] is missing"));
  EXPECT_TRUE(says(missing, "and 4 more tensors"));
  const std::string unknown = refused("llama_tied", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_TRUE(says(unknown, "\"model.layers.1.input_layernorm.weight\" is none of this model's"));
  EXPECT_TRUE(says(unknown, "more tensors"));
  EXPECT_TRUE(says(refused("llama", "\"intermediate_size\": 40", "\"intermediate_size\": 44"),
                   "\"model.layers.0.mlp.gate_proj.weight\" has the shape [40, 24], but by config.json it is [44, 24]"));
  EXPECT_TRUE(says(refused("gpt2", "\"layer_norm_epsilon\"", "\"tie_word_embeddings\": false, \"layer_norm_epsilon\""),
                   "\"lm_head.weight\" [47, 24] is missing"));
  // Messages tell the names in the file, which a GPT-2 has with or without a prefix.
  EXPECT_TRUE(says(refused("gpt2", ": 12,", ": 16,"), "\"wpe.weight\" has the shape [12, 24]"));
}

TEST_F(Published, OtherTypesAreRefused) {
  const fs::path folder = copy("llama");
  edit(folder / "model.safetensors", "\"dtype\":\"F32\"", "\"dtype\":\"I32\"");
  EXPECT_TRUE(says(refusal(folder), "is of type I32"));
  EXPECT_TRUE(says(refusal(folder), "F32, F16 and BF16"));
}

TEST_F(Published, AnIndexAndItsFilesBelongTogether) {
  const fs::path folder = copy("llama_tied");
  const fs::path index = folder / "model.safetensors.index.json";
  EXPECT_NO_THROW(Weights{folder});
  edit(index, "\"lm_head.weight\": \"model-00002", "\"lm_head.weight\": \"model-00001");
  EXPECT_TRUE(
      says(refusal(folder), "\"lm_head.weight\" is said to be in model-00001-of-00002.safetensors, which does not have it"));
  fs::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_TRUE(says(refusal(folder), "model-00002-of-00002.safetensors is not there, which has the tensor \""));
  edit(index, "model-00002", "../model-00002");
  EXPECT_TRUE(says(refusal(folder), "which is no file's name"));
  Json files(Json::Object{});
  for (const char* tensor : {"a", "b", "c", "d", "e", "f", "g", "h"}) files.set(tensor, tensor);
  io::replace_file(index, Json(Json::Object{{"weight_map", files}}).dump());
  EXPECT_TRUE(says(refusal(folder), "a is not there"));
  EXPECT_TRUE(says(refusal(folder), "and 3 more files"));
  io::replace_file(index, "{\"metadata\": {}}");
  EXPECT_TRUE(says(refusal(folder), "\"weight_map\" is missing"));
  fs::remove(index);
  fs::copy(folder / "model-00001-of-00002.safetensors", folder / "model-00002-of-00002.safetensors");
  EXPECT_TRUE(says(refusal(folder), "there are 2 safetensors files, but no model.safetensors.index.json"));
}

TEST_F(Published, TheSameTensorTwiceIsRefused) {
  const fs::path folder = copy("llama_tied");
  fs::copy_file(folder / "model-00001-of-00002.safetensors", folder / "model-00002-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(says(refusal(folder), "is in another file too"));
}

TEST_F(Published, DamagedAndPickledFilesAreRefused) {
  const fs::path folder = copy("llama");
  fs::resize_file(folder / "model.safetensors", 1000);
  EXPECT_TRUE(says(refusal(folder), "model.safetensors: the header claims"));
  fs::remove(folder / "model.safetensors");
  EXPECT_TRUE(says(refusal(folder), "there is no model.safetensors"));
  io::replace_file(folder / "pytorch_model.bin", "PK");
  EXPECT_TRUE(says(refusal(folder), "safe_serialization=True"));
}

}  // namespace
}  // namespace lockstep::checkpoint::huggingface
