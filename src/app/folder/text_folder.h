#pragma once

// The folder that a text which a command names is prepared into, and the tokenizer that it is prepared by.

#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "data/tokenizer_choice.h"

namespace lockstep::app {

/// The settings that a command's word DATA stands for. DATA is a folder of prepared text ("data.dir=..."), or a text, which is
/// prepared into a folder that its content names. Throws UserError for what is neither, and where `overrides` name other data.
std::vector<std::string> data_settings(const std::string& data, const std::vector<std::string>& overrides);

/// The tokenizer of the model that the run begins with, or goes on with, by describe(), with the model's chat template and
/// special tokens. Nothing where there is no such model. Throws UserError for a model without a known tokenizer.
std::optional<data::TokenizerChoice> model_tokenizer(const RunConfig& config);

/// Where data_settings() named the folder: names another one for a model's tokenizer, unless the tokens that are there are the
/// model's. Rows have a folder for each chat template, too.
void name_text_folder(RunConfig& config);

}  // namespace lockstep::app
