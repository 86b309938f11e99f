// Tests of dqctl purge and redrive, the commands that change messages by filter.
#include "preamble.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using delayqueue::State;
using test::counts;
using test::make_dead;

// The path of a file in a new folder, which is removed at the end.
struct TempFile {
  TempFile() {
    char name[] = "/tmp/dqctl-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder = name;
    path = folder + "/back up.ndjson";
  }
  ~TempFile() {
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
  }
  std::string text() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string folder, path;
};

std::set<std::string> ids_in(const std::string& lines) {
  std::set<std::string> ids;
  for (const json& line : lines_of(lines)) ids.insert(line.at("id").get<std::string>());
  return ids;
}

struct DeadFixture {
  DeadFixture() {
    make_dead(queue, 12, "gateway: 500");
    make_dead(queue, 7, "no such order");
  }
  std::string queue = fresh_queue();
  delayqueue::Inspector inspector{test::server().url(), queue};
};

TEST_CASE_FIXTURE(DeadFixture, "purge: without --yes it prints the count and a sample, and removes nothing") {
  const Ran ran = expect(run({"purge", queue, "--state", "dead", "--reason", "no such*"}), 0,
                         {err_is("dry run: would purge 7 of 19 dead messages of " + queue +
                                 " with reason 'no such*'; to do it, add --yes\n")});
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 6);
  CHECK(has(ran.out, "no such order  0\n"));
  const json report = parse_json(run({"purge", queue, "--all", "--state", "dead", "-o", "json"}).out);
  CHECK(holds(report, {{"dry_run", true}, {"matching", 19}, {"of", 19}}));
  CHECK(report.at("sample").size() == 5);
  const Ran none = run({"purge", queue, "--state", "dead", "--older-than", "1h"});
  CHECK(has(none.err, "would purge 0 of 19 dead messages"));
  CHECK(!has(none.err, "--yes"));
  CHECK(inspector.counts().dead == 19);
}

TEST_CASE_FIXTURE(DeadFixture, "purge: it removes by reason, payload, age or --all, and leaves all other messages") {
  const json report = parse_json(
      run({"purge", queue, "--state", "dead", "--reason", "gateway*", "--match", "1?", "--yes", "-o", "json"}).out);
  CHECK(report == parse_json(R"({"queue":")" + queue +
                             R"(","state":"dead","purged":2,"left_alone":0,"foreign":0,"unconfirmed":0,"backup":null,)"
                             R"("interrupted":false,"error":null})"));
  test::rewind(inspector.list(State::dead).messages.empty() ? "" : "dp:" + queue, 1h);
  make_dead(queue, 3, "young");
  CHECK(run({"purge", queue, "--state", "dead", "--older-than", "30m", "--reason", "*", "--yes"}).out ==
        "purged 17 dead messages of " + queue + '\n');
  CHECK(run({"purge", queue, "--state", "dead", "--older-than", "30m", "--yes"}).out ==
        "purged 0 dead messages of " + queue + '\n');
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--yes"}).out == "purged 3 dead messages of " + queue + '\n');
  CHECK(inspector.counts().totals.purged == 22);
}

TEST_CASE("purge: it removes pending, ready and retry messages, with and without a filter") {
  const std::string queue = fresh_queue();
  delayqueue::Inspector inspector(test::server().url(), queue);
  for (const char* state : {"pending", "ready"}) {
    delayqueue::SendOptions options;
    if (std::string(state) == "pending") options.delay = 1h;
    delayqueue::Producer producer(test::server().url(), queue);
    for (int i = 0; i < 600; ++i) producer.send(i % 3 == 0 ? "a" : "b", options);
    CHECK(run({"purge", queue, "--state", state, "--match", "a", "--yes"}).out ==
          "purged 200 " + std::string(state) + " messages of " + queue + '\n');
    CHECK(run({"purge", queue, "--all", "--state", state, "--yes"}).out ==
          "purged 400 " + std::string(state) + " messages of " + queue + '\n');
  }
  CHECK(inspector.counts().pending + inspector.counts().ready == 0);
  CHECK(run({"purge", queue, "--all", "--state", "retry", "--yes"}).code == 0);
}

