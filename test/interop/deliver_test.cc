// One library sends, the other delivers.
#include <doctest/doctest.h>

#include "interop/both_sides.h"

using namespace delayqueue;
using namespace std::chrono_literals;
using test::eventually;
using test::go;
using test::GoProgram;

TEST_CASE("Go sends and C++ delivers: each message is delivered once and nothing is left") {
  const auto queue = test::fresh_queue();
  auto ids = go("send", queue, {"-n", "20"});
  const auto later = go("send", queue, {"-n", "5", "-delay", "1s"});
  ids.insert(ids.end(), later.begin(), later.end());

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  CHECK(eventually([&] { return handled.size() >= 25; }));
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(worker.stop(5s));

  std::vector<std::string> seen;
  for (const auto& message : handled.all()) {
    seen.push_back(message.id());
    CHECK(message.attempt() == 1);
    CHECK(message.payload().rfind("go-", 0) == 0);
  }
  CHECK(test::sorted(seen) == test::sorted(ids));
}

TEST_CASE("C++ sends and Go delivers: each message is delivered once and nothing is left") {
  const auto queue = test::fresh_queue();
  Producer producer(test::server().url(), queue);
  std::vector<std::string> payloads;
  for (int i = 0; i < 25; ++i) payloads.push_back("cpp-" + std::to_string(i));
  producer.send_batch(std::vector(payloads.begin(), payloads.begin() + 20));
  producer.send_batch(std::vector(payloads.begin() + 20, payloads.end()), {.delay = 700ms});

  GoProgram worker("work", queue, {"-concurrency", "2"});
  CHECK(eventually([&] { return worker.count_starting("ack ") >= payloads.size(); }));
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(worker.finish() == 0);
  for (const auto& payload : payloads) CHECK(worker.count("ack " + payload) == 1);
  CHECK(worker.lines().size() == 2 * payloads.size());
}

TEST_CASE("Go delivers messages with headers as others and a consumer deletes the headers that it leaves") {
  const auto queue = test::fresh_queue();
  Producer producer(test::server().url(), queue);
  producer.send_batch({"a", "b"}, {.headers = {{"content-type", "text/plain"}}});
  GoProgram worker("work", queue);
  CHECK(eventually([&] { return worker.count("ack a") == 1 && worker.count("ack b") == 1; }));
  CHECK(worker.finish() == 0);
  CHECK(test::redis().cmd({"HLEN", "dp:" + queue + ":headers"}) == 2);

  test::Deliveries handled;
  Consumer consumer(test::server().url(), queue, test::record(handled), test::quick());
  consumer.start();
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(consumer.stop(5s));
  CHECK(handled.size() == 0);
}

TEST_CASE("payloads keep all byte values in both directions") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  bytes += std::string("\0\xff\r\n\0", 5);

  const auto to_cpp = test::fresh_queue();
  go("send", to_cpp, {"-hex", "-payload", test::hex(bytes)});
  test::Deliveries handled;
  Consumer consumer(test::server().url(), to_cpp, test::record(handled), test::quick());
  consumer.start();
  REQUIRE(eventually([&] { return handled.size() > 0; }));
  CHECK(consumer.stop(5s));
  CHECK(handled.all().front().payload() == bytes);

  const auto to_go = test::fresh_queue();
  Producer producer(test::server().url(), to_go);
  producer.send(bytes);
  producer.send("");
  GoProgram worker("work", to_go, {"-hex"});
  CHECK(eventually([&] { return worker.count_starting("ack ") == 2; }));
  CHECK(worker.count("ack " + test::hex(bytes)) == 1);
  CHECK(worker.count("ack ") == 1);
  CHECK(worker.finish() == 0);
}

namespace {

// Sends a message in both directions, with options that change the names of the keys.
void both_ways(const std::string& queue, const KeyOptions& options, const GoProgram::Flags& flags) {
  const Client client(test::server().url(), {.keys = options});
  Producer producer(client, queue);
  producer.send("to-go");
  {
    GoProgram worker("work", queue, flags);
    CHECK(eventually([&] { return worker.count("ack to-go") == 1; }));
    CHECK(worker.finish() == 0);
  }
  auto send = flags;
  send.insert(send.end(), {"-payload", "to-cpp"});
  go("send", queue, send);
  test::Deliveries handled;
  Consumer consumer(client, queue, test::record(handled), test::quick());
  consumer.start();
  REQUIRE(eventually([&] { return handled.size() > 0; }));
  CHECK(handled.all().front().payload() == "to-cpp");
}

}  // namespace

