// dqctl __complete, hidden: writes the words that the shell completions offer.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "commands.h"
#include "lines.h"

namespace dqctl {
namespace {

using delayqueue::State;

constexpr unsigned kTimeout = 2;          // seconds; a Tab that takes longer offers nothing
constexpr milliseconds kEachWait{1000};   // for a connection, and for each answer
constexpr std::size_t kLooked = 500;      // messages per state
constexpr std::size_t kIdsOffered = 100;  // more than anyone reads

struct CompleteArgs {
  bool bash = false;
  std::vector<std::string> words{};
};

// A word as typed in bash.
struct Typed {
  std::string text{};  // the word as bash reads it, without quotes
  char open = 0;       // the quote that is still open: ' or "
  bool plain = true;   // reply_for can continue it: no quotes, or one at its start that is still open
};

// The control character of an escape such as \n in $'...'. Any other character stands for itself.
char control_of(char escape) {
  static constexpr std::string_view kEscapes = "abeEfnrtv", kControls = "\a\b\033\033\f\n\r\t\v";
  const std::size_t at = kEscapes.find(escape);
  return at == std::string_view::npos ? escape : kControls[at];
}

// Reads a word as bash does. Unset: bash would expand something in it.
std::optional<Typed> typed_in_bash(std::string_view word) {
  Typed typed;
  char quote = 0;  // $ stands for $'
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    const bool last = i + 1 == word.size();
    if (quote == 0 && c == '$' && !last && word[i + 1] == '\'') {
      typed.plain = false;
      quote = '$';
      ++i;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      typed.plain = typed.plain && i == 0;
      quote = c;
    } else if (quote != 0 && c == (quote == '$' ? '\'' : quote)) {
      typed.plain = false;
      quote = 0;
    } else if ((quote == 0 || quote == '"') && (c == '$' || c == '`')) {
      return std::nullopt;
    } else if (c != '\\' || quote == '\'' || last) {
      if (c != '\\' || quote == '\'') typed.text += c;
    } else if (quote == '$' && word[i + 1] >= '0' && word[i + 1] <= '7') {  // octal, as in_quotes() writes it
      unsigned code = 0;
      for (int digits = 0; digits < 3 && i + 1 < word.size() && word[i + 1] >= '0' && word[i + 1] <= '7'; ++digits) {
        code = code * 8 + static_cast<unsigned>(word[++i] - '0');
      }
      typed.text += static_cast<char>(code);
    } else {
      const char next = word[++i];
      if (quote == '"' && std::string_view("\\\"$`").find(next) == std::string_view::npos) typed.text += c;
      typed.text += quote == '$' ? control_of(next) : next;
    }
  }
  typed.open = quote == '$' ? 0 : quote;
  return typed;
}

// The text to replace the word with in bash, without its open quote, which bash keeps. Bash also adds the closing
// quote, unless the last character looks like one.
std::string reply_for(const Typed& typed, std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = static_cast<signed char>(c) < 0 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
    if (typed.open == '\'') {
      out += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (typed.open == '"' && c == '!') {  // history expansion, even behind a backslash
      out += "\"'!'\"";
    } else {
      const bool special = typed.open == '"' ? std::string_view("\\\"$`").find(c) != std::string_view::npos : !plain;
      out += (special ? "\\" : "") + std::string(1, c);
    }
  }
  if (typed.open != 0 && !out.empty() && out.back() == typed.open) out += typed.open;
  return out;
}

// The states whose messages the command can act on.
std::vector<State> states_for(const std::string& command) {
  if (command == "redrive") return {State::dead};
  if (command == "extend") return {State::unack};
  if (command == "release") return {State::pending, State::unack};
  std::vector<State> states = {State::pending, State::ready, State::retry, State::unack};
  if (command == "show" || command == "cancel") states.push_back(State::dead);
  return states;
}

// A word that may stand at the cursor, and its description.
struct Offer {
  std::string word{};
  std::string what{};
};

// The command line up to the cursor.
class CommandLine {
 public:
  CommandLine(const Cli& cli, const std::vector<std::string>& words)
      : commands_(cli.commands()), options_(cli.global_options()), prefix_(words.back()) {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) take(words[i]);
    const std::size_t equals = prefix_.find('=');
    if (option_ || only_arguments_ || !is_long(prefix_) || equals == std::string::npos) return;
    find_option(prefix_.substr(0, equals));
    prefix_.erase(0, equals + 1);
  }

  // What the word at the cursor is, such as QUEUE, ID or FILE. Empty: an option, a command, or unknown.
  std::string kind() const {
    if (option_) return option_->value;
    if (is_option(prefix_)) return "";
    std::string kind;
    std::size_t place = 0;
    for (const OptionInfo& option : options_) {
      if (!option.argument) continue;
      const bool here = place == arguments_.size() || (option.repeated && place < arguments_.size());
      if (here) kind = option.names.front();
      ++place;
    }
    return kind;
  }