TEST_CASE_FIXTURE(DeadFixture, "purge: wrong arguments are exit code 2; a missing queue is exit code 3") {
  const std::pair<std::vector<std::string>, std::string> rows[] = {
      {{"purge", queue}, "--state is required"},
      {{"purge", queue, "--state", "unack", "--yes"}, "--state: 'unack'; expected pending, ready, retry or dead"},
      {{"purge", queue, "--all", "--state", "dead", "--append", "--yes"}, "--append: expected --backup"},
      {{"purge", queue, "--all", "--state", "dead", "--backup", "/nowhere/at/all", "--yes"},
       "--backup: /nowhere/at/all: No such"},
      {{"redrive", queue}, "which: expected ids, or --all"},
      {{"redrive", queue, "x"}, "ID: x"},
      {{"redrive", queue, "0197f3a4-5b6c-7d8e-9f01-23456789abcd", "--all"}, "either ids, or --all"},
      {{"redrive", queue, "--all", "--rate", "fast"}, "--rate: 'fast'"},
      {{"redrive", queue, "--all", "--to", queue}, "--to: " + queue + "; expected another queue"},
  };
  for (const auto& [arguments, expected] : rows) {
    expect(run(arguments), 2, {err_has(expected)});
  }
  CHECK(run({"purge", queue + "x", "--all", "--state", "dead", "--yes"}).code == 3);
  CHECK(run({"redrive", queue + "x", "--all", "--yes"}).code == 3);
  CHECK(inspector.counts().dead == 19);
}

