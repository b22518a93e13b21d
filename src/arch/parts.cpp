#include "arch/parts.h"

#include <algorithm>
#include <array>

namespace lockstep::arch {
namespace {

constexpr std::array attention_roles{Role::norm1_gain, Role::norm1_bias,           Role::qkv_weight,
                                     Role::qkv_bias,   Role::attention_out_weight, Role::attention_out_bias};

layout::Part whole(UnitIndex unit, const std::vector<layout::Unit>& units) {
  return {unit, {0, units[static_cast<std::size_t>(unit.value)].elements}};
}

std::vector<layout::Part> whole(const std::vector<UnitIndex>& some, const std::vector<layout::Unit>& units) {
  std::vector<layout::Part> parts;
  for (const UnitIndex unit : some) parts.push_back(whole(unit, units));
  return parts;
}

/// What attention, or else the feed-forward, has of a block's unit; what lies side by side is one part.
std::vector<layout::Part> of_sub_layer(bool attention, UnitIndex index, const layout::Unit& unit) {
  std::vector<layout::Part> parts;
  bool goes_on = false;
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    const bool found = std::ranges::find(attention_roles, static_cast<Role>(parameter.info.role)) != attention_roles.end();
    const bool own = found == attention;
    if (own && !goes_on) parts.push_back({index, {parameter.offset, 0}});
    if (own) parts.back().elements.count = parameter.offset + parameter.shape().elements() - parts.back().elements.first;
    goes_on = own;
  }
  return parts;
}

}  // namespace

PartMap part_map(const ModelConfig& config, const std::vector<layout::Unit>& units, layout::LeaseSize leases) {
  const UnitMap map = unit_map(config);
  PartMap parts{.embedding = whole(map.embedding_reads, units), .blocks = {}, .head = whole(map.head_reads, units)};
  for (const UnitIndex block : map.blocks) {
    const layout::Unit& unit = units[static_cast<std::size_t>(block.value)];
    if (leases == layout::LeaseSize::sub_layer) {
      parts.blocks.push_back({of_sub_layer(true, block, unit), of_sub_layer(false, block, unit)});
    } else {
      parts.blocks.push_back({{whole(block, units)}, {whole(block, units)}});
    }
  }
  return parts;
}

PartMap parts_of(PartMap parts, const std::vector<layout::Chunk>& chunks) {
  const auto any = [&](const auto& has) { return std::ranges::any_of(chunks, has); };
  if (!any(&layout::Chunk::embedding)) parts.embedding.clear();
  if (!any(&layout::Chunk::head)) parts.head.clear();
  for (std::size_t i = 0; i < parts.blocks.size(); ++i) {
    const auto block = static_cast<std::int64_t>(i);
    const auto has = [&](const layout::Chunk& chunk) { return block >= chunk.blocks.first && block < chunk.blocks.end(); };
    if (!any(has)) parts.blocks[i] = {};
  }
  return parts;
}

std::vector<LeaseClass> lease_classes(const PartMap& parts, const UnitMap& map) {
  LeaseClass blocks{.units = map.blocks, .sequence = true}, ends{.units = {map.embedding, map.head}}, tied{.units = {map.tied}};
  const auto add = [](LeaseClass& to, const std::vector<layout::Part>& some) {
    to.at_once = std::max(to.at_once, static_cast<int>(some.size()));
    to.parts += static_cast<int>(some.size());
    for (const layout::Part& part : some) to.elements = std::max(to.elements, part.elements.count);
  };
  for (const BlockParts& block : parts.blocks) {
    add(blocks, block.attention);
    if (block.mlp != block.attention) add(blocks, block.mlp);
  }
  for (const std::vector<layout::Part>* end : {&parts.embedding, &parts.head}) {
    for (const layout::Part& part : *end) {
      if (part.unit != map.tied) add(ends, {part});
    }
  }
  for (const layout::Part& part : parts.head.empty() ? parts.embedding : parts.head) {
    if (part.unit == map.tied) add(tied, {part});
  }
  std::vector<LeaseClass> all{std::move(blocks), std::move(ends)};
  if (tied.parts > 0) all.push_back(std::move(tied));
  return all;
}

}  // namespace lockstep::arch
