// dqctl completion: writes the scripts that call `dqctl __complete`.
#include "commands.h"

namespace dqctl {
namespace {

struct CompletionArgs {
  std::string shell{};
};

constexpr const char* kBash = R"sh(# bash completion of dqctl:  source <(dqctl completion bash)
_dqctl() {
  local i word cut words=()
  # The shell splits words at : and =, which are common in URLs and names of queues.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    if ((i > 0)) && [[ ${COMP_WORDS[i]} == [:=]* || ${words[${#words[@]} - 1]} == *[:=] ]]; then
      words[${#words[@]} - 1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  COMPREPLY=()
  # Names of queues and ids come from Redis and are untrusted: dqctl quotes them for the shell, and omits unsafe ones.
  while IFS= read -r word; do
    COMPREPLY+=("$word")
  done < <(command dqctl __complete --bash -- "${words[@]:1}" 2>/dev/null)
  word=${words[${#words[@]} - 1]}
  [[ $word != --*=* ]] || word=${word#*=}
  # bash replaces only the text after the last : or =, unless the word is in quotes.
  [[ $word != [\'\"]* ]] || return 0
  cut=${word%"${word##*[:=]}"}
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$cut"}; done
}
complete -o default -F _dqctl dqctl
)sh";

constexpr const char* kZsh = R"sh(#compdef dqctl
# zsh completion of dqctl:  source <(dqctl completion zsh), or as a file _dqctl in a folder of $fpath
_dqctl() {
  local word=${PREFIX:-$words[CURRENT]}
  local -a offered
  offered=("${(@f)$(command dqctl __complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)word}" 2>/dev/null)}")
  [[ $word != --*=* ]] || compset -P 1 '--*='
  [[ $offered[1] != $'\t'* ]] || { _files; return }
  # Names of queues and ids come from Redis and are untrusted: compadd quotes them for the shell.
  offered=("${(@)offered%%$'\t'*}")
  compadd -- "${(@)offered:#}"
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _dqctl "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D }
  compdef _dqctl dqctl
fi
)sh";

constexpr const char* kFish = R"sh(# fish completion of dqctl:  dqctl completion fish | source
function __dqctl_offered
  set -l words (commandline -opc)
  set -l word (commandline -ct)
  set -l option (string match -r -- '^--[^=]*=' "$word")
  set -l offered (command dqctl __complete -- $words[2..-1] "$word" 2>/dev/null)
  if string match -q -- \t\* "$offered[1]"
    set offered (__fish_complete_path (string replace -- "$option" '' "$word"))
  end
  string join \n -- "$option"$offered
end
complete -c dqctl -f -a '(__dqctl_offered)'
)sh";

}  // namespace

void add_completion(Cli& cli, Context& context) {
  const auto args = std::make_shared<CompletionArgs>();
  cli.add("completion", "Writes a shell script that completes commands, options and names of queues",
          {"completion bash > /etc/bash_completion.d/dqctl", "completion fish | source"})
      .argument("SHELL", args->shell, "bash, zsh or fish")
      .run([&context, args] {
        const std::string& shell = args->shell;
        if (shell != "bash" && shell != "zsh" && shell != "fish") {
          throw Usage(
              "SHELL: none that is known (not repeated here, for it may be a password); expected bash, zsh or fish");
        }
        context.out().write(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
        return Exit::done;
      });
}

}  // namespace dqctl
