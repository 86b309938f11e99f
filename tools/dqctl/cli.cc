#include "cli.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>

#include "context.h"
#include "output/output.h"
#include "output/text.h"

namespace dqctl {
namespace {

// CLI11 splits "[a,b]" into two values, and takes the argument after an empty "--name=" as its value. This mark in
// front of a value prevents both.
constexpr const char* kMark = "\x01\x02";

// The position of the value in "--name=value"; 0 for any other argument.
std::size_t value_begin(const std::string& argument) {
  const std::size_t equals = argument.rfind("--", 0) == 0 ? argument.find('=') : std::string::npos;
  return equals == std::string::npos ? 0 : equals + 1;
}

std::string guarded(std::string argument) {
  const std::size_t begin = value_begin(argument);
  const std::string value = argument.substr(begin);
  const bool is_list = value.size() > 1 && value.front() == '[' && value.back() == ']';
  const bool is_empty = begin > 0 && value.empty();
  if (is_list || is_empty || value.find(kMark) != std::string::npos) argument.insert(begin, kMark);
  return argument;
}

// Removes the mark from a value, or from a whole argument that CLI11 took for a value.
std::string unguarded(std::string argument) {
  const std::size_t begin = argument.rfind(kMark, 0) == 0 ? 0 : value_begin(argument);
  if (argument.compare(begin, 2, kMark) == 0) argument.erase(begin, 2);
  return argument;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// Describes the arguments that CLI11 could not place. Names options, but only counts the others: they may be
// passwords.
std::string names_of_unexpected(const std::vector<std::string>& rest) {
  std::vector<std::string> options;
  std::size_t words = 0;
  for (const std::string& word : rest) {
    if (word == "--") continue;
    const bool is_long = word.rfind("--", 0) == 0 && word.size() > 2;
    const bool is_short = !is_long && word.size() > 1 && word.front() == '-';
    if (is_long) options.push_back(in_quotes(word.substr(0, word.find('='))));
    if (is_short) options.push_back(in_quotes(word.substr(0, 2)));
    if (!is_long && !is_short) ++words;
  }
  std::string text;
  if (!options.empty()) text = "no option " + joined(options, ", ");
  if (words == 0) return text;
  text += (text.empty() ? "" : "; ") + std::to_string(words) + (words == 1 ? " argument" : " arguments");
  return text + " too many (not repeated here, for " + (words == 1 ? "it" : "one") + " may be a password)";
}

constexpr const char* kFooter =
    R"(Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 partly done,
5 threshold passed.
Arguments after -- are not options: dqctl stats -- "$queue".
Durations: 250ms 10s 5m 2h 3d 1w 1h30m. Times: 2026-11-21T19:36:45Z or +10m.
Environment: DELAYQUEUE_URI, DELAYQUEUE_PASSWORD, NO_COLOR; for Sentinels
DELAYQUEUE_SENTINEL_USER and DELAYQUEUE_SENTINEL_PASSWORD; DQCTL_AUDIT=1.
Every command has a --help with an example. The rest is in `man dqctl`.)";

void check_choice(const std::string& name, const std::string& value, const std::vector<std::string>& values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  throw Usage(name + ": '" + printable(value) + "'; expected one of " + joined(values, ", "));
}

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kHelpColumn = 28;

// The help of CLI11, with wrapped descriptions, and without the repetition of positional arguments.
class Help : public CLI::Formatter {
 public:
  Help() { column_width(kHelpColumn); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string text = make_option_desc(option);
    std::string name = "  " + make_option_name(option, is_positional);
    if (!is_positional && !option->get_type_name().empty()) name += ' ' + option->get_type_name();
    if (!is_positional && option->get_required()) name += " (needed)";
    return beside(name, text);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return beside("  " + command->get_name(), command->get_description());
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = make_option_name(option, true);
    return option->get_required() ? name : "[" + name + "]";
  }

  std::string make_description(const CLI::App* app) const override { return wrapped(app->get_description(), 0) + "\n"; }

 private:
  // Wraps a text into lines. All but the first are indented.
  static std::string wrapped(const std::string& text, std::size_t indent) {
    std::istringstream words(text);
    std::string out;
    std::size_t used = indent;
    for (std::string word; words >> word;) {
      if (used > indent && used + 1 + word.size() > kHelpWidth) {
        out += '\n' + std::string(indent, ' ');
        used = indent;
      }
      if (used > indent) out += ' ', ++used;
      out += word;
      used += word.size();
    }
    return out;
  }

