// The command line: values of options, mistyped commands, arguments that errors repeat, and the width of help texts.
#include "preamble.h"

#include "commands.h"
#include "output/text.h"
#include "support/local.h"
#include "support/paths.h"

namespace {

using dqctl::CommandInfo;
using dqctl::OptionInfo;

// The commands and options of dqctl.
struct CommandLine {
  CommandLine() { add_commands(cli, context); }

  // Parses the words. Returns "taken" or the error, and whether --no-color was recognized as an option.
  std::pair<std::string, bool> outcome_of(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"dqctl"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    std::string outcome = "taken";
    try {
      cli.parse(static_cast<int>(argv.size()), argv.data());
    } catch (const dqctl::Usage& usage) {
      outcome = usage.what();
    }
    return {outcome, context.options.no_colour};
  }

  dqctl::Context context{};
  dqctl::Cli cli{context.options};
};

std::vector<std::string> concatenated(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The words that the command needs besides the one that is tested.
std::vector<std::string> needed_by(const CommandInfo& command, const std::string& tested) {
  std::vector<std::string> words;
  for (const OptionInfo& option : command.options) {
    const std::string& name = option.names.back();
    if (!option.required || name == tested) continue;
    if (option.argument) {
      words.push_back("word");
    } else {
      words.insert(words.end(), {name, name == "--state" ? "dead" : "1s"});
    }
  }
  return words;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, dqctl::width_of(line));
  return widest;
}

}  // namespace

TEST_CASE("arguments: the empty value in --name= belongs to that option, and does not take the next argument") {
  int options = 0;
  const auto check = [&](const std::string& command, const std::string& name, const std::vector<std::string>& needed) {
    CAPTURE(command);
    CAPTURE(name);
    ++options;
    const auto joined = CommandLine().outcome_of(concatenated({command, name + "=", "--no-color"}, needed));
    const auto apart = CommandLine().outcome_of(concatenated({command, name, "", "--no-color"}, needed));
    CHECK(joined.first == apart.first);
    CHECK(joined.second == apart.second);
    if (joined.first == "taken") CHECK(joined.second);
  };
  CommandLine all;
  for (const CommandInfo& command : all.cli.commands()) {
    for (const OptionInfo& option : command.options) {
      if (option.argument || option.value.empty()) continue;
      check(command.name, option.names.back(), needed_by(command, option.names.back()));
    }
  }
  for (const OptionInfo& option : all.cli.global_options()) {
    if (!option.value.empty()) check("version", option.names.back(), {});
  }
  CHECK(options > 50);
}

TEST_CASE("arguments: values in brackets, and values that look like an empty option, arrive unchanged") {
  const std::string queue = fresh_queue();
  for (const std::string& why : {std::string("[a,b]"), std::string("--why="), std::string("\x01\x02"),
                                 std::string("--x=\x01\x02y"), std::string("a=")}) {
    for (const bool joined : {true, false}) {
      CAPTURE(why);
      const std::string id = test::make_dead(queue, 1, "x").front();
      REQUIRE(run({"redrive", queue, id}).code == 0);
      const Ran ran = joined ? run({"bury", queue, id, "--why=" + why}) : run({"bury", queue, id, "--why", why});
      CHECK(ran.code == 0);
      CHECK(delayqueue::Inspector(test::server().url(), queue).find(id)->reason == why);
    }
  }
  CHECK(has(run({"stats", "--", "--why="}).err, "queue --why= is not at"));
}

TEST_CASE("arguments: --why= gives an empty reason, --exec= runs nothing, and --reason= filters nothing") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  delayqueue::Inspector inspector(test::server().url(), queue);
  const auto later = delayed(std::chrono::hours(1));
  const std::string one = producer.send("x", later).id;
  const std::string two = producer.send("x", later).id;
  CHECK(run({"bury", queue, "--why=", one, two}).code == 0);
  for (const std::string& id : {one, two}) {
    CHECK(inspector.find(id)->state == delayqueue::State::dead);
    CHECK(inspector.find(id)->reason.empty());
  }
  expect(run({"work", queue, "--exec=", "--until-empty"}), 2, {err_has("--exec: ''; expected a command")});
  test::make_dead(queue, 1, "why");
  const auto report = parse_json(run({"purge", queue, "--state", "dead", "--reason=", "--yes", "-o", "json"}).out);
  CHECK(report.at("purged") == 2);
  CHECK(inspector.counts().dead == 1);
  const Ran flag = expect(run({"purge", queue, "--state", "dead", "--all", "--yes="}), 2);
  CHECK(has(flag.err, "a flag was given a value"));
}

TEST_CASE("arguments: an empty value of a connection option is refused, and does not stand for the default") {
  for (const char* option : {"--uri", "--password-file", "--user", "--tls-ca", "--tls-cert", "--tls-key"}) {
    expect(run({"queues", option, ""}), 2, {err_has(std::string(option) + ": ''; expected a value")});
  }
}

TEST_CASE("arguments: the error for a mistyped command names the closest command, also when arguments follow") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"stat"},
                                             {"--", "stat"},
                                             {"stat", "orders"},
                                             {"stat", "orders", "--watch", "2s"},
                                             {"--utc", "stat", "orders"}}) {
    expect(run(words), 2, {err_has("no command like that; did you mean stats? see dqctl --help")});
  }
}

TEST_CASE("arguments: errors do not repeat an argument that may be a password") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--user", "bob", "s3cret"},
                                                                                     {"s3cret", "queues"},
                                                                                     {"scripts", "s3cret"},
                                                                                     {"completion", "s3cret"},
                                                                                     {"--pasword", "s3cret", "x"}}) {
    const Ran ran = expect(run(words), 2);
    CHECK_MESSAGE(!has(ran.err, "s3cret"), ran.err);
    CHECK(has(ran.err, "may be a password"));
  }
}

TEST_CASE("help: every help text fits a terminal of 80 columns") {
  CommandLine all;
  std::vector<std::vector<std::string>> pages = {{"--help"}};
  for (const CommandInfo& command : all.cli.commands()) pages.push_back({command.name, "--help"});
  CHECK(pages.size() > 20);
  for (const auto& page : pages) {
    CAPTURE(page.front());
    CHECK(widest_line(run(page).out) <= 80);
  }
}

TEST_CASE("help: exit code 1 if the help text cannot be written") {
  for (const std::string words : {"--help", "stats --help", "--version"}) {
    CAPTURE(words);
    const std::string line = "'" + test::program_path("dqctl") + "' " + words + " >/dev/full 2>/dev/null";
    CHECK(WEXITSTATUS(std::system(line.c_str())) == 1);
  }
}
