// The log: the lines and the fields of its entries.
#include "support/test.h"

#include "queue/event_sink.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;

constexpr char kConsumerId[] = "0197f3a4-5b6c-7d8e-9f01-2345abcdef01";

LogEntry logged_by(const LogSource& source, const LogFields& about = {}) {
  Lines lines;
  const EventSink sink(source, lines.logger(), {}, false);
  sink.log(Severity::info, "done", about);
  return lines.entry("done");
}

// Fails unless the line is the text after the names of the queue and the consumer.
void check_line(const LogEntry& entry) {
  const std::string consumer = entry.consumer.empty() ? "" : "consumer " + entry.consumer.substr(28);
  const std::string queue = entry.queue.empty() ? "" : "queue " + entry.queue;
  CHECK(entry.line == queue + (queue.empty() || consumer.empty() ? "" : ", ") + consumer + ": " + entry.text);
}

TEST_CASE(
    "log: a line begins with the queue and the end of the consumer's id, the text does not, the fields are whole") {
  const LogEntry of_consumer = logged_by({"orders", kConsumerId}, {"127.0.0.1:6379", test::kId});
  CHECK(of_consumer.severity == Severity::info);
  CHECK(of_consumer.line == "queue orders, consumer abcdef01: done");
  CHECK(of_consumer.text == "done");
  CHECK(of_consumer.queue == "orders");
  CHECK(of_consumer.consumer == kConsumerId);
  CHECK(of_consumer.server == "127.0.0.1:6379");
  CHECK(of_consumer.message_id == test::kId);
  CHECK(logged_by({"", kConsumerId}).line == "consumer abcdef01: done");
  CHECK(logged_by({"", kConsumerId}).queue == "");
  CHECK(logged_by({"orders", ""}).line == "queue orders: done");
  CHECK(logged_by({"orders", ""}).consumer == "");
}

TEST_CASE("log: in a line the name of the queue is escaped, in the field it has its bytes") {
  const LogEntry entry = logged_by({"a\nb", ""});
  CHECK(entry.line == "queue a\\x0ab: done");
  CHECK(entry.queue == "a\nb");
}

TEST_CASE("log: a copy of an entry is valid after the logger has returned") {
  LogEntry kept;
  const EventSink sink(
      {"orders", ""}, [&kept](const LogEntry& entry) { kept = entry; }, {}, false);
  sink.log(Severity::warning, "first", {"a server", test::kId});
  const LogEntry first = kept;
  sink.log(Severity::error, "second");
  CHECK(first.text == "first");
  CHECK(first.server == "a server");
  CHECK(kept.severity == Severity::error);
  CHECK(kept.message_id == "");
}

TEST_CASE("log: a consumer's entry about a message has its id, and one about a connection has the server") {
  Queue queue;
  Lines lines;
  const auto client_options = with(&ClientOptions::client_name, "log-" + queue.name);
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.consumer(
      [](Delivery delivery) {
        std::move(delivery).ack();
        throw std::runtime_error("after its end");
      },
      options, client_options);
  consumer->start();
  const std::string id = queue.send("x");
  REQUIRE(eventually([&] { return !lines.find("after its end").empty(); }, kPatience));
  const LogEntry about_message = lines.entry("after its end");
  check_line(about_message);
  CHECK(about_message.queue == queue.name);
  CHECK(about_message.consumer.size() == 36);
  CHECK(about_message.message_id == id);
  CHECK(about_message.server == "");
  REQUIRE(test::cut_connections(client_options.client_name) >= 1);
  REQUIRE(eventually([&] { return !lines.find("Redis answers again", Severity::info).empty(); }, kPatience));
  const LogEntry about_server = lines.entry("Redis answers again");
  check_line(about_server);
  CHECK(about_server.severity == Severity::info);
  CHECK(about_server.server == "unix:" + test::server().socket());
  CHECK(about_server.consumer == about_message.consumer);
  CHECK(about_server.message_id == "");
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("log: of a consumer with several queues, an entry about a message has the queue of that message") {
  Queue one, two;
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const Handler throws = [](Delivery delivery) {
    std::move(delivery).ack();
    throw std::runtime_error("after its end");
  };
  test::ConsumerPtr consumer(
      new Consumer(test::server().url(), {{one.name, Handler(ack_all)}, {two.name, throws}}, options));
  consumer->start();
  const std::string id = two.send("x");
  REQUIRE(eventually([&] { return !lines.find("after its end").empty(); }, kPatience));
  const LogEntry entry = lines.entry("after its end");
  check_line(entry);
  CHECK(entry.queue == two.name);
  CHECK(entry.message_id == id);
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("log: a message whose callback throws is named in the entry") {
  Queue queue;
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.consumer(
      [](Delivery delivery) {
        static_cast<void>(
            std::move(delivery).settle(ack(), [](Settlement) { throw std::runtime_error("in the callback"); }));
      },
      options);
  consumer->start();
  const std::string id = queue.send("x");
  REQUIRE(eventually([&] { return !lines.find("in the callback").empty(); }, kPatience));
  CHECK(lines.entry("in the callback").message_id == id);
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("log: a producer's entries have its queue, and no consumer") {
  Lines lines;
  ProducerOptions options;
  options.logger = lines.logger();
  options.on_event = [](const Event&) { throw std::runtime_error("callbacks may throw"); };
  Producer("unix://" + test::server().socket(), "orders", options).send("x");
  const LogEntry entry = lines.entry("callbacks may throw");
  check_line(entry);
  CHECK(entry.severity == Severity::error);
  CHECK(entry.line == "queue orders: on_event threw: callbacks may throw");
  CHECK(entry.queue == "orders");
  CHECK(entry.consumer == "");
}

}  // namespace
}  // namespace delayqueue
