// Consumer::metrics(): histograms, the handler that runs the longest, and their text.
#include "support/test.h"

#include "queue/histogram_recorder.h"

namespace delayqueue {
namespace {

using Kind = Verdict::Kind;

// The metrics of the only queue.
ConsumerQueueMetrics only(const Consumer& consumer) {
  const ConsumerMetrics metrics = consumer.metrics();
  REQUIRE(metrics.queues.size() == 1);
  return metrics.queues.front();
}

TEST_CASE("metrics: each handler is counted with its duration under its verdict; an exception is a nack") {
  Queue queue;
  for (const char* payload : {"ack", "ack", "nack", "throw", "reject", "snooze"}) queue.send(payload);
  const auto consumer = queue.consumer(
      [](const Message& message) -> Verdict {
        std::this_thread::sleep_for(20ms);
        if (message.payload() == "throw") throw std::runtime_error("no");
        return message.payload() == "ack"      ? ack()
               : message.payload() == "nack"   ? nack(1h)
               : message.payload() == "reject" ? reject()
                                               : snooze(1h);
      },
      [] {
        ConsumerOptions options = quick(4);
        options.backoff = Backoff::fixed(1h);
        return options;
      }());
  consumer->start();
  const auto handled = [&] {
    std::uint64_t count = 0;
    for (const Histogram& one : only(*consumer).handler_time) count += one.count();
    return count;
  };
  REQUIRE(eventually([&] { return handled() == 6; }, kPatience));
  CHECK(consumer->stop());
  const ConsumerQueueMetrics metrics = only(*consumer);
  CHECK(metrics.queue == queue.name);
  CHECK(metrics.stats.acked == 2);
  CHECK(metrics.handler_time_of(Kind::ack).count() == 2);
  CHECK(metrics.handler_time_of(Kind::nack).count() == 2);
  CHECK(metrics.handler_time_of(Kind::reject).count() == 1);
  CHECK(metrics.handler_time_of(Kind::snooze).count() == 1);
  CHECK(metrics.handler_time_of(Kind::ack).sum >= 40ms);
  for (std::size_t i = 0; i < 4; ++i) CHECK(metrics.handler_time_of(Kind::ack).counts[i] == 0);  // up to 10 ms
  CHECK(metrics.longest_running == 0us);
  CHECK(metrics.leases_lost == 0);
}

TEST_CASE("metrics: a delivery that is settled later is counted until its verdict") {
  Queue queue;
  queue.send("x");
  std::mutex mutex;
  std::vector<Delivery> held;
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        const std::lock_guard lock(mutex);
        held.push_back(std::move(delivery));
      },
      quick(2));
  consumer->start();
  REQUIRE(eventually([&] { return only(*consumer).longest_running >= 50ms; }, kPatience));
  CHECK(only(*consumer).handler_time_of(Kind::ack).count() == 0);
  {
    const std::lock_guard lock(mutex);
    REQUIRE(held.size() == 1);
    CHECK(std::move(held.front()).ack());
    held.clear();
  }
  CHECK(eventually([&] { return only(*consumer).handler_time_of(Kind::ack).count() == 1; }, kPatience));
  CHECK(only(*consumer).handler_time_of(Kind::ack).sum >= 50ms);
  CHECK(eventually([&] { return only(*consumer).longest_running == 0us; }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("metrics: the time of a delivery ends with its verdict, also if the consumer notices that later") {
  Queue queue;
  Gate gate;
  std::mutex mutex;
  std::vector<Delivery> held;
  std::atomic<bool> busy{false};
  ConsumerOptions options = quick(2);
  options.on_event = [&](const Event& event) {  // in the consumer's thread
    if (event.kind == EventKind::acked && !busy.exchange(true)) gate.pass();
  };
  const auto began = std::chrono::steady_clock::now();
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        const std::lock_guard lock(mutex);
        if (delivery.message().payload() == "held") {
          held.push_back(std::move(delivery));
        } else {
          std::move(delivery).ack();
        }
      },
      options);
  queue.send("held");
  consumer->start();
  const auto is_held = [&] {
    const std::lock_guard lock(mutex);
    return held.size() == 1;
  };
  REQUIRE(eventually(is_held, kPatience));
  queue.send("acked");
  REQUIRE(eventually([&] { return busy.load(); }, kPatience));
  CHECK(std::move(held.front()).nack(1h));
  const auto settled_after = std::chrono::steady_clock::now() - began;
  std::this_thread::sleep_for(settled_after + 50ms);  // while the consumer's thread is busy
  gate.open();
  CHECK(eventually([&] { return only(*consumer).handler_time_of(Kind::nack).count() == 1; }, kPatience));
  CHECK(only(*consumer).handler_time_of(Kind::nack).sum <= settled_after);
  CHECK(consumer->stop());
}

TEST_CASE("metrics: the handler that runs the longest has its age, also after it has lost its lease") {
  Queue queue;
  queue.send("hangs");
  Gate gate;
  ConsumerOptions options = quick(2);
  options.processing_timeout = 100ms;
  std::atomic<int> others{0};
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        if (message.payload() == "hangs" && message.attempt() == 1) gate.pass();
        ++others;
        return ack();
      },
      options);
  consumer->start();
  REQUIRE(eventually([&] { return only(*consumer).leases_lost == 1; }, kPatience));
  for (int i = 0; i < 50; ++i) queue.send("quick");
  REQUIRE(eventually([&] { return others >= 50; }, kPatience));
  CHECK(eventually([&] { return only(*consumer).longest_running >= 300ms; }, kPatience));
  gate.open();
  CHECK(eventually([&] { return only(*consumer).longest_running == 0us; }, kPatience));
}

