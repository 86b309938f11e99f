// The longest durations that options accept, and durations far outside of them, work: no time overflows.
#include "support/test.h"

#include "queue/option_checks.h"

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;

int requests_in_a_second(test::Redis& client) {
  const auto total = [&] { return std::stoi(test::info("stats", "total_commands_processed", client)); };
  const int before = total();
  std::this_thread::sleep_for(1s);
  return total() - before;
}

TEST_CASE("extreme times: a consumer with the longest durations delivers, wakes, and is idle between messages") {
  PrivateServer own;
  test::Redis client(own.socket());
  for (const milliseconds longest : {kLongest, milliseconds(30LL * 365 * 24 * 3'600'000)}) {
    ClientOptions client_options;
    ConsumerOptions options;
    options.logger = no_log();
    options.concurrency = 2;
    options.lease = options.tuning.poll_interval = options.processing_timeout = longest;
    options.dead_retention = options.tuning.reconnect_grace = longest;
    options.backoff = Backoff::exponential(longest, longest);
    client_options.connect_timeout = client_options.command_timeout = longest;
    std::atomic<int> handled{0};
    const auto handler = [&](const Message& message) {
      ++handled;
      if (message.payload() == "nack") return nack(milliseconds::max());
      if (message.payload() == "snooze") return snooze(milliseconds::min());
      return ack();
    };
    const std::string queue = "q" + std::to_string(longest.count());
    Consumer consumer({own.url(), client_options}, queue, handler, options);
    consumer.start();
    Producer producer({own.url(), client_options}, queue);
    REQUIRE(test::eventually([&] { return consumer.metrics().stats.connected; }));
    producer.send("now");
    SendOptions later;
    later.delay = 300ms;
    later.ttl = kLongest;
    producer.send("later", later);
    producer.send("nack");
    later.delay = kLongest;
    producer.send("never", later);
    CAPTURE(longest.count());
    CHECK(test::eventually(
        [&] { return handled == 3 && consumer.metrics().stats.acked == 2 && consumer.metrics().stats.nacked == 1; },
        test::kPatience));
    CAPTURE(handled.load());
    CAPTURE(consumer.metrics().stats.acked);
    CAPTURE(consumer.metrics().stats.nacked);
    CAPTURE(consumer.metrics().stats.last_error);
    CHECK(requests_in_a_second(client) < 100);  // without end, if a time in the past were the next one
    CHECK(consumer.stop(test::kPatience));
  }
}

TEST_CASE("extreme times: stop() and next_event() take any duration") {
  test::Queue queue;
  for (const milliseconds wait : {milliseconds::min(), milliseconds(-1), milliseconds(0)}) {
    const auto begin = Clock::now();
    CHECK_FALSE(queue.inspector.next_event(wait));
    test::Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch(), test::quick());
    consumer->start();
    static_cast<void>(consumer->stop(wait));
    CHECK(Clock::now() - begin < 20s);
  }
  test::Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), test::quick());
  consumer->start();
  CHECK(consumer->stop(milliseconds::max()));
}

TEST_CASE("extreme times: a private server starts with the longest start_timeout, and not with a negative one") {
  PrivateServerOptions options;
  options.start_timeout = milliseconds::max();
  CHECK_NOTHROW(PrivateServer{options});
  options.start_timeout = milliseconds::min();
  CHECK_THROWS_AS(PrivateServer{options}, ConnectionError);
}

TEST_CASE("extreme times: durations that are no such times are refused, and the error names them") {
  const auto refuses = [](const char* name, auto call) {
    CAPTURE(name);
    try {
      call();
      FAIL("accepted");
    } catch (const std::invalid_argument& e) {
      CHECK_MESSAGE(std::string(e.what()).find(name) == 0, e.what());
    }
  };
  test::Queue queue;
  QueueAdmin admin(queue.url, queue.name);
  for (const milliseconds wrong : {milliseconds::min(), milliseconds::max(), kLongest + 1ms}) {
    const auto consumer_with = [&](milliseconds ConsumerOptions::*member) {
      ConsumerOptions options;
      options.*member = wrong;
      Consumer(
          queue.url, "q", [](const Message&) { return ack(); }, options);
    };
    const auto tuned_with = [&](milliseconds ConsumerTuning::*member) {
      ConsumerOptions options;
      options.tuning.*member = wrong;
      Consumer(
          queue.url, "q", [](const Message&) { return ack(); }, options);
    };
    refuses("lease", [&] { consumer_with(&ConsumerOptions::lease); });
    refuses("tuning.poll_interval", [&] { tuned_with(&ConsumerTuning::poll_interval); });
    refuses("processing_timeout", [&] { consumer_with(&ConsumerOptions::processing_timeout); });
    refuses("dead_retention", [&] { consumer_with(&ConsumerOptions::dead_retention); });
    refuses("tuning.reconnect_grace", [&] { tuned_with(&ConsumerTuning::reconnect_grace); });
    refuses("durability.timeout",
            [&] { Producer(queue.url, "q", with(&ProducerOptions::durability, Durability::disk(wrong))); });
    refuses("connect_timeout", [&] { Client(queue.url, with(&ClientOptions::connect_timeout, wrong)); });
    auto options = with(&SendOptions::ttl, wrong);
    refuses("ttl", [&] { queue.producer.send("x", options); });
    options = {};
    options.delay = wrong;
    refuses("delay", [&] { queue.producer.send("x", options); });
    options = {};
    options.at =
        wrong < 0ms ? std::chrono::system_clock::time_point::min() : std::chrono::system_clock::time_point::max();
    refuses("at", [&] { queue.producer.send("x", options); });
    refuses("duration", [&] { static_cast<void>(admin.lock("me", wrong)); });
    refuses("by", [&] { static_cast<void>(admin.extend({test::kId}, wrong)); });
    refuses("Backoff::fixed", [&] { Backoff::fixed(wrong); });
    refuses("Backoff::exponential", [&] { Backoff::exponential(1ms, wrong); });
  }
}

}  // namespace
}  // namespace delayqueue
