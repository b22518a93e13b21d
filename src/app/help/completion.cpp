// `lockstep completion`: scripts of shells, which ask this program what may stand for a word.

#include "app/help/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "app/cli/command_line.h"
#include "app/help/help.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

struct Script {
  std::string_view shell, text;
};

// A line of `completion words` is WORD TAB MEANING; "<files>" and "<folders>" stand for what the shell itself knows.
constexpr Script scripts[] = {
    {"bash", R"sh(# Completion of lockstep for bash: source it, or put it into a folder of bash-completion.
_lockstep() {
    # Bash takes key=value for three words.
    local words=() files=() glue= word line
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ( $glue || $word =~ ^[=:]+$ ) ]]; then words[-1]+=$word; else words+=("$word"); fi
        glue=
        [[ ! $word =~ ^[=:]+$ ]] || glue=1
    done
    local current=${COMP_WORDS[COMP_CWORD]}
    [[ ! $current =~ ^[=:]+$ ]] || current=
    local before=${words[-1]%"$current"}
    COMPREPLY=()
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        case $word in
        '<files>') mapfile -t files < <(compgen -f -- "$current") ;;
        '<folders>') mapfile -t files < <(compgen -d -- "$current") ;;
        *)
            COMPREPLY+=("${word#"$before"}")
            [[ $word != *[=.] ]] || compopt -o nospace 2>/dev/null
            ;;
        esac
    done < <("${COMP_WORDS[0]/#\~/$HOME}" completion words "${words[@]}" 2>/dev/null)
    # What names of files need (a slash, quotes) would spoil a setting's "=".
    [ ${#COMPREPLY[@]} != 0 ] || compopt -o filenames 2>/dev/null
    COMPREPLY+=("${files[@]}")
}
complete -F _lockstep lockstep
)sh"},
    {"zsh", R"sh(#compdef lockstep
# Completion of lockstep for zsh: put it as _lockstep into a folder of $fpath, or source it behind compinit.
_lockstep() {
    local line word meaning places=
    local -a whole going
    for line in ${(f)"$(${~${(Q)words[1]}} completion words "${(@Q)words[2,CURRENT]}" 2>/dev/null)"}; do
        word=${line%%$'\t'*} meaning=${line#*$'\t'}
        case $word in
        '<files>') places=files ;;
        '<folders>') places=folders ;;
        *[=.]) going+=("${word//:/\\:}${meaning:+:$meaning}") ;;
        *) whole+=("${word//:/\\:}${meaning:+:$meaning}") ;;
        esac
    done
    (( ! $#whole )) || _describe -t words 'word' whole
    (( ! $#going )) || _describe -t words 'setting' going -S ''
    [[ -z $places ]] || compset -P '*='
    case $places in
    files) _files ;;
    folders) _files -/ ;;
    esac
}
if [[ ${funcstack[1]} == _lockstep ]]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
)sh"},
    {"fish", R"sh(# Completion of lockstep for fish: put it as lockstep.fish into ~/.config/fish/completions.
function __lockstep_words
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l head (string match -r '^.*=' -- $current)
    for line in ($before[1] completion words $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case '<files>*'
                for path in (__fish_complete_path (string replace -r '^.*=' '' -- $current))
                    echo $head$path
                end
            case '<folders>*'
                for path in (__fish_complete_directories (string replace -r '^.*=' '' -- $current))
                    echo $head$path
                end
            case '*'
                echo $line
        end
    end
end
complete -c lockstep -f -a '(__lockstep_words)'
)sh"}};

void print_words(const CommandSheet& program, const std::vector<std::string>& words) {
  const Candidates found = candidates_for(program, words);
  for (const HelpRow& row : found.words) fmt::print("{}\t{}\n", row.left, row.right);
  if (found.places != Places::none) fmt::print("{}\t\n", found.places == Places::files ? "<files>" : "<folders>");
}

int completion(const std::vector<Command>& commands, const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "words") {  // no line of options: its words are another's
    print_words(program_sheet(commands, true), {arguments.begin() + 1, arguments.end()});
    return 0;
  }
  std::vector<std::string_view> shells;
  for (const Script& script : scripts) shells.push_back(script.shell);
  std::string shell;
  CommandLine line("completion",
                   "Print a script that completes commands, options, settings and their values in a shell. It asks the program "
                   "that is typed: `lockstep completion words WORD...` prints what may stand for the last word.");
  line.positional(fmt::format("{}", fmt::join(shells, "|")), shell, "the shell");
  line.note(
      "examples:\n"
      "  source <(lockstep completion bash)   # in ~/.bashrc\n"
      "  lockstep completion zsh > ~/.zfunc/_lockstep\n"
      "  lockstep completion fish > ~/.config/fish/completions/lockstep.fish");
  if (!line.parse(arguments)) return 0;
  const auto* const script = std::ranges::find(scripts, shell, &Script::shell);
  if (script == std::end(scripts))
    throw UserError(fmt::format("completion {}: there is a script for {}", shell, fmt::join(shells, ", ")),
                    fmt::format("lockstep completion {}", shells[0]));
  fmt::print("{}", script->text);
  return 0;
}

}  // namespace

Command completion_command(std::vector<Command> commands) {
  return {"completion", "a script by which bash, zsh or fish completes what is typed",
          [own = std::move(commands)](const Arguments& arguments) { return completion(with_help(own), arguments); }};
}

}  // namespace lockstep::app
