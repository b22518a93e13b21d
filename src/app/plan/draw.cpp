// `lockstep plan draw` and `compare`: a pipeline's schedule in a picture, with what it costs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "app/folder/answer_line.h"
#include "app/plan/drawing.h"
#include "app/plan/questions.h"
#include "app/settings/pipeline_settings.h"
#include "base/error.h"
#include "base/number_text.h"
#include "io/file.h"
#include "layout/pipeline/action_table.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string times = "1,1,1";
  std::vector<std::string> settings;
};

/// What the settings ask for; empty: not said.
struct Wish {
  std::optional<int> ranks, chunks, microbatches;
  std::optional<std::string> schedule;
};

struct Drawn {
  std::string name;
  layout::StageMap map;
  int microbatches;
  std::vector<std::vector<layout::StagePass>> passes;
  int chunks() const { return map.stages() / map.ranks(); }
};

/// What both questions are asked by. `schedule`: the help on parallel.schedule; empty: it is not asked for.
void declare(AnswerLine& line, Options& options, std::string_view schedule = "") {
  line.option("--times", options.times, "F,I,W",
              "how long a micro-batch takes on a rank: forward, gradients of inputs, gradients of weights");
  std::vector<std::string> names{"parallel.pp=", "parallel.virtual_stages=", "optimizer.gas="};
  if (!schedule.empty()) names.emplace_back("parallel.schedule=");
  line.overrides(options.settings,
                 fmt::format("parallel.pp=N (4), {}parallel.virtual_stages=N, optimizer.gas=N micro-batches (8)", schedule),
                 std::move(names));
}

std::optional<double> positive_number(std::string_view text) {
  const auto value = number_from<double>(text);
  return value && *value > 0 && *value <= 1e9 ? value : std::nullopt;
}

layout::PassSeconds pass_seconds(const std::string& text) {
  std::vector<double> values;
  for (const std::string& part : parts_of_list(text)) values.push_back(positive_number(part).value_or(0));
  if (values.size() != 3 || std::ranges::count(values, 0.0) > 0) {
    throw UserError(
        fmt::format("--times {}: must be three positive numbers, forward, gradients of inputs, gradients of weights", text),
        "--times 1,1,1");
  }
  return {.forward = values[0], .input_backward = values[1], .weight_backward = values[2]};
}

struct Count {
  std::string_view setting;
  int most;
  std::optional<int> Wish::* value;
};
constexpr std::array<Count, 3> counts{{{"parallel.pp", 512, &Wish::ranks},
                                       {"parallel.virtual_stages", 64, &Wish::chunks},
                                       {"optimizer.gas", 8192, &Wish::microbatches}}};

Wish wish_of(const std::vector<std::string>& settings) {
  Wish wish;
  std::vector<Problem> problems;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals), value = setting.substr(equals + 1);
    const auto* const known = std::ranges::find(counts, name, &Count::setting);
    const auto number = number_from<int>(value);
    if (name == "parallel.schedule") {
      wish.schedule = value;
    } else if (known == counts.end()) {
      problems.push_back({fmt::format("{}: a schedule does not depend on this setting", setting),
                          "parallel.pp, parallel.schedule, parallel.virtual_stages and optimizer.gas make one"});
    } else if (number && *number >= 1 && *number <= known->most) {
      wish.*known->value = number;
    } else if (setting != "parallel.virtual_stages=null") {
      problems.push_back({fmt::format("{}: must be a whole number from 1 to {}", setting, known->most), name + "=8"});
    }
  }
  if (wish.ranks == 1) problems.push_back({"parallel.pp = 1: one rank has no pipeline to draw", "parallel.pp=4"});
  if (!problems.empty()) throw UserError(std::move(problems));
  return wish;
}

Drawn from_file(const Wish& wish, const io::Path& path) {
  layout::ActionTable table = layout::read_action_table(read_schedule(path), path.string());
  std::vector<Problem> problems;
  const auto compare = [&](std::string_view setting, const std::optional<int>& wished, int has) {
    if (!wished || *wished == has) return;
    problems.push_back({fmt::format("{} = {}: the table of {} has {}", setting, *wished, path.string(), has),
                        fmt::format("{}={}, or leave it to the table", setting, has)});
  };
  compare("parallel.pp", wish.ranks, table.map.ranks());
  compare("optimizer.gas", wish.microbatches, table.microbatches);
  if (!problems.empty()) throw UserError(std::move(problems));
  return {path.filename().string(), std::move(table.map), table.microbatches, std::move(table.passes)};
}

layout::PipelineShape shape_of(const Wish& wish, const layout::NamedSchedule& schedule) {
  const int ranks = wish.ranks.value_or(4);
  return {.ranks = ranks,
          .chunks = wish.chunks.value_or(usual_chunks(schedule, ranks)),
          .microbatches = wish.microbatches.value_or(8)};
}

Drawn drawn(const layout::NamedSchedule& schedule, const layout::PipelineShape& shape) {
  return {std::string(schedule.name), stage_map(schedule, shape), shape.microbatches, schedule.passes(shape)};
}

Drawn what_to_draw(const Wish& wish) {
  const std::string name = wish.schedule.value_or("1f1b");
  if (const auto file = schedule_file(name)) return from_file(wish, *file);
  const layout::NamedSchedule* schedule = layout::find_schedule(name);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const layout::NamedSchedule& each : layout::schedules()) names.push_back(each.name);
    throw UserError(fmt::format("parallel.schedule = {}: there is no such schedule", name),
                    fmt::format("one of {}, or file:TABLE.csv", fmt::join(names, ", ")));
  }
  const layout::PipelineShape shape = shape_of(wish, *schedule);
  std::vector<Problem> problems = check(*schedule, shape);
  if (!problems.empty()) throw UserError(std::move(problems));
  return drawn(*schedule, shape);
}

