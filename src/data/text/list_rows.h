#pragma once

// A list in JSON, as many data sets are published: read as JSONL, a row a line.

#include <memory>
#include <string>

#include "io/stream.h"

namespace lockstep::data {

/// The elements of the list that `stream` has, each on a line, in bounded memory. What elements are is not looked at. Reading
/// throws UserError, naming `name` and the row, where the list does not end, has an empty place or something behind its end.
std::unique_ptr<io::ByteStream> rows_of_list(std::unique_ptr<io::ByteStream> stream, std::string name);

}  // namespace lockstep::data
