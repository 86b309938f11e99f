// Parses the command line. Only cli.cc includes CLI11, which costs seconds of compile time per file.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exit.h"
#include "parse.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dqctl {

struct GlobalOptions;

// Describes an option or argument, for completion and the man page.
struct OptionInfo {
  std::vector<std::string> names{};   // "-o", "--output"; the name of an argument: "QUEUE"
  std::string value{};                // placeholder of the value; empty: a flag
  std::vector<std::string> values{};  // allowed values; empty: any
  std::string what{};
  bool argument = false;
  bool required = false;
  bool repeated = false;  // an argument that may be given several times
};

struct CommandInfo {
  std::string name{};
  std::string what{};
  std::vector<std::string> examples{};
  std::vector<OptionInfo> options{};
};

// The options of one command, or of all commands. `into` must live until the command has run. Arguments are taken in
// the order of the calls. Values are checked when the command line is parsed, before anything runs.
class Command {
 public:
  using Setter = std::function<void(const std::string& value)>;  // throws Usage

  Command(CLI::App* app, CommandInfo info) : app_(app), info_(std::move(info)) {}

  // Positional arguments. name: such as QUEUE.
  Command& argument(const std::string& name, std::string& into, const std::string& what, bool required = true);
  Command& arguments(const std::string& name, std::vector<std::string>& into, const std::string& what,
                     bool required = true);

  // names: "--limit", or "-n,--limit". value: the placeholder in the help, such as GLOB.
  Command& flag(const std::string& names, bool& into, const std::string& what);
  Command& choice(const std::string& names, std::string& into, const std::vector<std::string>& values,
                  const std::string& what);
  // Like choice(), but may be repeated: each value is added.
  Command& choices(const std::string& names, std::vector<std::string>& into, const std::vector<std::string>& values,
                   const std::string& value, const std::string& what);
  Command& duration(const std::string& names, std::optional<milliseconds>& into, const std::string& what);
  Command& state(const std::string& names, std::optional<delayqueue::State>& into, const std::string& what);
  // Passes each value to `take`, which throws Usage for a bad one. values: the allowed ones, for completion.
  Command& custom(const std::string& names, const Setter& take, const std::string& value, const std::string& what,
                  const std::vector<std::string>& values = {});

  // into: a std::string, or an optional one.
  template <class Text>
  Command& text(const std::string& names, Text& into, const std::string& value, const std::string& what) {
    return custom(
        names, [&into](const std::string& given) { into = given; }, value, what);
  }

  template <class Integer>
  Command& number(const std::string& names, Integer& into, std::uint64_t least, std::uint64_t most,
                  const std::string& what) {
    const auto take = [name = long_name(names), &into, least, most](const std::string& value) {
      into = static_cast<Integer>(parse_number(name, value, least, most));
    };
    return custom(names, take, "N", what);
  }

  // Lets the last added option be given several times: each value is taken.
  Command& repeatable();

  // Makes the last added option required.
  Command& required();

  // The command also works without stdout. For all others main() requires an open stdout before they do anything.
  Command& silent();

  // Sets the function of the command. It is called once, after Context::resolve_options().
  void run(std::function<Exit()> run) { run_ = std::move(run); }

 private:
  friend class Cli;

  static std::string long_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

  CLI::App* app_;
  CLI::Option* last_ = nullptr;
  CommandInfo info_;
  bool silent_ = false;
  std::function<Exit()> run_{};
};

// For Command::custom(): refuses an empty value, because a variable that is not set must not stand for the default.
Command::Setter into_given(const char* name, std::string& into);

class Cli {
 public:
  explicit Cli(GlobalOptions& options);
  ~Cli();

  // examples: shown by --help, without "dqctl " in front. hidden: left out of help, completion and man page.
  Command& add(const std::string& name, const std::string& what, const std::vector<std::string>& examples,
               bool hidden = false);

  // Returns the function to run: that of the command, or one that prints help or version. Throws Usage.
  std::function<Exit()> parse(int argc, char** argv);

  // Whether the parsed command writes to stdout.
  bool prints() const;

  const std::vector<OptionInfo>& global_options() const { return globals_.info_.options; }
  std::vector<CommandInfo> commands() const;  // without hidden ones

 private:
  void add_globals(GlobalOptions& options);
  [[noreturn]] void explain(const std::string& error, bool is_bad_flag) const;
  const Command* chosen() const;

  std::unique_ptr<CLI::App> app_;
  Command globals_;
  std::deque<Command> commands_{};
};

}  // namespace dqctl