struct Costs {
  layout::Timeline timeline;
  std::vector<double> peaks;  ///< of each rank
  int messages = 0;           ///< of the rank that sends most
};

Costs costs_of(const Drawn& what, const layout::PassSeconds& seconds) {
  const std::vector<std::vector<layout::Action>> actions = with_messages(what.passes, what.map);
  Costs costs{.timeline = simulate(actions, what.map, seconds), .peaks = {}};
  for (int rank = 0; rank < what.map.ranks(); ++rank) {
    const std::vector<layout::Action>& own = actions[static_cast<std::size_t>(rank)];
    costs.peaks.push_back(peak_activations(own, static_cast<int>(what.map.stages_of(rank).size())));
    costs.messages = std::max(costs.messages, messages_sent(own));
  }
  return costs;
}

std::string title_of(const Drawn& what) {
  return fmt::format("{}: {} ranks, {} chunk{} each, {} micro-batches", what.name, what.map.ranks(), what.chunks(),
                     what.chunks() == 1 ? "" : "s", what.microbatches);
}

std::string subtitle_of(const Costs& costs) {
  return fmt::format("time {:.4g}, of which ranks wait {:.1f} %; a rank keeps at most {:.4g} micro-batches and sends {} messages",
                     costs.timeline.makespan, 100 * bubble(costs.timeline), std::ranges::max(costs.peaks), costs.messages);
}

Table comparison_of(const Wish& wish, const layout::PassSeconds& seconds) {
  if (wish.schedule) {
    throw UserError(fmt::format("parallel.schedule = {}: compare has a line for each schedule that has a name", *wish.schedule),
                    fmt::format("leave it out, or lockstep plan draw parallel.schedule={}", *wish.schedule));
  }
  Table table({{"schedule", "schedule"},
               {"chunks", "chunks"},
               {"time", "time", "{:.4g}"},
               {"waiting", "waiting", "{:.1f} %", 100},
               {"kept_at_most", "kept at most", "{:.4g}"},
               {"messages", "messages"},
               {"refusal"}});
  for (const layout::NamedSchedule& schedule : layout::schedules()) {
    layout::PipelineShape shape = shape_of(wish, schedule);
    if (schedule.chunks != layout::NamedSchedule::Chunks::several) shape.chunks = usual_chunks(schedule, shape.ranks);
    if (const std::vector<Problem> problems = check(schedule, shape); !problems.empty()) {
      const Cell none(nullptr, "");
      table.row({schedule.name, none, none, none, none, none, problems.front().message});
      continue;
    }
    const Costs costs = costs_of(drawn(schedule, shape), seconds);
    table.row({schedule.name, shape.chunks, costs.timeline.makespan, bubble(costs.timeline), std::ranges::max(costs.peaks),
               costs.messages});
  }
  return table;
}

}  // namespace

int plan_draw(const Arguments& arguments) {
  Options options;
  std::string svg, csv;
  int columns = 120;
  AnswerLine line("plan draw",
                  "Draw the schedule of a pipeline: what each rank does when, who waits, and what it costs. Nothing is trained, "
                  "and no rank is needed.");
  declare(line, options, "parallel.schedule=NAME (1f1b) or file:TABLE.csv, ");
  line.option("--svg", svg, "FILE", "the picture as a file too");
  line.option("--csv", csv, "FILE", "the passes as PyTorch's action table too");
  line.count("--columns", columns, "N", "width of the terminal; longer schedules go on below", 20, 10000);
  std::vector<HelpRow> rows;
  for (const layout::NamedSchedule& schedule : layout::schedules())
    rows.push_back({std::string(schedule.name), std::string(schedule.about)});
  line.table("schedules", std::move(rows));
  line.note(
      "examples:\n"
      "  lockstep plan draw parallel.pp=4 parallel.schedule=zb-h1 optimizer.gas=8\n"
      "  lockstep plan draw parallel.schedule=zb-v --svg zb-v.svg");
  if (!line.read(arguments)) return 0;
  line.collect([&] { demand_output("--svg", svg, is_own_drawing); });
  line.collect([&] { demand_output("--csv", csv, is_own_table); });
  line.check();
  const Drawn what = what_to_draw(wish_of(options.settings));
  const Costs costs = costs_of(what, pass_seconds(options.times));
  Answer answer;
  answer.say(fmt::format("{}\n\n{}\n{}\n", title_of(what), draw_text(costs.timeline, columns), subtitle_of(costs)));
  answer.facts({{"schedule", what.name},
                {"ranks", what.map.ranks()},
                {"chunks", what.chunks()},
                {"microbatches", what.microbatches},
                {"time", costs.timeline.makespan},
                {"waiting", bubble(costs.timeline)},
                {"kept_at_most", std::ranges::max(costs.peaks)},
                {"messages", costs.messages}});
  if (!svg.empty()) io::replace_file(svg, draw_svg(costs.timeline, title_of(what), subtitle_of(costs)));
  if (!csv.empty()) io::replace_file(csv, layout::write_action_table(what.passes));
  line.print(answer);
  return 0;
}

int plan_compare(const Arguments& arguments) {
  Options options;
  AnswerLine line("plan compare", "All schedules of pipelines for the same ranks and micro-batches, a line each.");
  declare(line, options);
  line.ask_csv();
  line.note("example:\n  lockstep plan compare parallel.pp=8 optimizer.gas=32");
  if (!line.read(arguments)) return 0;
  line.check();
  Answer answer;
  answer.table("schedules", comparison_of(wish_of(options.settings), pass_seconds(options.times)));
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
