#pragma once

// The orders of passes that schedules.h names, for every rank of a pipeline.

#include <vector>

#include "layout/pipeline/schedules.h"

namespace lockstep::layout {

using RankPasses = std::vector<std::vector<StagePass>>;

RankPasses gpipe(const PipelineShape& shape);
RankPasses one_forward_one_backward(const PipelineShape& shape);
RankPasses interleaved(const PipelineShape& shape);
RankPasses breadth_first(const PipelineShape& shape);
RankPasses zero_bubble_h1(const PipelineShape& shape);
RankPasses zero_bubble_v(const PipelineShape& shape);
RankPasses dualpipe_v(const PipelineShape& shape);

}  // namespace lockstep::layout