  // The words that are known without Redis.
  std::vector<Offer> offers() const {
    std::vector<Offer> out;
    if (option_) {
      for (const std::string& value : option_->values) out.push_back({value});
    } else if (is_option(prefix_)) {
      for (const OptionInfo& option : options_) {
        if (option.argument) continue;
        for (const std::string& name : option.names) out.push_back({name, option.what});
      }
    } else if (command_.empty()) {
      for (const CommandInfo& command : commands_) out.push_back({command.name, command.what});
    } else if (kind() == "SHELL") {
      out = {{"bash"}, {"zsh"}, {"fish"}};
    }
    return out;
  }

  const std::string& prefix() const { return prefix_; }
  const std::string& command() const { return command_; }
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  static bool is_long(const std::string& word) { return word.rfind("--", 0) == 0 && word.size() > 2; }
  bool is_option(const std::string& word) const { return !only_arguments_ && word.rfind('-', 0) == 0; }

  void take(const std::string& word) {
    if (option_) {
      option_.reset();
    } else if (!only_arguments_ && word == "--") {
      only_arguments_ = true;
    } else if (is_option(word) && word != "-") {
      const std::size_t end = is_long(word) ? word.find('=') : 2;
      find_option(word.substr(0, end));
      if (end < word.size()) option_.reset();
    } else if (command_.empty()) {
      command_ = word;
      for (const CommandInfo& command : commands_) {
        if (command.name == word) options_.insert(options_.begin(), command.options.begin(), command.options.end());
      }
    } else {
      arguments_.push_back(word);
    }
  }

  // Finds an option that takes a value.
  void find_option(const std::string& name) {
    for (const OptionInfo& option : options_) {
      const bool same = std::find(option.names.begin(), option.names.end(), name) != option.names.end();
      if (same && !option.argument && !option.value.empty()) option_ = option;
    }
  }

  const std::vector<CommandInfo> commands_;
  std::vector<OptionInfo> options_;  // of the command, then of all commands
  std::string prefix_;               // of the word at the cursor
  std::string command_{};
  std::optional<OptionInfo> option_{};  // its value comes next
  std::vector<std::string> arguments_{};
  bool only_arguments_ = false;
};

// Applies the options that name the server and the queue. The command line is incomplete, so errors are expected.
void apply_options(Cli& cli, Context& context, std::vector<std::string> words) {
  words.insert(words.begin(), "dqctl");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  try {
    cli.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const Usage&) {
  }
  context.options.format = "table";  // an error must not become a document on stdout
  context.options.connect_timeout = context.options.command_timeout = kEachWait;
  context.resolve_options();
}

std::vector<std::string> ids_of(Context& context, const CommandLine& line) {
  delayqueue::ListOptions options;
  options.limit = kLooked;
  options.payload = 0;
  std::vector<std::string> ids;
  for (const State state : states_for(line.command())) {
    for (const auto& message : context.inspector(line.arguments().front()).list(state, options)) {
      if (ids.size() == kIdsOffered) return ids;
      if (is_stored_id(message.id) && message.id.rfind(line.prefix(), 0) == 0) ids.push_back(message.id);
    }
  }
  return ids;
}

Exit complete(Cli& cli, Context& context, const CompleteArgs& args) {
  std::vector<std::string> words = args.words;
  Typed typed;
  for (std::string& word : words) {
    if (!args.bash) break;
    const auto read = typed_in_bash(word);
    if (!read) return Exit::done;
    typed = *read;
    word = typed.text;
  }
  if (words.empty() || !typed.plain) return Exit::done;
  const CommandLine line(cli, words);
  const auto offer = [&](const std::string& word, const std::string& what) {
    const bool fits = !args.bash || word.rfind(line.prefix(), 0) == 0;
    if (fits) context.out().line(args.bash ? reply_for(typed, word) : what.empty() ? word : word + '\t' + what);
  };
  for (const Offer& one : line.offers()) offer(one.word, one.what);
  const std::string kind = line.kind();
  if (kind == "FILE" && !args.bash) context.out().line("\tFILE");  // bash completes files if nothing is offered
  const std::vector<std::string>& given = line.arguments();
  const bool ids = kind.rfind("ID", 0) == 0 && !given.empty();
  if (!ids && kind != "QUEUE") return Exit::done;
  apply_options(cli, context, words);
  if (context.uri().rfind("embedded:", 0) == 0) return Exit::done;  // a connection would start a server
  ::signal(SIGALRM, [](int) { ::_exit(static_cast<int>(Exit::failed)); });
  ::alarm(kTimeout);
  for (const std::string& name : ids ? ids_of(context, line) : context.inspector("queues").queues()) {
    const bool repeated = std::find(given.begin(), given.end(), name) != given.end();
    if (is_plain_name(name) && !repeated) offer(name, "");
  }
  return Exit::done;
}

}  // namespace

void add_complete(Cli& cli, Context& context) {
  const auto args = std::make_shared<CompleteArgs>();
  cli.add("__complete", "Writes what may stand at the end of a command line", {"__complete -- show orders ''"}, true)
      .flag("--bash", args->bash, "The words are quoted for bash; so is what is written, to replace the last word")
      .arguments("WORD...", args->words, "The words behind dqctl, up to the cursor; the last may be empty")
      .run([&cli, &context, args] { return complete(cli, context, *args); });
}

}  // namespace dqctl
