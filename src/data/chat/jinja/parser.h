#pragma once

// From a template's source to its tree.

#include <string_view>
#include <vector>

#include "data/chat/jinja/syntax.h"

namespace lockstep::data::jinja {

/// The statements of a normal source. Throws UserError with the place of what Jinja refuses, and of what is not known here.
std::vector<Node> parse(std::string_view source);

}  // namespace lockstep::data::jinja
