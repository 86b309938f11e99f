// The man page, the help texts and the completions name every command and option.
#include "preamble.h"

#include "shell.h"
#include "support/local.h"
#include "support/paths.h"
#include "support/regex.h"

namespace {

std::set<std::string> all_matches(const std::string& text, const char* pattern) {
  std::set<std::string> out;
  for (const auto& match : test::matches(text, pattern)) out.insert(match[1]);
  return out;
}

// Reads the commands from the help text.
std::set<std::string> commands() {
  const std::string help = run({"--help"}).out;
  return all_matches(help.substr(help.find("\nCommands:")), "^  ([a-z]+) ");
}

std::set<std::string> options_of(const std::string& command) {
  const std::string help = command.empty() ? run({"--help"}).out : run({command, "--help"}).out;
  return all_matches(help.substr(0, help.find("\nExample")), "^  (?:-[a-z],)?(--[a-z-]+)");
}

// Runs the script in bash and returns its output.
std::string bash(const std::string& text) {
  const test::TempDir folder;
  std::ofstream(folder.file("script")) << text;
  const std::string line = "DELAYQUEUE_URI='" + test::server().url() + "' bash " + folder.file("script") + " >" +
                           folder.file("out") + " 2>&1";
  const int status = std::system(line.c_str());
  std::ifstream in(folder.file("out"));
  std::string out((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return status == 0 ? out : out + "failed";
}

std::string completed(const std::vector<std::string>& words, const std::string& line) {
  std::string quoted;
  for (const std::string& word : words) quoted += " '" + word + "'";
  std::string script =
      "PATH=$(dirname '" + test::program_path("dqctl") + "'):$PATH\n" + run({"completion", "bash"}).out;
  script += "COMP_WORDS=(" + quoted + ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n";
  script += "COMP_LINE='" + line + "'\nCOMP_POINT=${#COMP_LINE}\n_dqctl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  return bash(script);
}

}  // namespace

TEST_CASE("pages: the help of every command has an example") {
  const auto all = commands();
  CHECK(all.size() >= 7);
  for (const std::string& command : all) {
    CAPTURE(command);
    expect(run({command, "--help"}), 0, {out_has("\n  dqctl " + command)});
  }
}

TEST_CASE("pages: the man page has every command and option") {
  const std::string page = run({"man"}).out;
  const auto escaped = [](const std::string& text) { return test::replaced(text, "-", "\\-"); };
  for (const std::string& option : options_of("")) CHECK(has(page, "\\fB" + escaped(option) + "\\fR"));
  for (const std::string& command : commands()) {
    CAPTURE(command);
    const std::size_t begin = page.find(".SS \\fBdqctl " + escaped(command) + "\\fR");
    REQUIRE(begin != std::string::npos);
    const std::string section = page.substr(begin, page.find("\n.SS ", begin + 1) - begin);
    for (const std::string& option : options_of(command)) {
      CAPTURE(option);
      CHECK((option == "--help" || has(section, "\\fB" + escaped(option) + "\\fR")));
    }
  }
}

TEST_CASE("pages: the man page has the documented exit codes") {
  const std::string page = run({"man"}).out;
  for (const char* text : {"some queues or servers\ncould not be read", "no queue could be read",
                           "\\fBscripts list\\fR a script missing; \\fBdrain\\fR took longer",
                           "the reader of standard output has gone (| head)"}) {
    CHECK_MESSAGE(has(page, text), text);
  }
}

TEST_CASE("pages: groff accepts the man page") {
  if (std::system("command -v groff >/dev/null 2>&1") != 0) return;
  const test::TempDir folder;
  REQUIRE(run({"man", "--file", folder.file("dqctl.1")}).code == 0);
  const std::string line = "groff -man -Tutf8 -ww -z " + folder.file("dqctl.1") + " >" + folder.file("out") + " 2>&1";
  CHECK(std::system(line.c_str()) == 0);
  std::ifstream out(folder.file("out"));
  CHECK(out.peek() == std::ifstream::traits_type::eof());
}

TEST_CASE("pages: every shell offers every command, every option of a command, and the options of all commands") {
  std::vector<std::string> lines = {"dqctl ", "dqctl --"};
  const std::set<std::string> all = commands();
  for (const std::string& command : all) lines.push_back("dqctl " + command + " --");
  const auto offers = [](const std::string& text, const std::string& word) {
    return has('\n' + text, '\n' + word + '\n') || has('\n' + text, '\n' + word + '\t');
  };
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (!test::has_shell(shell)) continue;
    CAPTURE(shell);
    const std::vector<std::string> offered = test::offered_by(shell, lines);
    for (const std::string& option : options_of("")) CHECK(offers(offered[1], option));
    std::size_t line = 2;
    for (const std::string& command : all) {
      CAPTURE(command);
      CHECK(offers(offered[0], command));
      for (const std::string& option : options_of(command)) CHECK(offers(offered[line], option));
      CHECK(offers(offered[line], "--uri"));
      ++line;
    }
    CHECK_FALSE(offers(offered[0], "man"));
  }
  CHECK(run({"completion", "tcsh"}).code == 2);
  CHECK(run({"completion"}).code == 2);
}

TEST_CASE("pages: every shell completes values, also behind =, and files") {
  const test::TempDir folder;
  const std::string file = folder.file("payloads");
  std::ofstream(file) << "x";
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (!test::has_shell(shell)) continue;
    CAPTURE(shell);
    const auto offered = test::offered_by(
        shell, {"dqctl ls q --state d", "dqctl ls q --state=d", "dqctl -o nd", "dqctl ls q --utc -- ",
                "dqctl import q " + file.substr(0, 4), "dqctl --tls-ca=" + file.substr(0, file.size() - 2)});
    CHECK(has(offered[0], "dead\n"));
    CHECK(has(offered[1], "dead\n"));
    CHECK(has(offered[2], "ndjson\n"));
    CHECK_FALSE(has(offered[3], "--"));
    if (shell == "zsh") {
      CHECK(has(offered[1], "compset -P 1 --*=\n"));
      CHECK(offered[4] == "files\n");
      CHECK(offered[5] == "compset -P 1 --*=\nfiles\n");
    }
    if (shell == "bash") CHECK((offered[4] + offered[5]).empty());  // then bash itself completes files
    if (shell == "fish") {
      CHECK(has(offered[1], "--state=dead\n"));
      CHECK(has('\n' + offered[4], "\n" + file.substr(0, file.find('/', 1) + 1)));
      CHECK(has(offered[5], "--tls-ca=" + file + "\n"));
    }
  }
}

TEST_CASE("pages: bash completes commands, options, values and names of queues") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("my orders:eu", {"x"});
  CHECK(completed({"dqctl", "st"}, "dqctl st") == "stats\nstuck\n");
  CHECK(completed({"dqctl", "-o", "j"}, "dqctl -o j") == "json\n");
  CHECK(completed({"dqctl", "ls", "or"}, "dqctl ls or") == "orders\n");
  CHECK(completed({"dqctl", "-o", "json", "ls", ""}, "dqctl -o json ls ") == "my\\ orders:eu\norders\n");
  CHECK(completed({"dqctl", "stats", "my\\ orders", ":", "e"}, "dqctl stats my\\ orders:e") == "eu\n");
  CHECK(completed({"dqctl", "ls", "orders", "--state", "p"}, "dqctl ls orders --state p") == "pending\n");
  CHECK(completed({"dqctl", "ls", "orders", "--st"}, "dqctl ls orders --st") == "--state\n");
  CHECK(completed({"dqctl", "ls", "orders", "--ut"}, "dqctl ls orders --ut") == "--utc\n");
  CHECK(completed({"dqctl", "completion", ""}, "dqctl completion ") == "bash\nzsh\nfish\n");
}
