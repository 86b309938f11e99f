// Producer::metrics(), and its text.
#include "support/test.h"

#include "queue/histogram_recorder.h"

namespace delayqueue {
namespace {

TEST_CASE("metrics: calls that send are counted with their messages and their duration") {
  Queue queue;
  CHECK(queue.producer.metrics().queue == queue.name);
  CHECK(queue.producer.metrics().send_time.count() == 0);
  queue.producer.send("a");
  queue.producer.send_batch({"b", "c", "d"});
  queue.producer.send_async("e").get();
  queue.producer.send_batch(std::vector<std::string>());
  const ProducerMetrics metrics = queue.producer.metrics();
  CHECK(metrics.sent == 5);
  CHECK(metrics.failed == 0);
  CHECK(metrics.send_time.count() == 3);
  CHECK(metrics.send_time.sum > 0us);
}

TEST_CASE("metrics: messages of calls that throw an Error are failures; invalid arguments are not counted") {
  Queue queue;
  const auto options = with(&SendOptions::retries, -1);
  CHECK_FALSE(thrown([&] { queue.producer.send("x", options); }) == "nothing");
  CHECK(queue.producer.metrics().send_time.count() == 0);
  test::redis().cmd({"SET", queue.base + ":retry:cnt", "something else"});
  CHECK_FALSE(thrown([&] { queue.producer.send("x"); }) == "nothing");
  CHECK_FALSE(thrown([&] { queue.producer.send_batch({"x", "y"}); }) == "nothing");
  CHECK_FALSE(thrown([&] { queue.producer.send_async("x").get(); }) == "nothing");
  const ProducerMetrics metrics = queue.producer.metrics();
  CHECK(metrics.sent == 0);
  CHECK(metrics.failed == 4);
  CHECK(metrics.send_time.count() == 3);
}

TEST_CASE("metrics: the text of several producers has one type for each metric, and a series for each queue") {
  std::vector<ProducerMetrics> all(2);
  all[0].queue = "orders";
  all[0].sent = 7;
  all[0].failed = 2;
  all[0].moved = 1;
  HistogramRecorder times;
  for (int i = 0; i < 3; ++i) times.record(4ms);
  all[0].send_time = times.read();
  all[1].queue = "mails";
  const std::string text = prometheus_text(all);
  CHECK(has(text, "# TYPE delayqueue_send_seconds histogram\n"));
  CHECK(has(text, "\ndelayqueue_send_seconds_bucket{queue=\"orders\",le=\"0.0025\"} 0\n"));
  CHECK(has(text, "\ndelayqueue_send_seconds_bucket{queue=\"orders\",le=\"0.005\"} 3\n"));
  CHECK(has(text, "\ndelayqueue_send_messages_total{queue=\"orders\"} 7\n"));
  CHECK(has(text, "\ndelayqueue_send_failures_total{queue=\"orders\"} 2\n"));
  CHECK(has(text, "\ndelayqueue_send_moved_total{queue=\"orders\"} 1\n"));
  CHECK(has(text, "\ndelayqueue_send_messages_total{queue=\"mails\"} 0\n"));
  CHECK(prometheus_text({all[0]}) == prometheus_text(std::vector<ProducerMetrics>{all[0]}));
  CHECK(prometheus_text(std::vector<ProducerMetrics>()).empty());
}

}  // namespace
}  // namespace delayqueue
