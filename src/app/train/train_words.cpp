#include "app/train/train_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/cli/command_line.h"
#include "app/folder/text_folder.h"
#include "app/watch/watch_server.h"
#include "base/error.h"

namespace lockstep::app {

std::optional<TrainWords> read_train_words(const Arguments& arguments) {
  TrainWords words;
  CommandLine line(
      "train",
      "Train a model. Settings are group.key=value words or bundles group=option; `lockstep help config` lists them all.");
  words.sources.declare(line);
  words.sources.declare_nanogpt(line);
  std::string data;
  line.positional(
      "DATA", data,
      "folder of prepared text, short for data.dir=DATA; or a text, which is prepared first. Its tokens are characters, "
      "above 5 MB those of its own BPE, or with train.init_from the model's",
      false);
  line.option("--ranks", words.ranks, "N", "ranks, each a thread of this process with its share of the cores");
  line.option(
      "--minutes", words.minutes, "N",
      "how long a run takes whose model and length nothing says; 3 unless it is given. Both are then chosen for this text "
      "and this machine");
  line.flag("--watch", words.watch, "PORT", watch_port,
            fmt::format("show the run in a browser while it trains, at this port of 127.0.0.1; without one at {}; 0: any that is "
                        "free",
                        watch_port),
            65535);
  line.flag("--dry-run", words.dry_run,
            "resolve the settings, print them with the parameter and memory accounting, and stop; any number of ranks");
  line.note(
      "examples:\n"
      "  lockstep train book.txt\n"
      "  lockstep train data/fortunes model.n_layer=4 model.n_head=4 model.n_embd=128 model.block_size=64\n"
      "  lockstep train --config configs/shakespeare-char.toml train.max_iters=500\n"
      "  lockstep train config/train_shakespeare_char.py --max_iters=500 --out_dir=runs/nano\n"
      "  lockstep train --ranks 4 train.backend=ps parallel.servers=1 parallel.ps=async parallel.staleness=4\n"
      "  lockstep train log.dir=runs/first train.init_from=resume\n"
      "Stop with Ctrl-C at any time: the step ends, everything is saved, and the run goes on with train.init_from=resume.");
  if (!line.parse(arguments)) return std::nullopt;
  if (words.watch && *words.watch < 0)
    throw UserError(fmt::format("--watch={}: must be from 0 to 65535", *words.watch), fmt::format("--watch={}", watch_port));
  if (!data.empty()) std::ranges::copy(data_settings(data, words.sources.overrides), std::back_inserter(words.sources.overrides));
  return words;
}

}  // namespace lockstep::app
