// Several dqctl at once on one queue, and one that is killed: each reports exactly its own changes, and no message is
// lost or left over.
#include "preamble.h"

#include <unistd.h>

#include "support/local.h"
#include "support/proxy.h"

namespace {

using delayqueue::State;
using test::counts;
using test::make_dead;
using Words = std::vector<std::string>;

std::vector<std::string> send_numbers(const std::string& queue, std::size_t count,
                                      std::chrono::milliseconds delay = 0ms) {
  std::vector<std::string> payloads, ids;
  for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
  const auto options = delayed(delay);
  for (const auto& sent : delayqueue::Producer(test::server().url(), queue).send_batch(payloads, options)) {
    ids.push_back(sent.id);
  }
  return ids;
}

// Runs all commands at the same time and waits for all of them.
std::vector<Ran> run_all(const std::vector<Words>& commands, const DqctlOptions& options = {}) {
  std::list<Dqctl> running;
  for (const Words& words : commands) running.emplace_back(words, options);
  std::vector<Ran> ran;
  for (Dqctl& one : running) ran.push_back(one.wait());
  return ran;
}

std::uint64_t total(const std::vector<Ran>& ran, const char* field) {
  std::uint64_t sum = 0;
  for (const Ran& one : ran) sum += parse_json(one.out).at(field).get<std::uint64_t>();
  return sum;
}

std::vector<std::string> ids_in_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> ids;
  for (const json& line : lines_of({std::istreambuf_iterator<char>(in), {}})) {
    ids.push_back(line.at("id").get<std::string>());
  }
  return ids;
}

void wait_until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  bool is_done = false;
  while (!(is_done = done()) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  REQUIRE(is_done);
}

std::set<std::string> unique(const std::vector<std::string>& ids) { return {ids.begin(), ids.end()}; }

// Handles every message and counts its deliveries.
class DeliveryCounter {
 public:
  explicit DeliveryCounter(const std::string& queue)
      : consumer_(test::server().url(), queue, [this](const delayqueue::Message& message) {
          const std::lock_guard lock(mutex_);
          ++deliveries_[message.id()];
          return delayqueue::ack();
        }) {
    consumer_.start();
  }

  std::map<std::string, int> deliveries() {
    const std::lock_guard lock(mutex_);
    return deliveries_;
  }

