#pragma once

// Options of other programs, by which their users look for settings and options of this one: the Trainer of Hugging Face (TRL,
// axolotl), Megatron-LM, Lightning (litgpt), torchtitan, nanoGPT's sample.py and llama.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::settings {

enum class WordsOf { settings, generate, prepare };

/// What to write instead of `option` ("--lr", "--num_train_epochs"): the right word of commands that take settings, or of
/// `generate` or `prepare`, with `value` filled in where one is known. Nothing for a word of which nothing is known.
std::optional<std::string> right_word(WordsOf of, std::string_view option, const std::optional<std::string>& value);
/// All that there are, with dashes.
std::vector<std::string> known_words(WordsOf of);

/// A setting that is written as an option: the name is a setting's own name, which no other setting has, with hyphens or
/// underscores ("--max-iters").
struct SettingOption {
  std::string_view setting;  ///< "train.max_iters"
  bool flag = false;         ///< true where no value is written
};
std::optional<SettingOption> setting_option(std::string_view option);

}  // namespace lockstep::settings
