// Tests of dqctl forget.
#include "preamble.h"

#include "support/cluster.h"

namespace {

using delayqueue::State;

bool is_known(const std::string& queue, const std::string& url = test::server().url()) {
  const auto names = delayqueue::Inspector(url, "any").queues();
  return std::find(names.begin(), names.end(), queue) != names.end();
}

// All keys of the queue.
std::vector<std::string> keys_of(const std::string& queue) {
  return test::redis().cmd({"KEYS", "dp:" + queue + ":*"}).strings();
}

// Those that stay: without a TTL, in one order. A consumer that has ended leaves its watch, which expires.
std::vector<std::string> lasting_keys_of(const std::string& queue) {
  std::vector<std::string> keys = keys_of(queue);
  const auto expires = [](const std::string& key) { return test::redis().cmd({"TTL", key}).integer != -1; };
  keys.erase(std::remove_if(keys.begin(), keys.end(), expires), keys.end());
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Makes an empty queue that has statistics and metadata: one message was sent and handled.
void use(const std::string& queue, const std::string& url = test::server().url()) {
  delayqueue::Producer(url, queue).send("x");
  std::atomic<bool> done{false};
  delayqueue::Consumer consumer(url, queue, [&](const delayqueue::Message&) {
    done = true;
    return delayqueue::ack();
  });
  consumer.start();
  while (!done) std::this_thread::sleep_for(1ms);
  CHECK(consumer.stop());
}

}  // namespace

TEST_CASE("forget: it removes every key of an empty queue and its entry in the list, and touches no other queue") {
  const std::string queue = fresh_queue(), other = fresh_queue();
  use(queue);
  use(other);
  test::redis().cmd({"HSET", "dp:" + queue + ":reason", "0197f3a4-5b6c-7d8e-9f01-23456789abcd", "left by a Go worker"});
  test::redis().cmd({"SET", "dp:" + queue + ":watch", "1 me"});
  CHECK(run({"pause", queue}).code == 0);
  const auto before = lasting_keys_of(other);
  CHECK_FALSE(before.empty());
  expect(run({"forget", queue}), 0, {err_is(""), out_is("forgot " + queue + ", and its pause\n")});
  CHECK(keys_of(queue).empty());
  CHECK_FALSE(is_known(queue));
  CHECK(lasting_keys_of(other) == before);
  CHECK(is_known(other));
  expect(run({"forget", queue}), 3, {err_has("queue " + queue + " is not at")});
  const json report = parse_json(run({"forget", other, "-o", "json"}).out);
  CHECK(report == parse_json(R"({"queue":")" + other + R"(","forgotten":true,"paused":false})"));
}

TEST_CASE("forget: a missing queue is exit code 3, and the error suggests the closest name") {
  const std::string queue = fresh_queue() + "-orders";
  use(queue);
  expect(run({"forget", queue + "z"}), 3, {err_has("did you mean " + queue + "?")});
  CHECK(is_known(queue));
  CHECK(run({"forget"}).code == 2);
}

TEST_CASE("forget: one message in any state keeps the queue with all its keys, and is named in the error") {
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    const std::string name = delayqueue::to_string(state);
    CAPTURE(name);
    const std::string queue = fresh_queue();
    const std::string base = "dp:" + queue;
    const std::string id = delayqueue::Producer(test::server().url(), queue).send("x", delayed(1h)).id;
    const auto move = [&](const std::vector<std::string>& command) {
      test::redis().cmd({"ZREM", base + ":pending", id});
      test::redis().cmd(command);
    };
    if (state == State::ready) move({"LPUSH", base + ":ready", id});
    if (state == State::retry) move({"LPUSH", base + ":retry", id});
    if (state == State::unack) move({"ZADD", base + ":unack", "32503680000", id});
    if (state == State::dead) {
      const auto buried = delayqueue::QueueAdmin(test::server().url(), queue).bury({id});
      CHECK(buried.front() == delayqueue::Outcome::done);
    }
    const auto before = keys_of(queue);
    expect(run({"forget", queue}), 1,
           {err_has("cannot forget queue " + queue + ": it is not empty: 1 " + name + "; wait until")});
    CHECK(has(parse_json(run({"forget", queue, "-o", "json"}).out).at("error").get<std::string>(), "1 " + name));
    auto after = keys_of(queue);
    after.erase(std::remove(after.begin(), after.end(), base + ":wake"), after.end());
    for (const std::string& key : after) CHECK(std::find(before.begin(), before.end(), key) != before.end());
    CHECK(after.size() + 1 >= before.size());
    CHECK(is_known(queue));
  }
}

TEST_CASE("forget: stale ids in lists and garbage do not count as messages; a damaged queue is refused") {
  const std::string queue = fresh_queue();
  const std::string base = "dp:" + queue;
  {
    delayqueue::Producer producer(test::server().url(), queue);
    const auto sent = producer.send_batch(std::vector<std::string>(450, "x"));
    for (const auto& one : sent) CHECK(producer.cancel(one.id) == State::ready);
    test::redis().cmd({"LPUSH", base + ":retry", "foreign"});
    test::redis().cmd({"SADD", base + ":garbage", sent[0].id, "another foreign"});
  }
  CHECK(test::counts(queue).ready == 450);
  CHECK(run({"forget", queue}).code == 0);
  CHECK(keys_of(queue).empty());

  use(queue);
  test::redis().cmd({"HSET", base + ":retry:cnt", "0197f3a4-5b6c-7d8e-9f01-23456789abcd", "3"});
  expect(run({"forget", queue}), 1,
         {err_has("in no state, or remains of them (1); dqctl doctor " + queue + " --repair --yes repairs it")});
  CHECK(is_known(queue));
  CHECK(run({"doctor", queue, "--repair", "--yes", "--settle", "1ms"}).code != 1);
  CHECK(run({"forget", queue}).code == 0);

  use(queue);
  test::redis().cmd({"SET", base + ":dead", "no set"});
  CHECK(run({"forget", queue}).code == 1);
  CHECK(test::redis().cmd({"EXISTS", base + ":stats"}) == 1);
}

