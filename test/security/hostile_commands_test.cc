// Runs every command of dqctl, in every output form, on a queue that another user of the same Redis has filled with
// hostile values. Nothing crashes or hangs, no control character is printed, JSON is valid, and the second queue is
// listed.
#include "preamble.h"

#include "commands.h"
#include "dqctl_here.h"
#include "hostile_queue.h"
#include "output/text.h"
#include "support/sanitized.h"

using test::HostileField;
using test::HostileValue;

namespace {

using Words = std::vector<std::string>;

struct Invocation {
  Words words{};
  std::string input{};
  bool raw = false;  // stdout is the raw payload
};

// The arguments of each command. Reading commands come first, in the order of dqctl's own list.
std::map<std::string, std::vector<Invocation>> invocations() {
  const std::string q = test::kQueue;
  const Words ids = test::all_ids();
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::string id_lines;
  for (const std::string& id : ids) id_lines += id + '\n';
  std::map<std::string, std::vector<Invocation>> all;
  all["queues"] = {{{"queues"}}, {{"queues", "--sort", "dead"}}, {{"queues", "--names"}}};
  all["stats"] = {{{"stats", q, test::kBeside}}, {{"stats", q, "--watch", "1ms", "--count", "2"}}};
  for (const char* state : {"pending", "ready", "unack", "retry", "dead"}) {
    all["ls"].push_back({{"ls", q, "--state", state}});
    all["ls"].push_back({{"ls", q, "--state", state, "--limit", "1"}});
    all["ls"].push_back({{"ls", q, "--state", state, "--match", "*a*", "--older-than", "1s", "--reason", "*"}});
  }
  for (const char* form : {"text", "hex", "json"}) {
    all["show"].push_back({with({"show", q, "--payload", form}, ids)});
  }
  all["show"].push_back({{"show", q, test::spoiled_id("pending"), "--payload", "raw"}, {}, true});
  all["find"] = {{{"find", ids[0]}}, {{"find", "a"}}, {{"find", "--in", "reason", "a", "--limit", "0"}}};
  all["actions"] = {{{"actions", q}}, {{"actions"}}};
  all["reasons"] = {{{"reasons", q, "--limit", "0"}}};
  all["partitions"] = {{{"partitions", q}}};
  all["workers"] = {{{"workers", q}}, {{"workers"}}};
  all["stuck"] = {{{"stuck", q, "--look", "1ms", "--warn", "1ms", "--crit", "1ms", "--hot", "2"}}};
  all["metrics"] = {{{"metrics"}}, {{"metrics", q}}};
  all["serve"] = {};  // its answers are tested in hostile_pages_test.cc
  all["top"] = {};    // tested below, on its own screen
  all["work"] = {};   // tested below, in its own process
  all["events"] = {{{"events", q, "--for", "1ms"}}};
  all["doctor"] = {{{"doctor"}}, {{"doctor", q, "--settle", "0s"}}, {{"doctor", q, "--settle", "0s", "--repair"}}};
  all["export"] = {{{"export", q}}, {{"export", q, "--state", "dead", "--reason", "*"}}};
  all["purge"] = {{{"purge", q, "--state", "dead", "--match", "*"}}};
  all["redrive"] = {{{"redrive", q, "--all"}}};
  all["forget"] = {{{"forget", q}}};
  all["drain"] = {{{"drain", q, "--timeout", "1ms"}}};
  all["limit"] = {{{"limit", q}}};
  all["schedule"] = {{{"schedule", "ls", q}}, {{"schedule", "show", q, "hourly"}}};
  all["version"] = {{{"version"}}};
  all["scripts"] = {{{"scripts", "list"}}, {{"scripts", "load"}}};
  all["completion"] = {{{"completion", "bash"}}, {{"completion", "zsh"}}, {{"completion", "fish"}}};
  all["man"] = {{{"man"}}};
  all["pause"] = {{{"pause", q, "--replace", "--for", "10m", "--why", "tests", "--audit"}}};
  all["resume"] = {{{"resume", q}}};
  all["send"] = {{{"send", q, "payload"}}};
  all["import"] = {{{"import", q, "-"},
                    R"({"id":"018f0000-0000-7000-8000-000000000077","state":"ready","retries":1,"payload":"x"})"}};
  all["extend"] = {{with({"extend", q, "--by", "1s", "--force"}, ids)}};
  all["reschedule"] = {{with({"reschedule", q, "--in", "1h"}, ids)}};
  all["release"] = {{{"release", q, "-", "--force"}, id_lines}};
  all["bury"] = {{with({"bury", q, "--force"}, ids)}};
  all["cancel"] = {{with({"cancel", q}, {ids[0], ids[3], ids[8]})}};
  return all;
}

// The commands that change the queue. They run last, in this order.
const Words kActing = {"pause", "resume", "send", "import", "extend", "reschedule", "release", "bury", "cancel"};

Words command_names() {
  dqctl::Context context;
  dqctl::Cli cli(context.options);
  dqctl::add_commands(cli, context);
  Words names = {"man"};
  for (const auto& command : cli.commands()) names.push_back(command.name);
  return names;
}

// A number above all doubles is valid JSON, but this parser does not read it.
bool accepts(std::string text) {
  const std::string huge = "1e999";
  for (std::size_t at = text.find(huge); at != std::string::npos; at = text.find(huge))
    text.replace(at, huge.size(), "1");
  std::string shorter;
  int digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits <= 300) shorter += c;
  }
  return json::accept(shorter);
}

bool is_json(const std::string& text) { return text.empty() || accepts(text); }