TEST_CASE("with a custom prefix and bodies_under_dp C++ and Go serve one queue") {
  const auto queue = test::fresh_queue();
  both_ways(queue, {.prefix = "shop", .go = {.bodies_under_dp = true}}, {"-prefix", "shop"});
  CHECK(test::nothing_left("shop:" + queue));
  CHECK(test::nothing_left("dp:" + queue));
}

TEST_CASE("with hash tags C++ and Go serve one queue") {
  const auto queue = test::fresh_queue();
  both_ways(queue, {.hash_tag = HashTag::on}, {"-hash-tag"});
  CHECK(test::nothing_left("{dp:" + queue + "}"));
}

TEST_CASE("a retry that C++ spent counts for Go") {
  const auto queue = test::fresh_queue();
  const auto base = "dp:" + queue;
  Producer(test::server().url(), queue).send("once more", {.retries = 1});
  test::Deliveries handled;
  {
    Consumer refuses(test::server().url(), queue, test::record(handled, nack(1h, "not yet")), test::quick());
    refuses.start();
    REQUIRE(eventually([&] { return refuses.metrics().stats.nacked == 1; }));
  }
  test::rewind(base, 1h);
  GoProgram worker("work", queue, {"-fail-every", "1"});
  REQUIRE(eventually([&] { return worker.count("nack once more") == 1; }));
  CHECK(eventually([&] { return go("counts", queue) == std::vector<std::string>{"0 0 0"}; }));

  // Go deletes a message that it gives up. It leaves the reason, which the next C++ consumer removes.
  Consumer cleans_up(test::server().url(), queue, test::record(handled), test::quick());
  cleans_up.start();
  CHECK(test::nothing_left(base));
  CHECK(handled.size() == 1);
  CHECK(worker.count("take once more") == 1);
}

TEST_CASE("a retry that Go spent counts for C++ and Go leaves the dead letter alone") {
  const auto queue = test::fresh_queue();
  const auto base = "dp:" + queue;
  const auto id = go("send", queue, {"-payload", "doomed", "-retries", "1"}).front();
  {
    GoProgram refuses("work", queue, {"-fail-every", "1", "-redelivery", "1h"});
    REQUIRE(eventually([&] { return refuses.count("nack doomed") == 1; }));
    REQUIRE(eventually([&] {
      return std::stod(test::redis().cmd({"ZSCORE", base + ":unack", id}).text) >
             std::stod(test::redis().cmd({"TIME"}).array[0].text) + 3000;
    }));
  }
  test::rewind(base, 2h);
  test::Deliveries handled;
  {
    Consumer worker(test::server().url(), queue, test::record(handled, nack(0ms, "no such order")), test::quick());
    worker.start();
    CHECK(eventually([&] { return test::snapshot(base).count("dead") == 1; }));
  }
  REQUIRE(handled.size() == 1);
  CHECK(handled.all().front().attempt() == 2);

  Inspector inspector(test::server().url(), queue);
  const auto dead = inspector.list(State::dead);
  REQUIRE(dead.size() == 1);
  CHECK(dead.messages[0].id == id);
  CHECK(dead.messages[0].payload == "doomed");
  CHECK(dead.messages[0].reason == "no such order");
  CHECK(eventually([&] { return test::redis().cmd({"TTL", base + ":msg:" + id}) == -1; }));

  GoProgram worker("work", queue);
  go("send", queue, {"-payload", "after"});
  REQUIRE(eventually([&] { return worker.count("ack after") == 1; }));
  CHECK(inspector.list(State::dead).size() == 1);
  CHECK(QueueAdmin(test::server().url(), queue).redrive({id}).front() == Outcome::done);
  CHECK(eventually([&] { return worker.count("ack doomed") == 1; }));
}