  static std::string beside(const std::string& name, const std::string& text) {
    const bool fits = name.size() + 2 <= kHelpColumn;
    const std::string gap = fits ? std::string(kHelpColumn - name.size(), ' ') : '\n' + std::string(kHelpColumn, ' ');
    return name + gap + wrapped(text, kHelpColumn) + '\n';
  }
};

}  // namespace

Command::Setter into_given(const char* name, std::string& into) {
  return [name, &into](const std::string& value) {
    if (value.empty()) throw Usage(std::string(name) + ": ''; expected a value, or no " + name);
    into = value;
  };
}

Command& Command::argument(const std::string& name, std::string& into, const std::string& what, bool required) {
  info_.options.push_back({{name}, name, {}, what, true, required});
  const Setter take = [&into](const std::string& value) { into = unguarded(value); };
  app_->add_option_function(name, take, what)->type_name("")->required(required);
  return *this;
}

Command& Command::arguments(const std::string& name, std::vector<std::string>& into, const std::string& what,
                            bool required) {
  info_.options.push_back({{name}, name, {}, what, true, required, true});
  const std::function<void(const std::vector<std::string>&)> take = [&into](const auto& values) {
    for (const std::string& value : values) into.push_back(unguarded(value));
  };
  app_->add_option_function(name, take, what)->type_name("")->required(required);
  return *this;
}

Command& Command::flag(const std::string& names, bool& into, const std::string& what) {
  info_.options.push_back({CLI::detail::split_names(names), "", {}, what});
  app_->add_flag(names, into, what);
  return *this;
}

Command& Command::choice(const std::string& names, std::string& into, const std::vector<std::string>& values,
                         const std::string& what) {
  const auto take = [&into, values, name = long_name(names)](const std::string& value) {
    check_choice(name, value, values);
    into = value;
  };
  return custom(names, take, joined(values, "|"), what, values);
}

Command& Command::choices(const std::string& names, std::vector<std::string>& into,
                          const std::vector<std::string>& values, const std::string& value, const std::string& what) {
  const auto take = [&into, values, name = long_name(names)](const std::string& given) {
    check_choice(name, given, values);
    into.push_back(given);
  };
  return custom(names, take, value, what, values).repeatable();
}

Command& Command::duration(const std::string& names, std::optional<milliseconds>& into, const std::string& what) {
  const auto take = [name = long_name(names), &into](const std::string& value) { into = parse_duration(name, value); };
  return custom(names, take, "D", what);
}

Command& Command::state(const std::string& names, std::optional<delayqueue::State>& into, const std::string& what) {
  const auto take = [name = long_name(names), &into](const std::string& value) { into = parse_state(name, value); };
  return custom(names, take, "STATE", what, {"pending", "ready", "unack", "retry", "dead"});
}

Command& Command::custom(const std::string& names, const Setter& take, const std::string& value,
                         const std::string& what, const std::vector<std::string>& values) {
  info_.options.push_back({CLI::detail::split_names(names), value, values, what});
  const Setter take_plain = [take](const std::string& given) { take(unguarded(given)); };
  last_ = app_->add_option_function(names, take_plain, what)
              ->type_name(value)
              ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  return *this;
}

Command& Command::repeatable() {
  last_->trigger_on_parse();
  return *this;
}

Command& Command::required() {
  last_->required();
  info_.options.back().required = true;
  return *this;
}

Command& Command::silent() {
  silent_ = true;
  return *this;
}

void Cli::add_globals(GlobalOptions& options) {
  app_->formatter(std::make_shared<Help>());
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->footer(kFooter);
  app_->set_version_flag("--version", std::string("dqctl ") + DQCTL_VERSION, "Shows the version");
  app_->get_help_ptr()->description("Shows this help");
  globals_.info_.options.push_back({{"-h", "--help"}, "", {}, "Shows help; after a command, that of the command"});
  globals_.info_.options.push_back({{"--version"}, "", {}, "Shows the version"});

  globals_.custom("-u,--uri", into_given("--uri", options.uri), "URL",
                  "The server: redis://host:port/db, rediss://, unix:///path, redis+sentinel://, redis+cluster://, "
                  "embedded:/folder (DELAYQUEUE_URI; redis://127.0.0.1:6379)");
  globals_.text("--prefix", options.prefix, "TEXT", "Prefix of all keys (dp)");
  globals_.choice("--hash-tag", options.hash_tag, {"auto", "on", "off"}, "Keys in one Cluster slot (auto)");
  globals_.custom("--tls-ca", into_given("--tls-ca", options.tls_ca), "FILE", "Certificate authorities, PEM");
  globals_.custom("--tls-cert", into_given("--tls-cert", options.tls_cert), "FILE", "Client certificate, PEM");
  globals_.custom("--tls-key", into_given("--tls-key", options.tls_key), "FILE", "Its key, PEM");
  globals_.custom("--user", into_given("--user", options.user), "NAME", "ACL user");
  globals_.custom("--password-file", into_given("--password-file", options.password_file), "FILE",
                  "Its first line is the password (DELAYQUEUE_PASSWORD)");
  const auto timeout = [](const char* name, std::optional<milliseconds>& into) {
    return [name, &into](const std::string& value) {
      into = parse_duration(name, value);
      if (into->count() == 0) throw Usage(std::string(name) + ": '" + value + "'; expected at least 1ms");
    };
  };
  globals_.custom("--connect-timeout", timeout("--connect-timeout", options.connect_timeout), "D",
                  "For connecting, with name look-up, TLS and login (2s)");
  globals_.custom("--command-timeout", timeout("--command-timeout", options.command_timeout), "D",
                  "For each answer of the server (3s)");
  globals_.choice("-o,--output", options.format, {"table", "json", "ndjson"}, "How data is shown (table)");
  globals_.flag("--no-color", options.no_colour, "No colours (NO_COLOR)");
  globals_.flag("--utc", options.utc, "Times in UTC, not in local time");
  globals_.flag("--audit", options.audit, "Record what is changed, for dqctl actions (DQCTL_AUDIT=1)");
}

Cli::Cli(GlobalOptions& options)
    : app_(std::make_unique<CLI::App>("dqctl shows the queues of delayqueue, acts on them and repairs them.", "dqctl")),
      globals_(app_.get(), {}) {
  add_globals(options);
}

Cli::~Cli() = default;

Command& Cli::add(const std::string& name, const std::string& what, const std::vector<std::string>& examples,
                  bool hidden) {
  CLI::App* app = app_->add_subcommand(name, what);
  app->group(hidden ? "" : "Commands");
  app->get_help_ptr()->description("Shows this help");
  std::string footer = examples.size() == 1 ? "Example:\n" : "Examples:\n";
  for (const std::string& example : examples) footer += "  dqctl " + example + "\n";
  app->footer(footer + "\nOptions of all commands (--uri, --output ...): dqctl --help");
  return commands_.emplace_back(app, CommandInfo{name, what, examples, {}});
}

// The command of the parsed command line, or null.
const Command* Cli::chosen() const {
  const auto parsed = [](const Command& command) { return command.app_->parsed(); };
  const auto found = std::find_if(commands_.begin(), commands_.end(), parsed);
  return found == commands_.end() ? nullptr : &*found;
}

// Throws a Usage for an error of CLI11.
void Cli::explain(const std::string& error, bool is_bad_flag) const {
  const Command* command = chosen();
  const std::vector<std::string> rest = app_->remaining();
  const auto is_option = [](const std::string& one) { return one.rfind('-', 0) == 0; };
  const auto word = std::find_if_not(rest.begin(), rest.end(), is_option);
  if (command == nullptr && word != rest.end()) {
    std::vector<std::string> names;
    for (const CommandInfo& known : commands()) names.push_back(known.name);
    const std::string meant = nearest(*word, names);
    if (!meant.empty()) throw Usage("no command like that; did you mean " + meant + "? see dqctl --help");
    if (std::none_of(rest.begin(), rest.end(), is_option)) {
      throw Usage("no command like that (not repeated here, for it may be a password); see dqctl --help");
    }
  }
  const std::string help = "; see dqctl " + (command == nullptr ? "" : command->info_.name + " ") + "--help";
  if (!rest.empty()) throw Usage(names_of_unexpected(rest) + help);
  if (command == nullptr) throw Usage("a command is missing" + help);
  throw Usage((is_bad_flag ? "a flag was given a value" : printable(error)) + help);
}

std::function<Exit()> Cli::parse(int argc, char** argv) {
  try {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) arguments.push_back(guarded(argv[i]));  // CLI11 expects the last one first
    app_->parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    app_->exit(success, text, text);
    return [text = text.str()] {
      Output out;
      out.write(text);
      out.flush();
      return Exit::done;
    };
  } catch (const CLI::ParseError& error) {
    explain(error.what(), dynamic_cast<const CLI::ConversionError*>(&error) != nullptr);
  }
  return chosen()->run_;
}

bool Cli::prints() const { return chosen() == nullptr || !chosen()->silent_; }

std::vector<CommandInfo> Cli::commands() const {
  std::vector<CommandInfo> out;
  for (const Command& command : commands_) {
    if (!command.app_->get_group().empty()) out.push_back(command.info_);
  }
  return out;
}

}  // namespace dqctl
