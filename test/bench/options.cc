// CPU time of Redis for messages with headers or unique keys, and in queues with limits: their sends in batches and one
// at a time, and all that a consumer does with them.

#include "bench/jobs.h"
#include "bench/part.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kInCall = 10'000;  // messages in each call of send_batch

struct Case {
  const char* name;
  Headers headers{};
  bool has_keys = false;
  QueueLimits limits{};  // that hold back nothing
};

class Measurement {
 public:
  Measurement(Bench& bench, const char* part, const Case& one)
      : bench_(bench), part_(part), case_(one), producer_(bench.server.url(), kQueue) {
    options_.delay = kLater;
    options_.headers = one.headers;
  }

  void run() {
    bench_.progress.step(std::string(part_) + '.' + case_.name);
    restart();
    double before = bench_.server.cpu_us();
    for (std::size_t i = 0; i < bench_.scale.wakes; ++i) producer_.send(payload(), of(i));
    add(case_.name, "send_one_redis_us", before, bench_.scale.wakes);

    restart();
    before = bench_.server.cpu_us();
    send_all();
    add(case_.name, "send_redis_us", before, bench_.scale.compared);
    if (case_.has_keys) send_again("kept", OnConflict::keep);
    if (case_.has_keys) send_again("replaced", OnConflict::replace);

    make_due(bench_.server);
    before = bench_.server.cpu_us();
    static_cast<void>(drain_backlog(bench_, Target(bench_.server), bench_.scale.compared, 8));
    add(case_.name, "receive_redis_us", before, bench_.scale.compared);
  }

 private:
  // Empties the server. Then the producer knows the limits, and its connection is open.
  void restart() {
    bench_.server.flush();
    const bool has_limits = case_.limits.rate || case_.limits.running || case_.limits.length;
    if (has_limits) static_cast<void>(QueueAdmin(bench_.server.url(), kQueue).set_limits(case_.limits));
    producer_ = Producer(bench_.server.url(), kQueue);
    static_cast<void>(producer_.cancel(producer_.send(payload(), options_).id));
  }

  SendOptions of(std::size_t i) const {
    SendOptions options = options_;
    if (case_.has_keys) options.unique.key = "customer " + std::to_string(i);
    return options;
  }

  void send_all() {
    for (std::size_t sent = 0; sent < bench_.scale.compared;) {
      std::vector<OutgoingMessage> some;
      for (; some.size() < kInCall && sent < bench_.scale.compared; ++sent) some.push_back({payload(), of(sent)});
      producer_.send_batch(some);
    }
  }

  // Each message of the batch finds one with its key.
  void send_again(const char* name, OnConflict conflict) {
    options_.unique.on_conflict = conflict;
    const double before = bench_.server.cpu_us();
    send_all();
    add(name, "send_redis_us", before, bench_.scale.compared);
    options_.unique.on_conflict = OnConflict::keep;
  }

  void add(const std::string& name, const std::string& figure, double before, std::size_t messages) {
    bench_.figures.add(std::string(part_) + '.' + name + '.' + figure,
                       (bench_.server.cpu_us() - before) / static_cast<double>(messages));
  }

  Bench& bench_;
  const char* const part_;
  const Case& case_;
  SendOptions options_{};
  Producer producer_;
};

void measure(Bench& bench, const char* part, const std::vector<Case>& cases) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const Case& one : cases) Measurement(bench, part, one).run();
  }
  bench.server.flush();
}

QueueLimits limits_with(std::optional<Rate> rate, std::optional<std::uint64_t> running,
                        std::optional<std::uint64_t> length) {
  QueueLimits limits;
  limits.rate = rate;
  limits.running = running;
  limits.length = length;
  return limits;
}

}  // namespace

void headers(Bench& bench) {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  measure(bench, "headers", {{"none"}, {"trace", {{"traceparent", trace}}}, {"1kib", {{"k", std::string(1020, 'x')}}}});
}

void queue_limits(Bench& bench) {
  const Rate fast{1'000'000, milliseconds(1000), 1'000'000};
  constexpr std::uint64_t kMany = 1'000'000'000;
  measure(bench, "limits",
          {{"none"},
           {"rate", {}, false, limits_with(fast, {}, {})},
           {"running", {}, false, limits_with({}, kMany, {})},
           {"both", {}, false, limits_with(fast, kMany, {})},
           {"length", {}, false, limits_with({}, {}, kMany)}});
}

void unique_keys(Bench& bench) { measure(bench, "unique", {{"none"}, {"fresh", {}, true}}); }

}  // namespace bench
