#include "app/inspect/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app/cli/commands.h"
#include "app/folder/answer_line.h"
#include "app/inspect/inspect_facts.h"
#include "base/error.h"
#include "base/text/columns.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "data/formats/token_layout.h"

namespace lockstep::app {
namespace {

// A value of a configuration.
std::string value_text(const Json& value) {
  constexpr std::size_t most = 160;
  std::string text = value.is_string() ? value.string() : value.is_null() ? "-" : value.dump();
  if (value.is_number() && !value.is_int()) text = fmt::format("{:.6g}", value.number());
  if (std::size_t end = most; text.size() > end) {
    while (is_continuation(text[end])) --end;
    text = text.substr(0, end) + "...";
  }
  return visible(text);
}

std::string number_text(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_int() ? format_count(value.integer()) : fmt::format("{:.4f}", value.number());
}

std::string bytes_text(const Json& value) { return format_bytes(static_cast<std::uint64_t>(value.integer())); }

Cell number_cell(const Json& value) { return {value, number_text(value)}; }
Cell bytes_cell(const Json& value) { return {value, bytes_text(value)}; }

// Behind a blank column, as all that is told of a path.
Table table_of(std::vector<std::string> headings) {
  headings.insert(headings.begin(), "");
  return Table::of_text(headings);
}

// An object's members as key and value; nested objects with dotted keys.
void add_rows(std::vector<HelpRow>& rows, const std::string& prefix, const Json& value) {
  for (const auto& [key, member] : value.object()) {
    if (member.is_object()) {
      add_rows(rows, prefix + key + ".", member);
    } else {
      rows.push_back({visible(prefix + key), value_text(member)});
    }
  }
}

std::string section(const char* title, const Json* object) {
  if (object == nullptr || !object->is_object() || object->object().empty()) return "";
  std::vector<HelpRow> rows;
  add_rows(rows, "", *object);
  return fmt::format("\n{}\n{}", title, two_columns(rows));
}

std::string tensor_table(const Json& facts) {
  const Json::Array& tensors = facts.at("tensors").array();
  const bool files = !tensors.empty() && tensors.front().find("file") != nullptr;
  Table table = table_of({"tensor", "type", "shape", "elements", "bytes", "checksum", files ? "file" : ""});
  std::int64_t elements = 0, bytes = 0;
  for (const Json& tensor : tensors) {
    std::vector<std::string> shape;
    for (const Json& extent : tensor.at("shape").array()) shape.push_back(fmt::format("{}", extent.integer()));
    table.row({"", visible(tensor.at("name").string()), tensor.at("dtype").string(), fmt::format("[{}]", fmt::join(shape, ", ")),
               number_cell(tensor.at("elements")), bytes_cell(tensor.at("bytes")), tensor.at("checksum").string(),
               files ? visible(tensor.at("file").string()) : ""});
    elements += tensor.at("elements").integer();
    bytes += tensor.at("bytes").integer();
  }
  std::string not_finite;
  for (const Json& tensor : tensors) {
    if (tensor.find("finite") != nullptr) not_finite += fmt::format("  {}\n", visible(tensor.at("name").string()));
  }
  if (const Json* names = facts.find("not_finite")) {
    for (const Json& name : names->array()) not_finite += fmt::format("  {}\n", visible(name.string()));
  }
  table.row({"", fmt::format("{} tensors", format_count(std::ssize(tensors))), "", "", number_cell(elements), bytes_cell(bytes)});
  return "\n" + table.text() + (not_finite.empty() ? "" : "\nNOT FINITE, so that no text can be read with it:\n" + not_finite);
}

std::string damage_text(const Json& facts) {
  const Json* damaged = facts.find("damaged");
  if (damaged == nullptr) return "";
  if (damaged->array().empty()) return "\nverified: every byte is as it was written\n";
  std::string text = "\nDAMAGED OR UNREADABLE:\n";
  for (const Json& name : damaged->array()) text += fmt::format("  {}\n", visible(name.string()));
  return text;
}

std::string checkpoint_text(const Json& facts) {
  std::vector<HelpRow> rows{{"step", number_text(facts.at("step"))},
                            {"updates", number_text(facts.at("updates"))},
                            {"parameters", number_text(facts.at("parameters"))},
                            {"bytes", bytes_text(facts.at("bytes"))},
                            {"validation loss", number_text(facts.at("validation_loss"))},
                            {"best validation loss", number_text(facts.at("best_validation_loss"))},
                            {"tokens seen", number_text(facts.at("tokens_seen"))},
                            {"next sample", number_text(facts.at("next_sample"))},
                            {"seed", fmt::format("{}", static_cast<std::uint64_t>(facts.at("seed").integer()))},
                            {"written by", visible(facts.at("program").string())}};
  const bool narrow = facts.at("dtype").string() == "BF16", masters = facts.at("master_is_model").boolean();
  rows.push_back({"trained in", narrow ? "bf16" : "fp32"});
  rows.push_back({"master weights", !masters ? "none" : narrow ? "fp32, stored for the weights" : "the fp32 weights themselves"});
  return two_columns(rows) + section("model", facts.find("model")) + section("optimizer", facts.find("optimizer")) +
         section("run", facts.find("run")) + tensor_table(facts);
}

std::string run_text(const Json& facts) {
  std::string text;
  if (const Json* parameters = facts.find("parameters")) text += two_columns({{"parameters", number_text(*parameters)}});
  const Json::Array& checkpoints = facts.at("checkpoints").array();
  Table table = table_of({"step", "tokens seen", "validation loss", "bytes", ""});
  for (const Json& one : checkpoints) {
    const Cell step = number_cell(one.at("step"));
    if (const Json* fault = one.find("fault")) {
      const Cell none(nullptr, "");
      table.row({"", step, none, none, none, visible("damaged or unreadable: " + fault->string())});
      continue;
    }
    const bool best = one.at("best").boolean(), last = one.at("last").boolean();
    table.row({"", step, number_cell(one.at("tokens_seen")), number_cell(one.at("validation_loss")), bytes_cell(one.at("bytes")),
               best && last ? "best, last"
               : best       ? "best"
               : last       ? "last"
                            : ""});
  }
  text += checkpoints.empty() ? "\nno checkpoint yet\n" : "\ncheckpoints\n" + table.text();
  return text + section("last metrics", facts.find("metrics")) + section("last evaluation", facts.find("evaluation")) +
         section("model", facts.find("model")) + section("optimizer", facts.find("optimizer"));
}

std::string tokens_text(const Json& facts) {
  const Json& tokenizer = facts.at("tokenizer");
  std::vector<HelpRow> facts_of_text{
      {"tokenizer", tokenizer.is_null() ? "not described: read as GPT-2's ids" : tokenizer.string()},
      {"vocabulary", number_text(facts.at("vocabulary"))},
      {"type", facts.at("dtype").string()}};
  if (const Json* documents = facts.find("documents")) facts_of_text.push_back({"documents", number_text(*documents)});
  Table table = table_of({"file", "tokens", "taught", "bytes", "text", "sha256"});
  for (const Json& file : facts.at("files").array()) {
    const Json *text_bytes = file.find("text_bytes"), *sha256 = file.find("sha256"), *targets = file.find("targets");
    table.row({"", visible(file.at("name").string()), number_cell(file.at("tokens")),
               targets == nullptr ? Cell(nullptr, "all") : number_cell(*targets), bytes_cell(file.at("bytes")),
               text_bytes == nullptr ? Cell(nullptr) : bytes_cell(*text_bytes),
               sha256 == nullptr ? Cell(nullptr) : Cell(visible(sha256->string()))});
  }
  return two_columns(facts_of_text) + "\n" + table.text() +
         fmt::format("\nstarts with\n  {}\n", visible(value_text(facts.at("start"))));
}

std::string safetensors_text(const Json& facts) {
  return two_columns({{"elements", number_text(facts.at("parameters"))}, {"bytes", bytes_text(facts.at("bytes"))}}) +
         section("metadata", facts.find("metadata")) + tensor_table(facts);
}

std::string published_text(const Json& facts) {
  const Json& tokenizer = facts.at("tokenizer");
  const Json* fault = tokenizer.find("fault");
  std::vector<HelpRow> rows{{"parameters", number_text(facts.at("parameters"))}, {"bytes", bytes_text(facts.at("bytes"))}};
  rows.push_back({"tokenizer", fault != nullptr ? "none: " + visible(fault->string())
                                                : fmt::format("{}, {} tokens", visible(tokenizer.at("name").string()),
                                                              number_text(tokenizer.at("vocabulary")))});
  for (const Json& warning : facts.at("warnings").array()) rows.push_back({"warning", visible(warning.string())});
  return two_columns(rows) + section("model", facts.find("model")) + tensor_table(facts);
}

std::string mask_text(const Json& facts) {
  return two_columns({{"of", visible(facts.at("of").string())},
                      {"tokens", number_text(facts.at("tokens"))},
                      {"taught", number_text(facts.at("targets"))},
                      {"sha256", visible(facts.at("sha256").string())}});
}

int run_inspect(const Arguments& arguments) {
  std::string path, ids = std::string(data::any_ids);
  bool verify = false;
  AnswerLine line(
      "inspect",
      "What is in a checkpoint, a run folder, a Hugging Face model, a safetensors or GGUF file or prepared text. That is "
      "tokens.json, a token file (also raw ids, llm.c's or Megatron's) or a loss mask.");
  const std::vector<std::string_view> types = data::id_choices();
  line.choice("--ids", ids, {types.begin(), types.end()}, "type of raw ids; auto: GPT-2's uint16");
  line.positional("PATH", path, "a folder or a file");
  line.flag("--verify", verify, "read everything and compare it with its checksums; what came without any is refused");
  line.note("Exit code: 0, or 1 when --verify finds damage.");
  line.note("example:\n  lockstep inspect runs/first --verify");
  if (!line.read(arguments)) return 0;
  line.check();
  Team team(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const Json facts = inspect_facts(path, verify, team, ids);
  Answer answer;
  answer.say(inspect_text(facts));
  answer.facts(facts.object());
  line.print(answer);
  const Json* damaged = facts.find("damaged");
  return damaged != nullptr && !damaged->array().empty() ? 1 : 0;
}

}  // namespace

std::string inspect_text(const Json& facts) {
  const std::string& kind = facts.at("kind").string();
  const std::string head = fmt::format("{}: {}\n", kind, visible(facts.at("path").string()));
  if (kind == "checkpoint") return head + checkpoint_text(facts) + damage_text(facts);
  if (kind == "run") return head + run_text(facts) + damage_text(facts);
  if (kind == "published model") return head + published_text(facts);
  if (kind == "loss mask") return head + mask_text(facts) + damage_text(facts);
  if (kind == "tokens") return head + tokens_text(facts) + damage_text(facts);
  return head + safetensors_text(facts);
}

Command inspect_command() { return {"inspect", "what is in a checkpoint, a run, a token file", run_inspect}; }

}  // namespace lockstep::app