  bool has_all(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (deliveries().size() < count && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
    return deliveries().size() == count;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> deliveries_;
  delayqueue::Consumer consumer_;
};

}  // namespace

TEST_CASE("operators: two or three purge --backup at once write each message to one line of one file, and leave none") {
  for (const State state : {State::ready, State::dead, State::pending}) {
    const std::string name = delayqueue::to_string(state);
    for (const int operators : {2, 3}) {
      CAPTURE(name);
      CAPTURE(operators);
      const test::TempDir folder;
      const std::string queue = fresh_queue();
      const auto ids = state == State::dead    ? make_dead(queue, 6000, "x")
                       : state == State::ready ? send_numbers(queue, 6000)
                                               : send_numbers(queue, 6000, 1h);
      std::vector<Words> commands;
      for (int i = 0; i < operators; ++i) {
        commands.push_back({"purge", queue, "--all", "--state", name, "--backup", folder.file(std::to_string(i)),
                            "--yes", "-o", "json"});
      }
      const std::vector<Ran> ran = run_all(commands);
      std::vector<std::string> lines;
      for (int i = 0; i < operators; ++i) {
        const json report = parse_json(ran[i].out);
        CHECK(ran[i].code == 0);
        const auto file = ids_in_file(folder.file(std::to_string(i)));
        CHECK(file.size() == report.at("purged").get<std::uint64_t>() + report.at("left_alone").get<std::uint64_t>());
        CHECK(unique(file).size() == file.size());
        lines.insert(lines.end(), file.begin(), file.end());
      }
      CHECK(total(ran, "purged") == ids.size());
      CHECK(lines.size() == ids.size());
      CHECK((unique(lines) == unique(ids)));
      CHECK(counts(queue).ready + counts(queue).dead + counts(queue).pending == 0);
      CHECK(counts(queue).totals.purged == ids.size());
    }
  }
}

TEST_CASE("operators: a purge or redrive misses no message when another removes messages of earlier pages") {
  const std::string queue = fresh_queue();
  for (int i = 0; i < 4; ++i) {
    make_dead(queue, 1500, "a");
    make_dead(queue, 1500, "b");
  }
  const auto ran = run_all({{"purge", queue, "--state", "dead", "--reason", "a", "--yes", "-o", "json"},
                            {"redrive", queue, "--reason", "b", "--yes", "-o", "json"}});
  CHECK(parse_json(ran[0].out).at("purged") == 6000);
  CHECK(parse_json(ran[1].out).at("redriven") == 6000);
  CHECK(counts(queue).dead == 0);
  CHECK(counts(queue).ready == 6000);
}

TEST_CASE(
    "operators: a purge that found nothing yet misses no message when another removes messages of earlier pages") {
  const std::string queue = fresh_queue();
  make_dead(queue, 4000, "a");
  make_dead(queue, 4000, "b");
  // This purge is slow, so that the other one has removed all earlier messages before it reaches its own.
  test::FaultProxy proxy(test::server().socket());
  proxy.delay(20ms);
  DqctlOptions slow;
  slow.environment["DELAYQUEUE_URI"] = proxy.url();
  Dqctl purge({"purge", queue, "--state", "dead", "--reason", "b", "--yes", "-o", "json"}, slow);
  std::this_thread::sleep_for(300ms);
  CHECK(run({"purge", queue, "--state", "dead", "--reason", "a", "--yes"}).code == 0);
  const Ran ran = purge.wait();
  CHECK_MESSAGE(ran.code == 0, ran.err);
  CHECK(parse_json(ran.out).at("purged") == 4000);
  CHECK(counts(queue).dead == 0);
}

TEST_CASE("operators: three redrive at once each count what they moved themselves") {
  const std::string queue = fresh_queue();
  make_dead(queue, 3000, "x");
  const Words words = {"redrive", queue, "--all", "--yes", "-o", "json"};
  const auto ran = run_all({words, words, words});
  CHECK(total(ran, "redriven") == 3000);
  CHECK(counts(queue).ready == 3000);
  CHECK(counts(queue).dead == 0);
  CHECK(counts(queue).totals.redriven == 3000);
}

TEST_CASE("operators: three redrive --to at once move each message once, and the consumers there get it once") {
  const std::string queue = fresh_queue(), other = fresh_queue();
  const auto ids = make_dead(queue, 3000, "x");
  DeliveryCounter ledger(other);
  const Words words = {"redrive", queue, "--all", "--to", other, "--create", "--yes", "-o", "json"};
  const auto ran = run_all({words, words, words});
  for (const Ran& one : ran) {
    CHECK_MESSAGE(one.code == 0, one.err);
    CHECK(holds(parse_json(one.out), {{"exist", 0}, {"copied", 0}}));
  }
  CHECK(total(ran, "redriven") == 3000);
  CHECK(counts(queue).dead == 0);
  CHECK(ledger.has_all(3000));
  for (const auto& [id, times] : ledger.deliveries()) CHECK(times == 1);
  CHECK(counts(other).totals.sent == 3000);
}

TEST_CASE("operators: redrive, redrive --to and purge at once leave each message in one place, and count it once") {
  const std::string queue = fresh_queue(), other = fresh_queue();
  const test::TempDir folder;
  const auto ids = make_dead(queue, 6000, "x");
  const auto ran =
      run_all({{"redrive", queue, "--all", "--yes", "--rate", "3000/s", "-o", "json"},
               {"redrive", queue, "--all", "--to", other, "--create", "--yes", "-o", "json"},
               {"purge", queue, "--all", "--state", "dead", "--backup", folder.file("b"), "--yes", "-o", "json"}});
  const std::uint64_t here = parse_json(ran[0].out).at("redriven"), there = parse_json(ran[1].out).at("redriven");
  const std::uint64_t copied = parse_json(ran[1].out).at("copied"), purged = parse_json(ran[2].out).at("purged");
  CHECK(here + there + purged == ids.size());
  CHECK(counts(queue).dead == 0);
  CHECK(counts(queue).ready == here);
  CHECK(counts(other).ready == there + copied);
  CHECK(ran[1].code == (copied > 0 ? 4 : 0));
  const auto lines = ids_in_file(folder.file("b"));
  CHECK(lines.size() == purged + parse_json(ran[2].out).at("left_alone").get<std::uint64_t>());
  CHECK(unique(lines).size() == lines.size());
}

TEST_CASE("operators: of two commands with the same ids from stdin, the one that changed a message counts it") {
  const std::string queue = fresh_queue();
  for (const char* command : {"bury", "release", "redrive", "cancel"}) {
    CAPTURE(command);
    const bool dead = std::string(command) == "redrive";
    const auto ids = dead ? make_dead(queue, 3000, "x") : send_numbers(queue, 3000, 1h);
    DqctlOptions options;
    for (const std::string& id : ids) options.input += id + '\n';
    const Words words = {command, queue, "-", "--yes", "-o", "json"};
    CHECK(total(run_all({words, words}, options), "done") == ids.size());
  }
}

TEST_CASE("operators: the lock of a killed dqctl expires; a user without the right to lock works without it") {
  const std::string queue = fresh_queue();
  const test::TempDir folder;
  make_dead(queue, 10, "x");
  test::redis().cmd({"SET", "dp:" + queue + ":lock", "dqctl of the past", "PX", "2500"});
  const Words words = {"purge", queue, "--all", "--state", "dead", "--append", "--yes", "--backup", folder.file("b")};
  const Ran late = expect(run(words), 0);
  CHECK(late.took >= 1s);
  CHECK(has(late.err, "waiting: another dqctl is purging or redriving messages of this queue"));
  CHECK(test::redis().cmd({"EXISTS", "dp:" + queue + ":lock"}) == 0);

  make_dead(queue, 10, "x");
  test::redis().cmd({"ACL", "SETUSER", "nolock", "on", "nopass", "~*", "&*", "+@all", "-set"});
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = "unix://nolock@" + test::server().socket();
  CHECK(run(words, options).code == 0);
  test::redis().cmd({"ACL", "DELUSER", "nolock"});
  CHECK(counts(queue).dead == 0);
  CHECK(ids_in_file(folder.file("b")).size() == 20);

  make_dead(queue, 10, "x");
  test::redis().cmd({"SET", "dp:" + queue + ":lock", "for ever"});
  Dqctl waits(words);
  REQUIRE(waits.wait_for("waiting: another dqctl"));
  waits.signal(SIGINT);
  CHECK(waits.wait().code == 130);
  CHECK(counts(queue).dead == 10);
}

TEST_CASE("redrive --to: a killed run loses no message, and the next run repeats only messages of the last batch") {
  constexpr int kKills = 6;
  constexpr std::size_t kBatch = 200;
  const std::string queue = fresh_queue(), other = fresh_queue();
  const auto ids = make_dead(queue, 6000, "x");
  DeliveryCounter ledger(other);
  const Words words = {"redrive", queue, "--all", "--to", other, "--create", "--yes", "-o", "json"};
  test::FaultProxy proxy(test::server().socket());
  proxy.delay(10ms);  // between the copy and the removal
  std::uint64_t in_both = 0;
  DqctlOptions slow;
  slow.environment["DELAYQUEUE_URI"] = proxy.url();
  for (int i = 0; i < kKills; ++i) {
    const std::uint64_t sent = counts(other).totals.sent, dead = counts(queue).dead;
    Dqctl redrive(words, slow);
    wait_until([&] {  // a copied message has not been removed yet, in the second batch or later
      const std::uint64_t left = counts(queue).dead;
      return left < dead && counts(other).totals.sent - sent > dead - left;
    });
    redrive.signal(SIGKILL);
    redrive.wait();
    std::this_thread::sleep_for(50ms);                    // for the commands that are still in the proxy
    test::redis().cmd({"DEL", "dp:" + queue + ":lock"});  // or the next run waits for it
    const std::uint64_t left = counts(queue).dead;
    const std::uint64_t both = counts(other).totals.sent - sent - (dead - left);
    CHECK(both <= kBatch);
    in_both += both;
    REQUIRE(ledger.has_all(ids.size() - left + both));  // handled, so the next run copies them again
  }
  CHECK(run(words).code == 0);
  CHECK(counts(queue).dead == 0);
  CHECK(ledger.has_all(ids.size()));
  std::size_t twice = 0;
  for (const auto& [id, times] : ledger.deliveries()) twice += static_cast<std::size_t>(times) - 1;
  MESSAGE(kKills, " kills: ", twice, " delivered again, ", in_both, " were in both");
  CHECK(in_both > 0);  // otherwise no kill came between a copy and its removal, and the test shows nothing
  CHECK(twice == in_both);
}

TEST_CASE("purge --backup: a killed run has written every message that it removed") {
  const std::string queue = fresh_queue();
  const auto ids = make_dead(queue, 20'000, "x");
  const test::TempDir folder;
  std::set<std::string> all;
  for (int i = 0; i < 3; ++i) {
    const std::string file = folder.file(std::to_string(i));
    const std::uint64_t before = counts(queue).dead;
    Dqctl purge({"purge", queue, "--all", "--state", "dead", "--backup", file, "--yes"});
    wait_until([&] { return counts(queue).dead + 1000 * i + 100 <= before; });
    purge.signal(SIGKILL);
    purge.wait();
    test::redis().cmd({"DEL", "dp:" + queue + ":lock"});
    const auto lines = ids_in_file(file);
    CHECK(unique(lines).size() == lines.size());
    CHECK(lines.size() >= before - counts(queue).dead);
    all.insert(lines.begin(), lines.end());
  }
  const std::string file = folder.file("last");
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--backup", file, "--yes"}).code == 0);
  for (const std::string& id : ids_in_file(file)) all.insert(id);
  CHECK((all == unique(ids)));
}

TEST_CASE(
    "purge, redrive, cancel: after a lost answer they report how many messages are in doubt, and count the others") {
  for (const std::string command : {"purge", "redrive", "redrive --to", "cancel"}) {
    CAPTURE(command);
    // The lost answer may belong to a reading command; then another round is needed.
    bool doubted = false;
    for (int round = 0; round < 40 && !doubted; ++round) {
      const std::string queue = fresh_queue();
      const auto ids = make_dead(queue, 2000, "x");
      test::FaultProxy proxy(test::server().socket());
      proxy.delay(3ms);
      DqctlOptions options;
      options.environment["DELAYQUEUE_URI"] = proxy.url();
      Words words = {command.substr(0, command.find(' ')), queue};
      const test::TempDir folder;
      if (command == "purge") words.insert(words.end(), {"--state", "dead", "--backup", folder.file("b")});
      if (command == "redrive --to") words.insert(words.end(), {"--to", fresh_queue(), "--create"});
      words.push_back(command == "cancel" ? "-" : "--all");
      // A busy machine must not cause a timeout.
      words.insert(words.end(), {"--yes", "-o", "json", "--command-timeout", "50s"});
      if (command == "cancel") {
        for (const std::string& id : ids) options.input += id + '\n';
      }
      Dqctl acting(words, options);
      Ran ran;
      std::atomic<bool> ended{false};
      std::thread waiting([&] {
        ran = acting.wait();
        ended = true;
      });
      while (counts(queue).dead > 1600 && !ended) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(std::chrono::milliseconds(3 * (round % 14)));
      proxy.drop_replies(1);
      waiting.join();
      const json report = parse_json(ran.out);
      const std::uint64_t done = report.at(command == "purge" ? "purged" : command == "cancel" ? "done" : "redriven");
      const std::uint64_t doubt = report.at("unconfirmed");
      const std::uint64_t gone = ids.size() - counts(queue).dead;
      CHECK(doubt <= 200);
      CHECK(done <= gone);
      CHECK(gone <= done + doubt);
      CHECK(ran.code == (report.at("error").is_null() ? 0 : done > 0 ? 4 : 1));
      doubted = doubt > 0;
      CHECK(has(ran.err, "it is not known whether it was done: the answer is lost; run it again") == doubted);
      if (doubted) MESSAGE(command, ": the answer lost in round ", round);
    }
    CHECK(doubted);
  }
}