TEST_CASE_FIXTURE(
    DeadFixture,
    "purge --backup: messages are in the file before they are removed, and import restores them completely") {
  TempFile file;
  std::vector<delayqueue::MessageInfo> papers;
  std::string all_bytes;
  for (int i = 255; i >= 0; --i) all_bytes += static_cast<char>(i);
  papers.push_back(*inspector.find(inspector.list(State::dead).messages[0].id));
  papers[0].id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  papers[0].payload = all_bytes + std::string(100'000, '\xff');  // larger than what a page of messages brings
  papers[0].size = papers[0].payload.size();
  papers[0].reason = "bad \xff bytes";
  CHECK(delayqueue::QueueAdmin(test::server().url(), queue).restore(papers).front().created());
  delayqueue::ListOptions all;
  all.limit = 1000;
  all.payload = 1'000'000;
  const auto before = inspector.list(State::dead, all).messages;
  REQUIRE(before.size() == 20);
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--yes"}).out ==
        "purged 20 dead messages of " + queue + "; the backup is '" + file.path + "'\n");
  CHECK(inspector.counts().dead == 0);
  struct stat facts {};
  REQUIRE(::stat(file.path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  CHECK(lines_of(file.text()).size() == 20);
  const Ran imported = run({"import", queue, file.path});
  CHECK(imported.out == "imported 20 messages into " + queue + '\n');
  const auto after = inspector.list(State::dead, all).messages;
  REQUIRE(after.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(after[i].payload == before[i].payload);
    CHECK(after[i].reason == before[i].reason);
    CHECK(after[i].deliveries == before[i].deliveries);
    CHECK(*before[i].at - *after[i].at < 1ms);  // JSON has milliseconds
  }
  CHECK(run({"import", queue, file.path}).out == "imported 0 messages into " + queue + ", 20 existed\n");
}

TEST_CASE_FIXTURE(DeadFixture,
                  "purge --backup: an existing file is refused without --append; a torn last line is ended first") {
  TempFile file;
  std::ofstream(file.path) << "{\"torn";
  expect(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--yes"}), 2,
         {err_has("exists; name another file, or add to it with --append")});
  CHECK(file.text() == "{\"torn");
  CHECK(inspector.counts().dead == 19);
  REQUIRE(::chmod(file.path.c_str(), 0600) == 0);
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--append", "--yes"}).code == 0);
  CHECK(file.text().substr(0, 8) == "{\"torn\n{");
  const Ran imported = expect(run({"import", queue, file.path}), 4);
  CHECK(imported.out == "imported 19 messages into " + queue + "; 1 line failed\n");
}

TEST_CASE("purge --backup: a write error ends it, and no message that is not in the file is removed") {
  const std::string queue = fresh_queue();
  make_dead(queue, 10, "x");
  TempFile file;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit none = before;
  none.rlim_cur = 1;
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &none);
  const Ran ran = run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--append", "--yes"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  CHECK(ran.code == 1);
  CHECK(has(ran.err, ": File too large; what is not in it was not removed"));
  CHECK(counts(queue).dead == 10);
}

TEST_CASE("purge --backup: a full disk is exit code 4, and backup and queue together have every message") {
  const std::string queue = fresh_queue();
  const auto ids = make_dead(queue, 5000, "x");
  TempFile file;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 300'000;
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  Dqctl purge({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--yes"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  expect(purge.wait(), 4, {err_has("what is not in it was not removed")});
  const auto rest = lines_of(run({"export", queue}).out);
  CHECK(rest.size() == counts(queue).dead);
  CHECK(rest.size() < 5000);
  std::set<std::string> all;
  for (const json& line : rest) all.insert(line.at("id").get<std::string>());
  const std::string text = file.text();
  for (const std::string& id : ids_in(text.substr(0, text.rfind('\n') + 1))) all.insert(id);
  CHECK((all == std::set<std::string>(ids.begin(), ids.end())));
}

TEST_CASE("purge: SIGINT ends it between two steps; after another run the backup has every message") {
  const std::string queue = fresh_queue();
  const auto ids = make_dead(queue, 30'000, "x");
  TempFile file;
  Dqctl purge({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--yes", "-o", "json"});
  struct stat facts {};
  while (::stat(file.path.c_str(), &facts) != 0 || facts.st_size < 100'000) ::usleep(500);
  purge.signal(SIGINT);
  const Ran ran = expect(purge.wait(), 4);
  const json report = parse_json(ran.out);
  CHECK(report.at("interrupted") == true);
  CHECK(has(ran.err, "interrupted: purged "));
  const std::uint64_t purged = report.at("purged");
  CHECK(purged > 0);
  CHECK(purged < 30'000);
  CHECK(counts(queue).dead == 30'000 - purged);
  CHECK(ids_in(file.text()).size() == purged);
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--append", "--yes"}).code == 0);
  CHECK((ids_in(file.text()) == std::set<std::string>(ids.begin(), ids.end())));
  CHECK(counts(queue).dead == 0);
}

TEST_CASE_FIXTURE(DeadFixture, "redrive: it moves by ids, by reason or all, with new retries on request") {
  const auto dead = inspector.list(State::dead).messages;
  expect(run({"redrive", queue, dead[0].id, "0197f3a4-5b6c-7d8e-9f01-23456789abcd", "--retries", "9"}), 4,
         {out_has(dead[0].id + "  redriven\n"), out_has("not among the dead")});
  CHECK(inspector.find(dead[0].id)->retries == 9);
  const Ran dry = run({"redrive", queue, "--reason", "gateway*"});
  CHECK(has(dry.err, "dry run: would redrive 11 of 18 dead messages of " + queue));
  CHECK(inspector.counts().ready == 1);
  CHECK(run({"redrive", queue, "--reason", "gateway*", "--yes"}).out == "redriven 11 messages of " + queue + '\n');
  CHECK(inspector.counts().ready == 12);
  CHECK(inspector.counts().dead == 7);
  test::redis().cmd({"DEL", "dp:" + queue + ":msg:" + inspector.list(State::dead).messages[0].id});
  const Ran all = run({"redrive", queue, "--all", "--yes", "-o", "json"});
  CHECK(parse_json(all.out) ==
        parse_json(
            R"({"queue":")" + queue +
            R"(","to":null,"redriven":6,"no_body":1,"key_taken":0,"exist":0,"left_alone":0,"copied":0,"foreign":0,)"
            R"("unconfirmed":0,"interrupted":false,"error":null})"));
  CHECK(inspector.counts().dead == 0);
}

TEST_CASE("redrive: among 6,000 dead letters it moves those that match, keeps to --rate, and ends at SIGINT") {
  const std::string queue = fresh_queue();
  make_dead(queue, 3000, "a");
  make_dead(queue, 3000, "b");
  CHECK(run({"redrive", queue, "--reason", "a", "--match", "*5", "--yes"}).out ==
        "redriven 300 messages of " + queue + '\n');
  CHECK(run({"redrive", queue, "--reason", "b", "--yes"}).out == "redriven 3,000 messages of " + queue + '\n');
  const Ran slow = run({"redrive", queue, "--match", "1?", "--rate", "20/s", "--yes"});  // 10 to 19 without 15
  CHECK(slow.out == "redriven 9 messages of " + queue + '\n');
  CHECK(slow.took >= 390ms);
  Dqctl all({"redrive", queue, "--all", "--rate", "200/s", "--yes"});
  while (counts(queue).ready < 3400) ::usleep(1000);
  all.signal(SIGINT);
  CHECK(all.wait().code == 4);
  const auto after = counts(queue);
  CHECK(after.ready + after.dead == 6000);
  CHECK(after.dead > 0);
}

TEST_CASE_FIXTURE(
    DeadFixture,
    "redrive --to: it moves ids and payloads to another queue, and a run after an abort completes the move") {
  const std::string other = fresh_queue();
  const auto dead = inspector.list(State::dead).messages;
  delayqueue::Inspector there(test::server().url(), other);
  auto copy = *inspector.find(dead[3].id);  // as an aborted run leaves it after this message
  copy.state = State::ready;
  copy.retries = 1;
  copy.reason.clear();
  CHECK(delayqueue::QueueAdmin(test::server().url(), other).restore({copy}).front().created());
  CHECK(run({"redrive", queue, "--all", "--to", other, "--retries", "1", "--create", "--yes"}).out ==
        "redriven 19 messages of " + queue + " to " + other + '\n');
  CHECK(inspector.counts().dead == 0);
  CHECK(there.counts().ready == 19);
  for (const auto& message : dead) {
    const auto found = there.find(message.id);
    REQUIRE(found);
    CHECK(found->payload == message.payload);
    CHECK(found->retries == 1);
    CHECK(found->reason.empty());
  }
  make_dead(queue, 1, "x");
  const auto one = inspector.list(State::dead).messages[0];
  CHECK(run({"redrive", queue, one.id, "--to", other, "--create"}).code == 0);
  CHECK(there.find(one.id));
}

TEST_CASE_FIXTURE(
    DeadFixture,
    "redrive --to: an id that the other queue has already, alive or dead, is left alone, and no message is lost") {
  const std::string other = fresh_queue();
  const auto dead = inspector.list(State::dead).messages;
  delayqueue::Inspector there(test::server().url(), other);
  for (const State state : {State::ready, State::dead}) {
    auto other_message = *inspector.find(dead[state == State::dead ? 0 : 1].id);
    other_message.state = state;
    other_message.retries = state == State::dead ? std::nullopt : std::optional(1);
    other_message.payload = "another";
    other_message.size = other_message.payload.size();
    CHECK(delayqueue::QueueAdmin(test::server().url(), other).restore({other_message}).front().created());
  }
  const Ran ran = expect(run({"redrive", queue, "--all", "--to", other, "--create", "--yes"}), 4,
                         {out_is("redriven 17 messages of " + queue + " to " + other + '\n')});
  CHECK(ran.err.find("left alone: 2 messages whose id another message has in " + other) != std::string::npos);
  CHECK(inspector.counts().dead == 2);
  for (int i : {0, 1}) {
    CHECK(inspector.find(dead[i].id)->payload == dead[i].payload);
    CHECK(there.find(dead[i].id)->payload == "another");
    const auto one = run({"redrive", queue, dead[i].id, "--to", other, "--create"});
    CHECK(one.code != 0);
    CHECK(inspector.find(dead[i].id));
  }
}

}  // namespace

TEST_CASE(
    "redrive, purge, export: a foreign id among 1,200 dead letters is skipped and reported, and all others are done") {
  const auto prepared = [] {
    const std::string queue = fresh_queue();
    make_dead(queue, 1200, "x");
    test::redis().cmd({"ZADD", "dp:" + queue + ":dead", "1", "foreign-1"});
    return queue;
  };
  const auto check = [](const Ran& ran, const std::string& queue) {
    CAPTURE(ran.err);
    CHECK(ran.code == 4);
    CHECK(has(ran.err, "1 id is no UUID, and is left alone: dqctl doctor " + queue + " shows them"));
    CHECK_FALSE(has(ran.err, "nothing was done"));
  };
  std::string queue = prepared();
  Ran ran = run({"redrive", queue, "--all", "--yes", "-o", "json"});
  check(ran, queue);
  CHECK(holds(parse_json(ran.out), {{"redriven", 1200}, {"foreign", 1}}));
  CHECK(counts(queue).ready == 1200);

  queue = prepared();
  const std::string other = fresh_queue();
  check(run({"redrive", queue, "--all", "--to", other, "--create", "--yes"}), queue);
  CHECK(counts(other).ready == 1200);

  queue = prepared();
  check(run({"export", queue}), queue);
  TempFile file;
  ran = run({"purge", queue, "--state", "dead", "--all", "--backup", file.path, "--yes", "-o", "json"});
  check(ran, queue);
  CHECK(holds(parse_json(ran.out), {{"purged", 1200}, {"foreign", 1}}));
  CHECK(lines_of(file.text()).size() == 1200);
}

TEST_CASE("purge --older-than 0s: messages that are not due yet stay, as the dry run shows") {
  for (const char* age : {"0s", "0ms", "1ms"}) {
    for (const bool backup : {false, true}) {
      CAPTURE(age);
      CAPTURE(backup);
      const std::string queue = fresh_queue();
      delayqueue::Producer producer(test::server().url(), queue);
      auto later = delayed(10h);
      producer.send_batch({"a", "b", "c"}, later);
      later.delay = 1ms;
      producer.send("due", later);
      std::this_thread::sleep_for(50ms);
      TempFile file;
      std::vector<std::string> words = {"purge", queue, "--state", "pending", "--older-than", age, "-o", "json"};
      if (backup) words.insert(words.end(), {"--backup", file.path});
      CHECK(parse_json(run(words).out).at("matching") == 1);
      words.emplace_back("--yes");
      CHECK(parse_json(run(words).out).at("purged") == 1);
      CHECK(counts(queue).pending == 3);
    }
  }
}

TEST_CASE("purge: the dry run counts those foreign ids that the purge removes, and no others") {
  const std::vector<std::vector<std::string>> selections = {
      {"--all"}, {"--older-than", "1s"}, {"--match", "*"}, {"--all", "--backup"}};
  for (const auto& selection : selections) {
    CAPTURE(selection.front());
    const std::string queue = fresh_queue();
    make_dead(queue, 3, "x");
    test::rewind("dp:" + queue, 1h);
    for (int i = 0; i < 10; ++i) {
      test::redis().cmd({"ZADD", "dp:" + queue + ":dead", "1", "foreign-" + std::to_string(i)});
      test::redis().cmd({"SET", "dp:" + queue + ":msg:foreign-" + std::to_string(i), "body"});
    }
    TempFile file;
    std::vector<std::string> words = {"purge", queue, "--state", "dead", "-o", "json"};
    words.insert(words.end(), selection.begin(), selection.end());
    if (words.back() == "--backup") words.push_back(file.path);
    const json dry = parse_json(run(words).out);
    words.emplace_back("--yes");
    const json deed = parse_json(run(words).out);
    CHECK(dry.at("matching") == deed.at("purged"));
    CHECK(deed.at("purged").get<int>() + deed.at("foreign").get<int>() == 13);
    CHECK(counts(queue).dead == deed.at("foreign").get<std::uint64_t>());
  }
}

TEST_CASE("purge, redrive: an id in capitals is foreign, because no call finds it") {
  const std::string queue = fresh_queue();
  make_dead(queue, 2, "x");
  const std::string capitals = "AAAAAAAA-0000-7000-8000-0000000000AB";
  test::redis().cmd({"ZADD", "dp:" + queue + ":dead", "1700000000", capitals});
  test::redis().cmd({"SET", "dp:" + queue + ":msg:" + capitals, "body"});
  TempFile file;
  Ran ran = expect(run({"redrive", queue, "--all", "--yes", "-o", "json"}), 4);
  CHECK(holds(parse_json(ran.out), {{"redriven", 2}, {"foreign", 1}}));
  ran = expect(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--yes", "-o", "json"}), 4);
  CHECK(holds(parse_json(ran.out), {{"foreign", 1}, {"left_alone", 0}}));
  CHECK(file.text().empty());
}

TEST_CASE("purge --backup --append: a file that others may read is refused") {
  const std::string queue = fresh_queue();
  make_dead(queue, 1, "x");
  for (const mode_t mode : {0644, 0666, 0640}) {
    TempFile file;
    REQUIRE(std::ofstream(file.path).put('\n').good());
    REQUIRE(::chmod(file.path.c_str(), mode) == 0);
    expect(run({"purge", queue, "--all", "--state", "dead", "--backup", file.path, "--append", "--yes"}), 2,
           {err_has("is open to other users; chmod 600")});
    CHECK(counts(queue).dead == 1);
  }
}

TEST_CASE("purge: removing all messages of a state needs --all") {
  const std::string queue = fresh_queue();
  make_dead(queue, 3, "x");
  for (const bool yes : {false, true}) {
    std::vector<std::string> words = {"purge", queue, "--state", "dead"};
    if (yes) words.emplace_back("--yes");
    expect(run(words), 2, {err_has("expected --all, --match, --reason or --older-than")});
  }
  CHECK(counts(queue).dead == 3);
  CHECK(run({"purge", queue, "--all", "--state", "dead", "--yes"}).code == 0);
  CHECK(counts(queue).dead == 0);
}

TEST_CASE("redrive: a dead letter whose unique key another message has stays, here and with --to") {
  const std::string queue = fresh_queue();
  const std::string other = fresh_queue();
  const std::string url = test::server().url();
  delayqueue::SendOptions keyed;
  keyed.unique.key = "customer 7";
  keyed.delay = std::chrono::hours(1);
  const std::string id = delayqueue::Producer(url, queue).send("x", keyed).id;
  CHECK(delayqueue::QueueAdmin(url, queue).bury({id}).front() == delayqueue::Outcome::done);
  for (const std::string& taken : {queue, other}) CHECK(delayqueue::Producer(url, taken).send("y", keyed).created());
  const std::string text = "another message has its unique key: left alone";
  CHECK(has(run({"redrive", queue, id}).out, text));
  CHECK(has(run({"redrive", queue, id, "--to", other}).out, text));
  expect(run({"redrive", queue, "--all", "--yes"}), 4,
         {err_has("left alone: 1 message whose unique key another message has")});
  CHECK(parse_json(run({"redrive", queue, "--all", "--yes", "--to", other, "-o", "json"}).out).at("key_taken") == 1);
  CHECK(counts(queue).dead == 1);
  CHECK(counts(other).pending == 1);
}

TEST_CASE("redrive --to: a queue that does not exist is made only with --create") {
  const std::string queue = fresh_queue();
  const std::string other = fresh_queue();
  make_dead(queue, 3, "x");
  expect(run({"redrive", queue, "--all", "--to", other, "--yes"}), 3,
         {err_has("--to: queue " + other + " is not at"), err_has("--create makes it")});
  CHECK(counts(queue).dead == 3);
  CHECK(run({"redrive", queue, "--all", "--to", other, "--create", "--yes"}).code == 0);
  CHECK(counts(other).ready == 3);
  CHECK(run({"redrive", queue, "--all", "--create", "--yes"}).code == 2);
}
