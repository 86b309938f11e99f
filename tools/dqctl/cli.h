// The command line. CLI11 costs seconds a file, so that only cli.cc knows it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exit.h"
#include "parse.h"

namespace dqctl {

struct GlobalOptions;

// What is known of an option or argument: for completion and the tests of the man page.
struct OptionInfo {
  std::vector<std::string> names{};   // "-o", "--output"; of an argument its name: "QUEUE"
  std::string value{};                // what it takes; empty: a flag
  std::vector<std::string> values{};  // all it may be; empty: anything
  std::string what{};
  bool argument = false;
  bool required = false;
  bool repeated = false;  // an argument that may come several times
};

struct CommandInfo {
  std::string name{};
  std::string what{};
  std::vector<std::string> examples{};
  std::vector<OptionInfo> options{};
};

// One command. `into` must live until it has run; arguments are taken in the order of the calls. What each may be is
// checked when the command line is read, before anything runs.
class Command {
 public:
  class Impl;

  explicit Command(std::unique_ptr<Impl> impl);
  ~Command();
  Command(Command&&) noexcept;

  using Take = std::function<void(const std::string& value)>;  // throws Usage

  // By place. A name such as QUEUE.
  Command& argument(const std::string& name, std::string& into, const std::string& what, bool required = true);
  Command& arguments(const std::string& name, std::vector<std::string>& into, const std::string& what,
                     bool required = true);

  // names: "--limit", or "-n,--limit". value: the word for it in the help, such as GLOB.
  Command& flag(const std::string& names, bool& into, const std::string& what);
  Command& text(const std::string& names, std::string& into, const std::string& value, const std::string& what);
  Command& optional_text(const std::string& names, std::optional<std::string>& into, const std::string& value,
                         const std::string& what);
  Command& choice(const std::string& names, std::string& into, std::vector<std::string> values,
                  const std::string& what);
  // As choice, given any number of times: each value is added.
  Command& choices(const std::string& names, std::vector<std::string>& into, std::vector<std::string> values,
                   const std::string& value, const std::string& what);
  Command& duration(const std::string& names, std::optional<milliseconds>& into, const std::string& what);
  Command& state(const std::string& names, std::optional<delayqueue::State>& into, const std::string& what);
  Command& taken(const std::string& names, Take take, const std::string& value, const std::string& what);

  template <class Integer>
  Command& number(const std::string& names, Integer& into, std::uint64_t least, std::uint64_t most,
                  const std::string& what) {
    const auto take = [this_name = long_name(names), &into, least, most](const std::string& value) {
      into = static_cast<Integer>(parse_number(this_name, value, least, most));
    };
    return taken(names, take, "N", what);
  }

  // The option added last must be given.
  Command& required();

  // It does its work without stdout, too. Of all others main requires that it is open, before they do anything.
  Command& silent();

  // What the command does; called once, when all is read and the Context is settled.
  void run(std::function<Exit()> run);

 private:
  static std::string long_name(const std::string& names);

  std::unique_ptr<Impl> impl_;
};

class Cli {
 public:
  explicit Cli(GlobalOptions& options);
  ~Cli();

  // example: shown by --help, without "dqctl " in front. What is hidden is in no help, no completion and no man page.
  Command& add(const std::string& name, const std::string& what, const std::vector<std::string>& examples,
               bool hidden = false);

  // What the command line asks for; nothing when that was --help or --version, which are answered. Throws Usage.
  std::function<Exit()> parse(int argc, char** argv);

  // Whether what the command line asks for writes to stdout.
  bool prints() const;

  const std::vector<OptionInfo>& global_options() const;
  std::vector<CommandInfo> commands() const;  // without the hidden

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dqctl
