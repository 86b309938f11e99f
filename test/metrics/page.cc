// Writes a page with all metrics of the library, of made-up processes and queues, for promtool.
#include <delayqueue/metrics.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  using namespace delayqueue;
  using namespace std::chrono_literals;
  const std::string strange = "a \"queue\\\" \n\x1b\xff\xc3\xa9";
  ConsumerMetrics consumer;
  consumer.queues.resize(2);
  consumer.queues[0].queue = "orders";
  consumer.queues[0].lateness = {{1ms, 2500ms, 30min}, {0, 6, 1, 0}, 12'345'678us};
  consumer.queues[0].longest_running = 61'500ms;
  consumer.queues[1].queue = strange;
  std::vector<ProducerMetrics> producers(2);
  producers[0].queue = "orders";
  producers[0].send_time = {{1ms, 30min}, {0, 0, 1}, 1801s};
  producers[1].queue = strange;
  std::vector<QueueMetrics> queues(3);
  queues[0].queue = "orders";
  queues[0].counts = Counts();
  queues[0].counts->ready = 18'446'744'073'709'551'615ULL;
  queues[0].counts->now = std::chrono::system_clock::time_point(1'700'000'000s);
  queues[0].counts->oldest_due = queues[0].counts->now - 1500ms;
  queues[0].counts->paused = true;
  queues[0].counts->paused_until = queues[0].counts->now + 30min;
  queues[0].counts->oldest_ready = queues[0].counts->now - 20s;
  queues[0].counts->limits.rate = Rate{10, 1min, 3};
  queues[0].counts->limits.running = 50;
  queues[0].counts->in_flight = 49;
  queues[0].counts->next_delivery = 2500ms;
  queues[0].round_trip = 250us;
  queues[1].queue = strange;
  queues[1].counts = Counts();
  queues[2].queue = "unreadable";
  const std::string page = prometheus_text(consumer) + prometheus_text(producers) + prometheus_text(queues);
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