bool is_ndjson(const std::string& text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (!accepts(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

class Faults {
 public:
  void add(const std::string& where, const std::string& what) { all_.insert(where + ": " + what); }

  std::string text() const {
    std::string text;
    for (const std::string& fault : all_) text += fault + '\n';
    return text;
  }
  bool none() const { return all_.empty(); }

 private:
  std::set<std::string> all_;
};

std::string shortened(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out.size() > 90 ? out.substr(0, 90) + "..." : out;
}

void judge(const Ran& ran, const Invocation& invocation, const std::string& form, const std::string& where,
           Faults& faults) {
  const bool always_text = invocation.words[0] == "completion" || invocation.words[0] == "man" ||
                           invocation.words[0] == "metrics" || invocation.words.back() == "--names" || invocation.raw;
  if (ran.code < 0 || ran.code > 5) faults.add(where, "exit code " + std::to_string(ran.code) + ": " + ran.err);
  if (!invocation.raw && test::is_unsafe(ran.out))
    faults.add(where, "unsafe stdout: " + dqctl::printable(ran.out).substr(0, 200));
  if (test::is_unsafe(ran.err)) faults.add(where, "unsafe stderr: " + dqctl::printable(ran.err).substr(0, 200));
  if (always_text) return;
  const bool export_lines = invocation.words[0] == "export";
  const bool lines = form == "ndjson" || export_lines;
  const bool document =
      form == "json" && !export_lines && invocation.words.size() > 2 && invocation.words[2] != "--watch";
  if (lines && !is_ndjson(ran.out)) faults.add(where, "no NDJSON: " + ran.out.substr(0, 200));
  if (document && !is_json(ran.out)) faults.add(where, "no JSON: " + ran.out.substr(0, 200));
}

// Checks that the row of the second queue is shown with its true counts.
void check_row_beside(const std::string& where, Faults& faults) {
  for (const char* form : {"table", "json", "ndjson"}) {
    const Ran ran = test::run_here({"queues", "-o", form});
    const std::string row = R"({"queue":")" + test::kBeside + R"(","pending":0,"ready":1,)";
    const bool shown = has(ran.out, form == std::string("table") ? '\n' + test::kBeside + ' ' : row);
    if (!shown)
      faults.add(where, std::string("the queue beside is not shown: ") + form + ": " + ran.err.substr(0, 200));
  }
}

const Words kForms = {"table", "json", "ndjson"};

enum class Forms { all, one };
enum class Invocations { all, first };  // of each command

// With Forms::one, and with a sanitizer, where a case takes five times as long, each invocation runs in one form only,
// which depends on the value: all would take too long.
int run_commands(const std::string& name, test::Watchdog& watchdog, Faults& faults, Forms forms,
                 Invocations which = Invocations::all) {
  static const auto kInvocations = invocations();
  std::size_t turn = std::hash<std::string>()(name);
  int cases = 0;
  const auto run_all = [&](const std::string& command) {
    for (const Invocation& invocation : kInvocations.at(command)) {
      ++turn;
      for (std::size_t i = 0; i < kForms.size(); ++i) {
        if ((forms == Forms::one || TEST_SANITIZED) && i != turn % kForms.size()) continue;
        const std::string& form = kForms[i];
        Words words = {"-o", form};
        words.insert(words.end(), invocation.words.begin(), invocation.words.end());
        const std::string where = shortened(words) + " | " + name;
        watchdog.step(where);
        judge(test::run_here(words, invocation.input), invocation, form, where, faults);
        ++cases;
      }
      if (which == Invocations::first) break;
    }
  };
  for (const auto& [command, unused] : kInvocations) {
    if (std::find(kActing.begin(), kActing.end(), command) == kActing.end()) run_all(command);
  }
  if (name.rfind("queues as", 0) != 0)
    check_row_beside(name, faults);  // these values destroy the list of queues itself
  for (const std::string& command : kActing) run_all(command);
  return cases;
}

void run_values(const std::vector<HostileValue>& values, Forms forms) {
  test::Watchdog watchdog;
  Faults faults;
  int cases = 0;
  for (const HostileValue& value : values) {
    test::build_spoiled(test::Fields::others, value.bytes);
    cases += run_commands("fields = " + value.name, watchdog, faults, forms);
    test::build_spoiled(test::Fields::counted, value.bytes);
    cases += run_commands("scores and statistics = " + value.name, watchdog, faults, forms);
  }
  MESSAGE(cases, " cases");
  CHECK_MESSAGE(faults.none(), faults.text());
}

}  // namespace

TEST_CASE("hostile Redis: the table of this test has every command of dqctl") {
  Words tried;
  for (const auto& [name, unused] : invocations()) tried.push_back(name);
  Words names = command_names();
  std::sort(names.begin(), names.end());
  CHECK(names == tried);
}

TEST_CASE("hostile Redis: every command of dqctl, in every form, withstands hostile texts") {
  run_values(test::hostile_strings(), Forms::all);
}

TEST_CASE("hostile Redis: every command of dqctl withstands hostile numbers") {
  run_values(test::hostile_numbers(), Forms::one);
}

TEST_CASE("hostile Redis: every command of dqctl withstands keys of a wrong type") {
  test::Watchdog watchdog;
  Faults faults;
  int cases = 0;
  for (const HostileField& field : test::hostile_types()) {
    test::build_queue();
    test::spoil(field, test::hostile_strings().front().bytes);
    cases += run_commands(field.name, watchdog, faults, Forms::one, Invocations::first);
  }
  MESSAGE(cases, " cases");
  CHECK_MESSAGE(faults.none(), faults.text());
}
