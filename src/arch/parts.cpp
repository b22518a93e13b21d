#include "arch/parts.h"

#include <algorithm>
#include <array>

namespace lockstep::arch {
namespace {

constexpr std::array attention_roles{Role::norm1_gain, Role::norm1_bias, Role::qkv_weight,           Role::qkv_bias,
                                     Role::query_gain, Role::key_gain,   Role::attention_out_weight, Role::attention_out_bias,
                                     Role::post1_gain, Role::post1_bias};

constexpr std::array matrix_roles{Role::qkv_weight, Role::attention_out_weight, Role::up_weight, Role::down_weight};

layout::Part whole(UnitIndex unit, const std::vector<layout::Unit>& units) {
  return {unit, {0, units[static_cast<std::size_t>(unit.value)].elements}};
}

std::vector<layout::Part> whole(const std::vector<UnitIndex>& some, const std::vector<layout::Unit>& units) {
  std::vector<layout::Part> parts;
  for (const UnitIndex unit : some) parts.push_back(whole(unit, units));
  return parts;
}

/// The tiles of a matrix at `offset` of a unit; one where nothing is to be cut.
TiledMatrix tiles_of(UnitIndex unit, const layout::PlacedParameter& matrix, const LeaseRule& leases) {
  TiledMatrix tiled{.role = static_cast<Role>(matrix.info.role), .tiles = {}};
  const std::int64_t row = matrix.shape().last();
  const auto bytes = matrix.shape().elements() * static_cast<std::int64_t>(size_of(leases.type));
  const layout::Tiles by = bytes > leases.tiles.larger_than ? leases.tiles : layout::Tiles{};
  const std::vector<layout::Range> columns = layout::tile_ranges(row, by.in);
  tiled.across = columns.size();
  for (const layout::Range& rows : layout::tile_ranges(matrix.shape().rows(), by.out)) {
    for (const layout::Range& of : columns)
      tiled.tiles.push_back({{unit, {matrix.offset + rows.first * row, rows.count * row}, row, of}, rows, of});
  }
  return tiled;
}

/// The matrices of a block that are cut.
std::vector<TiledMatrix> tiled_matrices(UnitIndex index, const layout::Unit& unit, const LeaseRule& leases) {
  std::vector<TiledMatrix> all;
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    if (std::ranges::find(matrix_roles, static_cast<Role>(parameter.info.role)) == matrix_roles.end()) continue;
    if (parameter.shape().elements() == 0) continue;
    TiledMatrix tiled = tiles_of(index, parameter, leases);
    if (tiled.tiles.size() > 1) all.push_back(std::move(tiled));
  }
  return all;
}

/// What attention, or else the feed-forward, has of a block's unit, but for tiles; what lies side by side is one part.
std::vector<layout::Part> of_sub_layer(bool attention, UnitIndex index, const layout::Unit& unit, const BlockParts& block) {
  std::vector<layout::Part> parts;
  bool goes_on = false;
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    const bool found = std::ranges::find(attention_roles, static_cast<Role>(parameter.info.role)) != attention_roles.end();
    const bool own = found == attention && block.find(static_cast<Role>(parameter.info.role)) == nullptr;
    if (own && !goes_on) parts.push_back({index, {parameter.offset, 0}});
    if (own) parts.back().elements.count = parameter.offset + parameter.shape().elements() - parts.back().elements.first;
    goes_on = own;
  }
  return parts;
}

/// Parts that are leased at a time.
void add(LeaseClass& to, const std::vector<layout::Part>& some) {
  to.at_once = std::max(to.at_once, static_cast<int>(some.size()));
  to.parts += static_cast<int>(some.size());
  for (const layout::Part& part : some) {
    to.elements = std::max(to.elements, part.count());
    to.strided = to.strided || part.strided();
    if (!part.strided()) to.contiguous = std::max(to.contiguous, part.count());
  }
}

}  // namespace

