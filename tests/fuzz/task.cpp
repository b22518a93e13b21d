// Tasks that a model is judged by: every item can be judged.

#include "data/text/task.h"

#include "fuzz/target.h"

namespace lockstep::fuzz {

void read(std::span<const std::byte> input) {
  const std::string_view text = text_of(input);
  const bool last_words = !text.empty() && text.front() == '!';
  const data::Task task = data::parse_task(last_words ? text.substr(1) : text, "input", last_words);
  ensure(!task.items.empty(), "a task has an item");
  for (const data::TaskItem& item : task.items) {
    ensure(item.right < item.continuations.size(), "one of the continuations is right");
    ensure(task.kind == data::TaskKind::answers || !item.continuations.front().empty(), "there is something to judge");
  }
}

}  // namespace lockstep::fuzz