TEST_CASE("metrics: lateness counts from the due time of a message, whether it was sent late or taken late") {
  Queue queue;
  queue.send("ready");
  queue.send("scheduled", test::delayed(100ms));
  std::this_thread::sleep_for(600ms);
  const auto consumer = queue.consumer([](const Message&) { return ack(); });
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 2; }, kPatience));
  CHECK(consumer->stop());
  const Histogram late = only(*consumer).lateness;
  CHECK(late.count() >=
        1);  // of a take of both only one is measured, and two takes measure the second from the first on
  CHECK(late.sum >= 400ms);
}

TEST_CASE("metrics: a message that is taken at its due time is not late") {
  Queue queue;
  const auto consumer = queue.consumer([](const Message&) { return ack(); });
  consumer->start();
  queue.send("x", test::delayed(300ms));
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer->stop());
  const Histogram late = only(*consumer).lateness;
  CHECK(late.count() == 1);
  CHECK(late.sum < 10s);  // a busy machine
}

TEST_CASE("metrics: a bucket includes its bound, and the last one has all that is longer") {
  HistogramRecorder recorder;
  recorder.record(0ns);
  recorder.record(-5ms);
  recorder.record(1ms);
  recorder.record(1ms + 1ns);
  recorder.record(1800s);
  recorder.record(1801s);
  const Histogram read = recorder.read();
  REQUIRE(read.counts.size() == read.bounds.size() + 1);
  CHECK(std::is_sorted(read.bounds.begin(), read.bounds.end()));
  CHECK(read.counts[0] == 3);
  CHECK(read.counts[1] == 1);
  CHECK(read.counts[HistogramRecorder::kBounds.size() - 1] == 1);
  CHECK(read.counts[HistogramRecorder::kBounds.size()] == 1);
  CHECK(read.count() == 6);
  CHECK(read.sum == 3601s + 1ms + 1001us);
}

TEST_CASE("metrics: any number of threads may record at the same time") {
  HistogramRecorder recorder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) recorder.record(3ms);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(recorder.read().count() == 40'000);
  CHECK(recorder.read().sum == 120s);
}

TEST_CASE("metrics: the text has cumulative buckets, one line of help and type for each metric, and escaped names") {
  ConsumerMetrics metrics;
  metrics.stats.connects = 3;
  metrics.queues.resize(2);
  metrics.queues[0].queue = "orders";
  HistogramRecorder lateness;
  for (const milliseconds late : {0ms, 0ms, 2'000'500ms}) lateness.record(late);
  metrics.queues[0].lateness = lateness.read();
  metrics.queues[0].longest_running = 90s;
  metrics.queues[1].queue =
      "a\"b\\c\nd\x7f\xff"
      "\xc3\xa9\xe2\x80\xae\xf0\x9f\x93\xa8";  // U+00E9, the mark that turns a line, an envelope
  const std::string text = prometheus_text(metrics);
  CHECK(has(text, "\ndelayqueue_lateness_seconds_bucket{queue=\"orders\",le=\"0.001\"} 2\n"));
  CHECK(has(text, "\ndelayqueue_lateness_seconds_bucket{queue=\"orders\",le=\"1800\"} 2\n"));
  CHECK(has(text, "\ndelayqueue_lateness_seconds_bucket{queue=\"orders\",le=\"+Inf\"} 3\n"));
  CHECK(has(text, "\ndelayqueue_lateness_seconds_sum{queue=\"orders\"} 2000.5\n"));
  CHECK(has(text, "\ndelayqueue_lateness_seconds_count{queue=\"orders\"} 3\n"));
  CHECK(has(text, "\ndelayqueue_handler_seconds_count{queue=\"orders\",verdict=\"snooze\"} 0\n"));
  CHECK(has(text, "\ndelayqueue_handler_seconds_bucket{queue=\"orders\",verdict=\"ack\",le=\"+Inf\"} 0\n"));
  CHECK(has(text, "\ndelayqueue_longest_running_seconds{queue=\"orders\"} 90\n"));
  CHECK(has(text,
            "\ndelayqueue_handlers_running{queue="
            "\"a\\\"b\\\\c\\nd\\\\x7f\\\\xff\xc3\xa9\\\\xe2\\\\x80\\\\xae\xf0\x9f\x93\xa8\"} 0\n"));
  CHECK(has(text, "\ndelayqueue_connects_total 3\n"));
  CHECK(text.back() == '\n');
  std::size_t types = 0;
  for (const std::string& line : test::text_lines(text)) types += line == "# TYPE delayqueue_handler_seconds histogram";
  CHECK(types == 1);
  CHECK(prometheus_text(ConsumerMetrics()).empty());
}

}  // namespace
}  // namespace delayqueue
