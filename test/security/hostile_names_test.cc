// Other users of Redis choose names of queues. No name is read as an option, or as a command of a shell.
#include "preamble.h"

#include <sys/stat.h>
#include <unistd.h>

#include "shell.h"
#include "support/local.h"
#include "support/paths.h"

using test::has_shell;
using test::script;
using Strings = std::vector<std::string>;

namespace {

// Names that a shell misreads unless they are quoted.
const Strings kPlain = {"a b",
                        "*",
                        "?x",
                        "it's",
                        "say \"hi\"",
                        "$(touch pwned)",
                        "`touch pwned`",
                        "a;touch pwned",
                        "~root",
                        "{a,b}",
                        "[x]",
                        "#note",
                        "a&b",
                        "a|b",
                        "back\\slash",
                        "!!",
                        "$HOME",
                        "new:x=y",
                        "a>b",
                        "\xc3\xa4"};

// Names that --names and the completions leave out.
Strings not_listed(const std::string& folder) {
  return {"--uri=embedded:" + folder, "-o", "--", "two\nlines", "\x1b[2J", "raw\xff", "tab\tbed"};
}

Strings make_queues(const std::string& folder) {
  test::empty_server();
  Strings all = not_listed(folder);
  all.insert(all.end(), kPlain.begin(), kPlain.end());
  for (const std::string& name : all) test::send(name, {"x"});
  return all;
}

bool is_there(const std::string& file) {
  struct stat found {};
  return ::lstat(file.c_str(), &found) == 0;
}

Strings sorted(Strings names) {
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("names: --names leaves out names that begin with - or hold control characters, and counts them") {
  const test::TempDir folder;
  make_queues(folder.file("queue"));
  const Ran ran = expect(run({"queues", "--names"}), 0);
  CHECK(sorted(test::text_lines(ran.out)) == sorted(kPlain));
  CHECK(has(ran.err, "7 names were left out"));
  CHECK(has(ran.err, "dqctl queues shows every name"));
  CHECK(parse_json(run({"queues", "-o", "json"}).out).at("queues").size() == kPlain.size() + 7);
}

TEST_CASE("names: after -- every argument is a name") {
  const test::TempDir folder;
  for (const std::string& name : make_queues(folder.file("queue"))) {
    CAPTURE(name);
    const Ran ran = expect(run({"stats", "-o", "json", "--", name}), 0);
    CHECK(parse_json(ran.out).at("queues").at(0).at("ready") == 1);
  }
  test::send("\x01\x02[mark]", {"x"});
  CHECK(run({"stats", "\x01\x02[mark]"}).code == 0);
  CHECK_FALSE(is_there(folder.file("queue")));
}

TEST_CASE("names: a shell loop over --names starts no server and runs no command, quoted or not") {
  const test::TempDir folder;
  make_queues(folder.file("queue"));
  const std::string good = script("sh",
                                  "dqctl queues --names 2>/dev/null | while IFS= read -r q; do dqctl stats -- \"$q\" "
                                  ">/dev/null || echo \"failed: $q\"; done\n",
                                  folder);
  CHECK(good.empty());
  script("sh", "for q in $(dqctl queues --names); do dqctl stats $q; done\n", folder);
  CHECK_FALSE(is_there(folder.file("queue")));
  CHECK_FALSE(is_there(folder.file("pwned")));
}

TEST_CASE("names: send, work, import and partitions --set refuse a name that no queue may have, and say why") {
  const test::TempDir folder;
  test::empty_server();
  for (const std::string& name : {std::string("two\nlines"), std::string("raw\xff"), std::string(256, 'n')}) {
    CAPTURE(name);
    const auto options =
        with(&DqctlOptions::input,
             R"({"id":"0197f3a4-5b6c-7d8e-9f01-23456789abcd","state":"ready","retries":1,"payload":"x"})");
    for (const Strings& arguments :
         {Strings{"send", "--", name, "x"}, Strings{"work", "--exec", "true", "--", name},
          Strings{"import", "--", name, "-"}, Strings{"partitions", "--set", "2", "--create", "--", name}}) {
      const Ran ran = run(arguments, options);
      CAPTURE(arguments.front());
      CAPTURE(ran.err);
      CHECK(ran.code == (arguments.front() == "import" ? 1 : 2));
      CHECK(has(ran.err, "queue: "));
      CHECK(has(ran.err, "expected a name "));
    }
  }
  CHECK(test::redis().cmd({"DBSIZE"}).integer == 0);
}

TEST_CASE("names: a queue whose name is refused now is read, exported to another one, emptied and forgotten") {
  const test::TempDir folder;
  test::empty_server();
  for (const std::string& name : {std::string("two\nlines"), std::string("raw\xff")}) {
    CAPTURE(name);
    const std::string id = test::send(name, {"x"}).front();
    CHECK(run({"show", "--", name, id}).code == 0);
    CHECK(run({"doctor", "--", name}).code == 0);
    CHECK(run({"stuck", "--", name}).code == 0);
    const Ran exported = expect(run({"export", "--", name}), 0);
    CHECK(run({"import", "good", "-"}, with(&DqctlOptions::input, exported.out)).code == 0);
    CHECK(run({"purge", "--all", "--state", "ready", "--yes", "--", name}).code == 0);
    CHECK(run({"forget", "--", name}).code == 0);
    CHECK_FALSE(test::redis().cmd({"SISMEMBER", "dp:queues", "dp:" + name}).integer != 0);
  }
  CHECK(test::redis().cmd({"LLEN", "dp:good:ready"}).integer == 2);
}

TEST_CASE("names: help and README mention the --") {
  CHECK(has(run({"--help"}).out, "dqctl stats -- \"$queue\""));
  std::ifstream in(test::source_path("tools/dqctl/README.md"));
  const std::string readme((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  CHECK(has(readme, "while IFS= read -r queue; do dqctl doctor -- \"$queue\""));
}

TEST_CASE("names: bash completes each name in a form that it reads back as that name") {
  if (!has_shell("bash")) return;
  const test::TempDir folder;
  make_queues(folder.file("queue"));
  const std::string out = script("bash --norc", R"(source <(dqctl completion bash)
complete_for() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _dqctl; }
complete_for dqctl stats ''
for reply in "${COMPREPLY[@]}"; do eval "set -- $reply"; printf '%s\n' "$*"; [ $# = 1 ] || echo "words: $#"; done
)",
                                 folder);
  CHECK(sorted(test::text_lines(out)) == sorted(kPlain));
  CHECK_FALSE(is_there(folder.file("pwned")));
  const std::string rest = script("bash --norc", R"(source <(dqctl completion bash)
complete_for() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _dqctl; printf '%s\n' "${COMPREPLY[*]}"; }
complete_for dqctl stat
complete_for dqctl ls q --state de
complete_for dqctl stats new : x = 
complete_for dqctl completion ''
complete_for dqctl --uri unix:///no/such stats ''
)",
                                  folder);
  CHECK(rest == "stats\ndead\ny\nbash zsh fish\n\n");
}

// Outside of zsh's line editor, compadd is replaced by a function that prints its arguments.
TEST_CASE("names: zsh completes commands, options and names, and passes each name to compadd as one word") {
  if (!has_shell("zsh")) return;
  const test::TempDir folder;
  make_queues(folder.file("queue"));
  const std::string head = R"(compdef() { true }
compadd() { [[ $1 == -- ]] || print "options: $1"; shift; print -rl -- "$@" }
source <(dqctl completion zsh)
complete_for() { words=("$@"); CURRENT=$#; _dqctl }
)";
  CHECK(sorted(test::text_lines(script("zsh -f", head + "complete_for dqctl stats ''\n", folder))) == sorted(kPlain));
  CHECK_FALSE(is_there(folder.file("pwned")));
  CHECK(has(script("zsh -f", head + "complete_for dqctl ''\n", folder), "\nstats\n"));
  CHECK(script("zsh -f", head + "complete_for dqctl ls q --state ''\n", folder) ==
        "pending\nready\nunack\nretry\ndead\n");
  CHECK(has(script("zsh -f", head + "complete_for dqctl ls q --\n", folder), "--older-than\n"));
  CHECK(script("zsh -f", head + "complete_for dqctl completion ''\n", folder) == "bash\nzsh\nfish\n");
  CHECK(script("zsh -f", "source <(dqctl completion zsh)\nprint -r -- $_comps[dqctl]\n", folder) == "_dqctl\n");
}

TEST_CASE("names: fish completes each name, and takes none for an option") {
  if (!has_shell("fish")) return;
  const test::TempDir folder;
  make_queues(folder.file("queue"));
  const std::string out =
      script("fish --no-config",
             "dqctl completion fish | source\ncomplete -C 'dqctl stats ' | string match -v -- '-*'\n", folder);
  for (const std::string& name : kPlain) {
    CAPTURE(name);
    CHECK(has("\n" + out, "\n" + name));
  }
  CHECK_FALSE(has(out, "embedded:"));
  CHECK_FALSE(is_there(folder.file("pwned")));
  CHECK_FALSE(is_there(folder.file("queue")));
}
