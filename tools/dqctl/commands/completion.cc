// dqctl completion
#include "commands.h"

namespace dqctl {
namespace {

struct Args {
  std::string shell{};
};

std::string joined(const std::vector<std::string>& words, const std::string& before, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + before + word;
  return out;
}

std::vector<std::string> names_of(const std::vector<OptionInfo>& options, bool only_with_value) {
  std::vector<std::string> out;
  for (const OptionInfo& option : options) {
    if (option.argument || (only_with_value && option.value.empty())) continue;
    out.insert(out.end(), option.names.begin(), option.names.end());
  }
  return out;
}

bool takes_queue(const CommandInfo& command) {
  return !command.options.empty() && command.options.front().argument &&
         command.options.front().names.front() == "QUEUE";
}

std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

constexpr const char* kBashHead = R"sh(# bash completion of dqctl:  source <(dqctl completion bash)
_dqctl_words() {
  COMPREPLY=($(compgen -W "$1" -- "$cur"))
}
_dqctl_files() {
  local file
  compopt -o filenames 2>/dev/null
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
}
# Names of queues and ids come from Redis and are untrusted: dqctl quotes them for the shell, and omits unsafe ones.
_dqctl_names() {
  local name
  while IFS= read -r name; do
    COMPREPLY+=("$name")
  done < <(command dqctl __complete --bash -- "${words[@]:1}" 2>/dev/null)
}
_dqctl_all() {
  local i prev command= words=()
  # The shell splits words at : and =, which are common in URLs and names of queues.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    if ((i > 0)) && [[ ${COMP_WORDS[i]} == [:=]* || ${words[${#words[@]} - 1]} == *[:=] ]]; then
      words[${#words[@]} - 1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  COMPREPLY=()
  cur=${words[${#words[@]} - 1]}
  prev=${words[${#words[@]} - 2]}
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
  fi
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    case ${words[i]} in
)sh";

constexpr const char* kBashMiddle = R"sh() ((++i)) ;;
      -*) ;;
      *) [[ -n $command ]] || command=${words[i]} ;;
    esac
  done
)sh";

constexpr const char* kBashTail = R"sh(  esac
}
_dqctl() {
  local cur i
  _dqctl_all
  # bash replaces only the text after the last : or =, unless the word is in quotes.
  [[ $cur != [\'\"]* ]] || return 0
  local cut=${cur%"${cur##*[:=]}"}
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$cut"}; done
}
complete -o default -F _dqctl dqctl
)sh";

constexpr const char* kZshHead = R"sh(#compdef dqctl
# zsh completion of dqctl:  source <(dqctl completion zsh), or as a file _dqctl in a folder of $fpath
# Names of queues and ids come from Redis and are untrusted: compadd quotes them for the shell.
_dqctl_names() {
  local -a names
  names=("${(@f)$(command dqctl __complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  names=("${(@)names:#}")
  compadd -- "${(@)names}"
}
_dqctl() {
  local i command prev=$words[CURRENT-1]
  for ((i = 2; i < CURRENT; ++i)); do
    case $words[i] in
)sh";

constexpr const char* kZshTail = R"sh(  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _dqctl "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D }
  compdef _dqctl dqctl
fi
)sh";

// The cases for options that take a value. command: the command of the options, "*" for all commands.
std::string value_cases(const std::string& command, const std::vector<OptionInfo>& options) {
  std::string out;
  for (const OptionInfo& option : options) {
    if (option.argument || option.value.empty()) continue;
    const std::string words = "_dqctl_words " + in_single_quotes(joined(option.values, "", " "));
    const std::string reply = option.value == "FILE"    ? "_dqctl_files"
                              : option.value == "QUEUE" ? "_dqctl_names"
                                                        : words;
    out += "    " + joined(option.names, command + ",", " | ") + ") " + reply + "; return ;;\n";
  }
  return out;
}

std::string bash(const Cli& cli) {
  const std::vector<CommandInfo> commands = cli.commands();
  std::vector<std::string> with_value = names_of(cli.global_options(), true);
  std::vector<std::string> names;
  std::string values;
  for (const CommandInfo& command : commands) {
    names.push_back(command.name);
    for (const std::string& name : names_of(command.options, true)) with_value.push_back(name);
    values += value_cases(command.name, command.options);
  }
  const std::string globals = joined(names_of(cli.global_options(), false), "", " ");
  std::string out = kBashHead + std::string("      ") + joined(with_value, "", " | ") + kBashMiddle;
  out += "  case $command,$prev in\n" + values + value_cases("*", cli.global_options()) + "  esac\n";
  out += "  case $command in\n    '') _dqctl_words '" + joined(names, "", " ") + ' ' + globals + "' ;;\n";
  for (const CommandInfo& command : commands) {
    out += "    " + command.name + ")\n      if [[ $cur == -* ]]; then\n        _dqctl_words '" +
           joined(names_of(command.options, false), "", " ") + ' ' + globals + "'\n";
    if (takes_queue(command)) out += "      else\n        _dqctl_names\n";
    if (command.name == "completion") out += "      else\n        _dqctl_words 'bash zsh fish'\n";
    out += "      fi ;;\n";
  }
  return out + kBashTail;
}

std::string zsh_cases(const std::string& command, const std::vector<OptionInfo>& options) {
  std::string out;
  for (const OptionInfo& option : options) {
    if (option.argument || option.value.empty()) continue;
    const std::string reply = option.value == "FILE"    ? "_files"
                              : option.value == "QUEUE" ? "_dqctl_names"
                              : option.values.empty()   ? ""
                                                        : "compadd -- " + joined(option.values, "", " ");
    out += "    " + joined(option.names, command + ",", "|") + ") " + reply + "; return ;;\n";
  }
  return out;
}

std::string zsh(const Cli& cli) {
  std::vector<std::string> with_value = names_of(cli.global_options(), true);
  std::vector<std::string> names;
  std::string values, cases;
  const std::string globals = joined(names_of(cli.global_options(), false), "", " ");
  for (const CommandInfo& command : cli.commands()) {
    names.push_back(command.name);
    for (const std::string& name : names_of(command.options, true)) with_value.push_back(name);
    values += zsh_cases(command.name, command.options);
    cases += "    " + command.name + ")\n      if [[ $words[CURRENT] == -* ]]; then\n        compadd -- " +
             joined(names_of(command.options, false), "", " ") + ' ' + globals + "\n";
    if (takes_queue(command)) cases += "      else\n        _dqctl_names\n";
    if (command.name == "completion") cases += "      else\n        compadd -- bash zsh fish\n";
    cases += "      fi ;;\n";
  }
  return kZshHead + std::string("      ") + joined(with_value, "", "|") +
         ") ((++i)) ;;\n      -*) ;;\n      *) [[ -n $command ]] || command=$words[i] ;;\n"
         "    esac\n  done\n  case $command,$prev in\n" +
         values + zsh_cases("*", cli.global_options()) + "  esac\n  case $command in\n    '') compadd -- " +
         joined(names, "", " ") + ' ' + globals + " ;;\n" + cases + kZshTail;
}

std::string fish_option(const OptionInfo& option, const std::string& condition) {
  std::string out = "complete -c dqctl" + condition;
  for (const std::string& name : option.names) {
    out += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) out += option.value == "FILE" ? " -r -F" : " -x";
  if (option.value == "QUEUE") out += " -a '(__dqctl_names)'";
  if (!option.values.empty()) out += " -a '" + joined(option.values, "", " ") + "'";
  return out + " -d " + in_single_quotes(option.what) + "\n";
}

constexpr const char* kFishHead = R"sh(# fish completion of dqctl:  dqctl completion fish | source
function __dqctl_names
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  command dqctl __complete -- $words[2..-1] "$current" 2>/dev/null
end
complete -c dqctl -f
)sh";

std::string fish(const Cli& cli) {
  std::string out = kFishHead;
  for (const OptionInfo& option : cli.global_options()) out += fish_option(option, "");
  std::string with_queue;
  for (const CommandInfo& command : cli.commands()) {
    const std::string description = " -d " + in_single_quotes(command.what);
    out += "complete -c dqctl -n __fish_use_subcommand -a " + command.name + description + "\n";
    const std::string condition = " -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionInfo& option : command.options) {
      if (!option.argument) out += fish_option(option, condition);
    }
    if (takes_queue(command)) with_queue += ' ' + command.name;
  }
  out += "complete -c dqctl -n '__fish_seen_subcommand_from" + with_queue + "' -a '(__dqctl_names)'\n";
  return out + "complete -c dqctl -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";
}

Exit complete(const Cli& cli, Context& context, const std::string& shell) {
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    throw Usage("SHELL: none that is known (not repeated here, for it may be a password); expected bash, zsh or fish");
  }
  context.out().write(shell == "bash" ? bash(cli) : shell == "zsh" ? zsh(cli) : fish(cli));
  return Exit::done;
}

}  // namespace

void add_completion(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  cli.add("completion", "Writes a shell script that completes commands, options and names of queues",
          {"completion bash > /etc/bash_completion.d/dqctl", "completion fish | source"})
      .argument("SHELL", args->shell, "bash, zsh or fish")
      .run([&cli, &context, args] { return complete(cli, context, args->shell); });
}

}  // namespace dqctl
