#pragma once

// Tasks that a model is evaluated by, as JSONL or a list in JSON: what it finds likelier, foretells or answers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

enum class TaskKind : std::uint8_t {
  choices,    ///< one of several continuations of a context is right
  last_word,  ///< a text's last word follows from the rest (LAMBADA: Paperno et al. 2016)
  documents,  ///< texts, for their perplexity
  answers     ///< a context, and what the model shall write behind it
};

struct TaskItem {
  std::string context;                     ///< empty for documents
  std::vector<std::string> continuations;  ///< with the blank before them; for `answers` the one that is right
  std::size_t right = 0;                   ///< which continuation is right
};

struct Task {
  std::string name;  ///< name of the file
  TaskKind kind = TaskKind::choices;
  std::vector<TaskItem> items;
};

/// The task of a file, whose form its first line tells:
///   {"ctx_a": ..., "ctx_b": ..., "activity_label": ..., "endings": [...], "label": 2}: HellaSwag, as its authors publish it
///   {"context": ..., "choices": [...], "answer": 2}, or "question" or "prompt", and "gold" or "label"
///   {"context": ..., "answer": "..."}
///   {"text": ...}: a document; with "lambada:" before the file's name LAMBADA, as OpenAI publishes it
/// Texts become what lm-eval (EleutherAI, lm-evaluation-harness) makes of them. Throws UserError for a file that cannot be read,
/// and for bad lines, the first of them by number.
Task read_task(const std::string& named);
/// Reads a task from a file's text, which `name` means in errors, and `unit` a line of it. `last_words`: the text is LAMBADA's.
Task parse_task(std::string_view text, const std::string& name, bool last_words, std::string_view unit = "line");

}  // namespace lockstep::data
