// Tests of dqctl cancel, reschedule, release, bury and extend: the commands that take ids.
#include "preamble.h"

namespace {

using delayqueue::State;

constexpr char kUnknownId[] = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";

struct QueueFixture {
  std::string queue = fresh_queue();
  delayqueue::Producer producer{test::server().url(), queue};
  delayqueue::Inspector inspector{test::server().url(), queue};

  std::string send(std::chrono::milliseconds delay = 1h) { return producer.send("x", delayed(delay)).id; }
  std::string table(const std::string& id, const std::string& outcome) {
    return "ID                                    OUTCOME\n" + id + "  " + outcome + '\n';
  }
};

// A consumer that holds each message until the end of the test.
struct Holder {
  explicit Holder(const std::string& queue)
      : consumer(test::server().url(), queue, [this](const delayqueue::Message&) {
          ++held;
          while (!done) std::this_thread::sleep_for(1ms);
          return delayqueue::ack();
        }) {
    consumer.start();
    while (held == 0) std::this_thread::sleep_for(1ms);
  }
  ~Holder() {
    done = true;
    static_cast<void>(consumer.stop());
  }

  std::atomic<int> held{0};
  std::atomic<bool> done{false};
  delayqueue::Consumer consumer;
};

TEST_CASE_FIXTURE(QueueFixture, "by id: the table shows the outcome for each message") {
  const std::string id = send();
  const Ran moved = expect(run({"reschedule", queue, id, "--in", "2h"}), 0, {err_is("")});
  CHECK(moved.out == table(id, "moved"));
  CHECK(*inspector.find(id)->at > inspector.counts().now + 119min);
  CHECK(run({"reschedule", queue, id, "--at", "2100-01-01T00:00:00Z"}).code == 0);
  CHECK(*inspector.find(id)->at == std::chrono::system_clock::time_point(4102444800s));
  CHECK(run({"release", queue, id}).out == table(id, "released"));
  CHECK(inspector.find(id)->state == State::ready);
  CHECK(run({"release", queue, id}).out == table(id, "is ready already"));
  CHECK(run({"bury", queue, id, "--why", "customer \xff is gone"}).out == table(id, "buried"));
  CHECK(inspector.find(id)->reason == "customer \xff is gone");
  CHECK(run({"bury", queue, id}).out == table(id, "was dead already"));
  const Ran dead = expect(run({"release", queue, id}), 1);
  CHECK(dead.out == table(id, "dead: see dqctl redrive"));
  CHECK(run({"reschedule", queue, id, "--in", "1h"}).code == 1);
  CHECK(run({"cancel", queue, id}).out == table(id, "cancelled, was dead"));
  expect(run({"cancel", queue, id}), 3, {out_is(table(id, "unknown"))});
}

TEST_CASE_FIXTURE(QueueFixture,
                  "by id: a pending message without retries is reported as unknown, and neither moved nor released") {
  const std::string id = send();
  test::redis().cmd({"HDEL", "dp:" + queue + ":retry:cnt", id});
  CHECK(run({"reschedule", queue, id, "--in", "2h"}).out == table(id, "unknown"));
  CHECK(run({"release", queue, id}).out == table(id, "unknown"));
}

TEST_CASE_FIXTURE(QueueFixture,
                  "by id: JSON has the outcomes and their counts; exit code 4 if some ids are unknown, 3 if all are") {
  const std::string id = send();
  const Ran document = expect(run({"cancel", queue, id, kUnknownId, "-o", "json"}), 4);
  const json report = parse_json(document.out);
  CHECK(report.at("queue") == queue);
  CHECK(report.at("messages").size() == 2);
  CHECK(report.at("messages")[0] == parse_json(R"({"id":")" + id + R"(","outcome":"cancelled, was pending"})"));
  CHECK(report.at("messages")[1].at("outcome") == "unknown");
  CHECK(holds(report, {{"done", 1}, {"unknown", 1}, {"refused", 0}, {"interrupted", false}}));
  CHECK(report.at("error").is_null());
  const Ran lines = expect(run({"cancel", queue, kUnknownId, kUnknownId, "-o", "ndjson"}), 3);
  CHECK(lines_of(lines.out).size() == 2);
}

TEST_CASE_FIXTURE(
    QueueFixture,
    "by id: ids come from stdin, plain or as lines of ls; bad lines are reported, and all other ids are done") {
  const std::string one = send(), two = send(), three = send(), four = send();
  DqctlOptions options;
  options.input =
      one + "\n\n  " + two + " \r\n{\"id\":\"" + three + "\",\"state\":\"dead\"}\nnonsense\n{\"x\":1}\n{\n" + four;
  const Ran ran = expect(run({"cancel", queue, "-"}, options), 4);
  CHECK(inspector.counts().pending == 0);
  CHECK(has(ran.err, "stdin, line 5: nonsense is no id; expected a UUID, or JSON with one"));
  CHECK(has(ran.err, "stdin, line 6: id: missing"));
  CHECK(has(ran.err, "stdin, line 7: is no JSON: {"));
  options.input.clear();
  for (int i = 0; i < 1200; ++i) options.input += send() + '\n';
  CHECK(run({"bury", queue, "-", "--yes"}, options).code == 0);
  CHECK(inspector.counts().dead == 1200);
}

TEST_CASE_FIXTURE(QueueFixture, "by id: --key names the message that has the key") {
  delayqueue::SendOptions options;
  options.unique.key = "customer 7";
  const std::string id = delayqueue::Producer(test::server().url(), queue).send("x", options).id;
  expect(run({"reschedule", queue, "--key", "customer 7", "--in", "1h"}), 0, {out_has(id)});
  expect(run({"show", queue, "--key", "customer 7"}), 0, {out_has("pending"), out_has("unique key")});
  CHECK(parse_json(run({"show", queue, id, "-o", "json"}).out).at("messages").at(0).at("key") == "customer 7");
  expect(run({"cancel", queue, "--key", "customer 7"}), 0, {out_has(id)});
  expect(run({"cancel", queue, "--key", "customer 7"}), 3, {err_has("has the key 'customer 7'")});
  expect(run({"show", queue, "--key", "customer 7"}), 3, {err_has("has the key 'customer 7'")});
}

TEST_CASE_FIXTURE(QueueFixture, "by id: a held message is refused without --force") {
  const std::string id = send(0ms);
  Holder holder(queue);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"release", queue, id},
                                             {"bury", queue, id},
                                             {"extend", queue, id, "--by", "1m"},
                                             {"reschedule", queue, id, "--in", "1m"}}) {
    const Ran ran = run(command);
    CHECK_MESSAGE(ran.code == 1, ran.out);
    CHECK(has(ran.out, "held"));
    CHECK(has(ran.out, "--force") == (command[0] != "reschedule"));
  }
  CHECK(run({"extend", queue, id, "--by", "1h", "--force"}).out == table(id, "extended"));
  CHECK(*inspector.find(id)->at > inspector.counts().now + 1h);
  CHECK(run({"bury", queue, id, "--force"}).out == table(id, "buried"));
  CHECK(inspector.find(id)->state == State::dead);
  CHECK(inspector.find(id)->reason == "buried with dqctl");
  const std::string other = send(0ms);
  while (holder.held < 2) std::this_thread::sleep_for(1ms);
  CHECK(has(run({"cancel", queue, other}).out, "cancelled, but held: gone unless that delivery succeeds"));
}

