#pragma once

// Options that a command does not declare: settings that are written as options, and options of other programs, by which their
// users look for ours. Those programs are the Trainer of Hugging Face (TRL, axolotl), Megatron-LM, Lightning (litgpt),
// torchtitan, nanoGPT's sample.py and llama.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command_line.h"

namespace lockstep::app {

enum class WordsOf { settings, generate, prepare };

/// For CommandLine::undeclared of a command that takes settings, or of `generate` or `prepare`. An option of another program
/// ("--lr", "--num_train_epochs") is answered with the right word, with its value filled in. Else a setting's own name that no
/// other setting has is that setting, with hyphens or underscores ("--max-iters").
CommandLine::Meaning other_words(WordsOf of);
/// What a setting of another program is here ("lr", "training.steps"), with its value where there is one; nothing where that is
/// not known.
std::optional<std::string> right_setting(std::string_view name, const std::optional<std::string>& value = {});
/// The options of other programs that are known.
std::vector<std::string> known_words(WordsOf of);

}  // namespace lockstep::app
