#pragma once

// A training text cut ahead of time: shard r of n is train-<r>-of-<n>.bin, and its rank opens no other file of it.

#include <memory>
#include <string>
#include <vector>

#include "data/prepare/token_writer.h"

namespace lockstep::data {

/// "train-00001-of-00004.bin".
std::string shard_name(int shard, int shards);

/// Cuts `tokens`, and their mask, into `shards` equal pieces (the first ones may have one more) in `folder`; none takes its place
/// yet. 0: into none. Throws UserError when there are more shards than tokens, or a file cannot be written.
std::vector<std::unique_ptr<TokenWriter>> cut_shards(const TokenFile& tokens, int shards, const io::Path& folder);

/// The name of shard `shard` of a prepared folder. Throws UserError that says how to cut the text when there is none, or it was
/// cut into another number.
std::string demand_shard(const io::Path& folder, int shard, int shards);
/// Opens shard `shard` of a prepared folder.
TokenFile open_shard(const io::Path& folder, int shard, int shards);

}  // namespace lockstep::data