LeaseRule lease_rule(const layout::ParallelPlan& plan, DType type) { return {plan.leases, plan.tiles, type}; }

const TiledMatrix* BlockParts::find(Role role) const {
  const auto found = std::ranges::find(tiled, role, &TiledMatrix::role);
  return found == tiled.end() ? nullptr : &*found;
}

std::int64_t tile_sums(const PartMap& parts, DType type) {
  std::int64_t widest = 0;
  for (const BlockParts& block : parts.blocks) {
    for (const TiledMatrix& matrix : block.tiled) {
      const bool apart = type != DType::f32;
      const bool residual = matrix.role == Role::attention_out_weight || matrix.role == Role::down_weight;
      for (const Tile& tile : matrix.tiles) {
        if (matrix.across > 1 && (apart || residual)) widest = std::max(widest, tile.rows.count);
        if (matrix.down() > 1 && apart) widest = std::max(widest, tile.columns.count);
      }
    }
  }
  return widest;
}

PartMap part_map(const ModelConfig& config, const std::vector<layout::Unit>& units, const LeaseRule& leases) {
  const UnitMap map = unit_map(config);
  PartMap parts{.embedding = whole(map.embedding_reads, units), .blocks = {}, .head = whole(map.head_reads, units)};
  for (const UnitIndex block : map.blocks) {
    const layout::Unit& unit = units[static_cast<std::size_t>(block.value)];
    if (leases.size == layout::LeaseSize::sub_layer || leases.tiles.cut()) {
      BlockParts& of = parts.blocks.emplace_back();
      of.tiled = tiled_matrices(block, unit, leases);
      of.attention = of_sub_layer(true, block, unit, of);
      of.mlp = of_sub_layer(false, block, unit, of);
    } else {
      parts.blocks.push_back({{whole(block, units)}, {whole(block, units)}});
    }
    parts.blocks.back().post_norm = config.post_norm;
    if (map.trains_all()) continue;
    const layout::Part adapters = whole(map.adapters[parts.blocks.size() - 1], units);
    for (std::vector<layout::Part>* of : {&parts.blocks.back().attention, &parts.blocks.back().mlp}) of->push_back(adapters);
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
  LeaseClass blocks{.units = map.blocks, .sequence = true}, ends{.units = {map.embedding, map.head}}, tied{.units = {map.tied}},
      norm{.units = {map.norm}};
  LeaseClass tiles{.units = map.blocks, .sequence = true, .tiles = true}, adapters{.units = map.adapters, .sequence = true};
  for (const BlockParts& block : parts.blocks) {
    std::vector<layout::Part> attention = block.attention, mlp = block.mlp;
    for (std::vector<layout::Part>* of : {&attention, &mlp}) {
      if (map.trains_all() || of->empty()) continue;
      if (of == &attention) add(adapters, {of->back()});
      of->pop_back();
    }
    add(blocks, attention);
    if (mlp != attention) add(blocks, mlp);
    for (const TiledMatrix& matrix : block.tiled) {
      for (const Tile& tile : matrix.tiles) add(tiles, {tile.part});
    }
  }
  for (const std::vector<layout::Part>* end : {&parts.embedding, &parts.head}) {
    for (const layout::Part& part : *end) {
      if (part.unit == map.norm) {
        add(norm, {part});  // is there beside the head
      } else if (part.unit != map.tied) {
        add(ends, {part});
      }
    }
  }
  for (const layout::Part& part : parts.head.empty() ? parts.embedding : parts.head) {
    if (part.unit == map.tied) add(tied, {part});
  }
  std::vector<LeaseClass> all{std::move(blocks), std::move(ends)};
  if (tiles.parts > 0) all.push_back(std::move(tiles));
  if (adapters.parts > 0) all.push_back(std::move(adapters));
  if (tied.parts > 0) all.push_back(std::move(tied));
  if (norm.parts > 0) all.push_back(std::move(norm));
  return all;
}

}  // namespace lockstep::arch
