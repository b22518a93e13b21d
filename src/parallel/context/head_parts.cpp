#include "parallel/context/head_parts.h"

#include "layout/canonical_grid.h"

namespace lockstep::parallel {

static_assert(ops::most_head_ranges == layout::canonical_ranges);

std::vector<ops::HeadPart> head_parts(const layout::ShardedDims& dims) {
  std::vector<ops::HeadPart> parts;
  int range = 0;
  for (std::int64_t head = 0; head < dims.heads; ++head) {
    const std::int64_t kv_head = dims.kv_head_of(head);
    const int before = range;
    while (layout::canonical_range(dims.all_heads, range).end() <= dims.first_head + head) ++range;
    if (!parts.empty() && parts.back().kv_head == kv_head && range == before) {
      ++parts.back().count;
    } else {
      parts.push_back({kv_head, head, 1, range});
    }
  }
  if (std::ssize(parts) == dims.kv_heads) parts.clear();
  return parts;
}

}  // namespace lockstep::parallel