TEST_CASE_FIXTURE(QueueFixture, "by id: wrong arguments are exit code 2, are named in the error, and change nothing") {
  const std::string id = send();
  const std::pair<std::vector<std::string>, std::string> rows[] = {
      {{"cancel", queue}, "ID: missing; expected ids, - for stdin, or --key"},
      {{"cancel", queue, id, "--key", "k"}, "ID and --key: expected one of them"},
      {{"cancel", queue, "--key", ""}, "key: empty; expected 1 to 128 bytes"},
      {{"cancel", queue, id, "x"}, "ID: x; expected a UUID, or - alone"},
      {{"cancel", queue, id, "-"}, "ID: -; expected"},
      {{"reschedule", queue, id}, "--in or --at: missing"},
      {{"reschedule", queue, id, "--in", "1h", "--at", "+1h"}, "--in and --at: expected one"},
      {{"reschedule", queue, id, "--in", "soon"}, "--in: 'soon'"},
      {{"reschedule", queue, id, "--at", "tomorrow"}, "--at: 'tomorrow'"},
      {{"extend", queue, id}, "--by is required"},
      {{"extend", queue, id, "--by", "0s"}, "by: 0 ms"},
  };
  for (const auto& [arguments, expected] : rows) {
    expect(run(arguments), 2, {err_has(expected), out_is("")});
  }
  CHECK(inspector.counts().pending == 1);
  for (const char* command : {"cancel", "release", "bury"}) {
    expect(run({command, queue + "x", id}), 3, {err_has("queue " + queue + "x is not at ")});
  }
}

}  // namespace

TEST_CASE_FIXTURE(QueueFixture, "by id: more than 20 ids from stdin are a dry run without --yes, for every command") {
  std::string few, many;
  for (int i = 0; i < 21; ++i) {
    const std::string id = send();
    if (i < 20) few += id + '\n';
    many += id + '\n';
  }
  auto options = with(&DqctlOptions::input, many + "no id\n");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"cancel", queue, "-"},
                                             {"reschedule", queue, "-", "--in", "2h"},
                                             {"release", queue, "-"},
                                             {"bury", queue, "-"},
                                             {"extend", queue, "-", "--by", "1h"},
                                             {"redrive", queue, "-"}}) {
    CAPTURE(words.front());
    expect(run(words, options), 0,
           {out_is(""), err_has("dry run: would " + words.front() + " 21 messages of " + queue)});
    std::vector<std::string> as_json = words;
    as_json.insert(as_json.end(), {"-o", "json"});
    const json report = parse_json(run(as_json, options).out);
    CHECK(holds(report, {{"dry_run", true}, {"ids", 21}, {"bad_lines", 1}}));
    CHECK(inspector.counts().pending == 21);
  }
  const Ran done = run({"bury", queue, "-", "--yes"}, options);
  CHECK(done.code == 4);  // one line holds no id
  CHECK(inspector.counts().dead == 21);
  options.input = few;
  CHECK(run({"redrive", queue, "-"}, options).code == 0);
  CHECK(inspector.counts().dead == 1);
}