TEST_CASE("forget: a message after many stale ids in its list is not lost") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  const auto sent = producer.send_batch(std::vector<std::string>(401, "x"));
  for (std::size_t i = 0; i < 400; ++i) CHECK(producer.cancel(sent[i].id) == State::ready);
  expect(run({"forget", queue}), 1, {err_has("1 ready")});
  CHECK(delayqueue::Inspector(test::server().url(), queue).find(sent[400].id)->state == State::ready);
}

TEST_CASE("forget: a consumer that waits for messages keeps the queue") {
  const std::string queue = fresh_queue();
  use(queue);
  delayqueue::Consumer consumer(test::server().url(), queue,
                                [](const delayqueue::Message&) { return delayqueue::ack(); });
  consumer.start();
  while (test::redis().cmd({"CLIENT", "LIST"}).text.find("cmd=bzpopmin") == std::string::npos) {
    std::this_thread::sleep_for(1ms);
  }
  expect(run({"forget", queue}), 1, {err_has("a consumer waits for its messages; stop it")});
  CHECK(is_known(queue));
  CHECK(consumer.stop());
  CHECK(run({"forget", queue}).code == 0);
}

TEST_CASE("forget: the next send registers the queue again, also from a producer that was connected before") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  delayqueue::Inspector inspector(test::server().url(), queue);
  delayqueue::QueueAdmin admin(test::server().url(), queue);
  CHECK(producer.cancel(producer.send("x").id) == State::ready);
  for (const bool batch : {false, true}) {
    REQUIRE(run({"forget", queue}).code == 0);
    REQUIRE_FALSE(is_known(queue));
    if (batch) {
      delayqueue::OutgoingMessage message;
      message.options.id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
      const auto sent = producer.send_batch({message, message});
      CHECK(sent[0].created());
      CHECK_FALSE(sent[1].created());
    } else {
      CHECK(producer.send("y").created());
    }
    CHECK(is_known(queue));
    CHECK(inspector.counts().ready == 1);
    CHECK(admin.purge(State::ready) == 1);
  }
}

TEST_CASE("forget: no message that is sent at the same moment is lost, and its queue is in the list") {
  const std::string queue = fresh_queue();
  std::atomic<bool> stop{false};
  std::atomic<int> sent{0}, forgotten{0};
  delayqueue::Producer producer(test::server().url(), queue);
  delayqueue::QueueAdmin other(test::server().url(), queue);
  std::thread forgetting([&] {
    while (!stop) forgotten += other.forget().none() ? 1 : 0;
  });
  delayqueue::Inspector inspector(test::server().url(), queue);
  delayqueue::QueueAdmin admin(test::server().url(), queue);
  int unknown = 0, lost = 0;
  for (const auto end = std::chrono::steady_clock::now() + 8s; std::chrono::steady_clock::now() < end;) {
    const std::string id = producer.send("x").id;
    ++sent;
    if (!inspector.find(id)) ++lost;
    // forget removes the queue from the list for a moment, until it finds the new message.
    bool known = false;
    for (const auto patience = std::chrono::steady_clock::now() + 5s;
         !known && std::chrono::steady_clock::now() < patience;) {
      known = is_known(queue);
    }
    if (!known) ++unknown;
    if (admin.purge(State::ready) != 1) ++lost;
  }
  stop = true;
  forgetting.join();
  MESSAGE(sent.load(), " sent, forgotten ", forgotten.load(), " times");
  CHECK(lost == 0);
  CHECK(unknown == 0);
  CHECK(forgotten > 0);
}

TEST_CASE("forget: with --prefix or --hash-tag it removes the keys with that prefix or tag, and no others") {
  const std::string queue = fresh_queue();
  use(queue);
  delayqueue::ClientOptions options;
  options.keys.prefix = "shop";
  options.keys.hash_tag = delayqueue::HashTag::on;
  delayqueue::Producer producer({test::server().url(), options}, queue);
  CHECK(producer.cancel(producer.send("x").id) == State::ready);
  CHECK(run({"forget", queue, "--prefix", "shop", "--hash-tag", "on"}).code == 0);
  CHECK(test::redis().cmd({"KEYS", "{shop:" + queue + "}:*"}).strings().empty());
  CHECK(test::redis().cmd({"SISMEMBER", "shop:queues", "{shop:" + queue + "}"}) == 0);
  CHECK_FALSE(keys_of(queue).empty());
  CHECK(is_known(queue));
}

TEST_CASE("forget: it works in a Cluster, where the set of queues is on another node") {
  test::Cluster cluster;
  std::vector<std::string> queues;
  for (int i = 0; i < 6; ++i) queues.push_back("q" + std::to_string(i));
  for (const std::string& queue : queues) {
    delayqueue::Producer producer(cluster.url(), queue);
    CHECK(producer.cancel(producer.send("x").id) == State::ready);
    CHECK(is_known(queue, cluster.url()));
    DqctlOptions options;
    options.environment["DELAYQUEUE_URI"] = cluster.url();
    const Ran ran = run({"forget", queue}, options);
    CHECK_MESSAGE(ran.code == 0, ran.err);
    CHECK_FALSE(is_known(queue, cluster.url()));
    CHECK(producer.send("y").created());
    CHECK(is_known(queue, cluster.url()));
    CHECK(run({"forget", queue}, options).code == 1);
  }
}
