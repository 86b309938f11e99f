// The limits of a queue while worker processes are killed, and on a Cluster.
#include "support/test.h"

#include "store/keys.h"
#include "support/answers.h"
#include "support/cluster.h"
#include "support/process.h"
#include "support/sanitized.h"

namespace delayqueue {
namespace {

using test::words;
using test::worker;

constexpr bool kSlow = TEST_SANITIZED != 0;

void put_limits(QueueAdmin& admin, const std::optional<Rate>& rate, const std::optional<std::uint64_t>& running) {
  QueueLimits limits;
  limits.rate = rate;
  limits.running = running;
  REQUIRE(admin.set_limits(limits));
}

// Worker processes of a queue, one of which is killed with SIGKILL and replaced at a time.
class Killed {
 public:
  Killed(const Queue& queue, std::size_t processes, int concurrency, const std::string& lease_ms)
      : command_(worker(queue, concurrency, lease_ms, "1000")), processes_(processes) {
    for (auto& one : processes_) one = std::make_unique<test::Process>(command_);
  }

  void kill_next() {
    std::unique_ptr<test::Process>& one = processes_[kills_++ % processes_.size()];
    one->kill(SIGKILL);
    CHECK(one->wait() == -SIGKILL);
    one = std::make_unique<test::Process>(command_);
  }

  void stop() {
    for (auto& one : processes_) one->kill(SIGTERM);
    for (auto& one : processes_) {
      const int code = one->wait();
      CHECK((code == 0 || code == -SIGTERM));  // it may have been replaced a moment ago
    }
  }

  std::size_t kills() const { return kills_; }

 private:
  const std::vector<std::string> command_;
  std::vector<std::unique_ptr<test::Process>> processes_;
  std::size_t kills_ = 0;
};

// Reads a queue again and again, each time in one script: what Redis has at one moment, with its clock.
class Sampler {
 public:
  struct Sample {
    std::int64_t us = 0;
    std::int64_t leased = 0;     // since ever
    std::int64_t in_flight = 0;  // leases in unack
    std::int64_t places = 0;
  };

  explicit Sampler(const std::string& base) : base_(base), thread_([this] { run(); }) {}
  ~Sampler() { stop(); }
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Ends it, and returns all samples.
  const std::vector<Sample>& stop() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
    return samples_;
  }

 private:
  void run() {
    static constexpr const char* kScript = R"(
      local time = redis.call('TIME')
      local leases, entries = 0, redis.call('ZRANGE', KEYS[1] .. ':unack', 0, -1, 'WITHSCORES')
      for i = 2, #entries, 2 do  -- a backoff ends at a whole millisecond
        if math.floor(entries[i] * 1000000 + 0.5) % 1000 ~= 0 then leases = leases + 1 end
      end
      return {time[1] * 1000000 + time[2], tonumber(redis.call('HGET', KEYS[1] .. ':stats', 'delivered') or 0), leases,
        redis.call('ZCARD', KEYS[1] .. ':running')})";
    Redis own(test::server().socket());
    while (!ends_) {
      const auto reply = own.cmd({"EVAL", kScript, "1", base_});
      if (reply.array.size() == 4) {
        samples_.push_back(
            {reply.array[0].integer, reply.array[1].integer, reply.array[2].integer, reply.array[3].integer});
      }
      std::this_thread::sleep_for(3ms);
    }
  }

  const std::string base_;
  std::atomic<bool> ends_{false};
  std::vector<Sample> samples_;
  std::thread thread_;  // last: it uses the members above
};

TEST_CASE("limits R2: 8 processes, which are killed and replaced, together lease at most the burst and the rate") {
  Queue queue;
  put_limits(queue.admin, Rate{100, 1s, 20}, std::nullopt);
  queue.producer.send_batch(words(2000, "x"), with(&SendOptions::retries, 20));
  Killed crew(queue, 8, 4, "500");
  CHECK(eventually([&] { return queue.inspector.counts().totals.delivered > 0; }, kPatience));
  Sampler sampler(queue.base);
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(500ms);
    crew.kill_next();
  }
  const std::vector<Sampler::Sample>& samples = sampler.stop();
  crew.stop();
  REQUIRE(samples.size() > 50);
  std::int64_t most_beyond = 0, most_in_a_second = 0;  // in messages
  std::size_t from = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // Of all windows that end here. For one that is longer than a second the bound follows from the shorter ones.
    while (samples[i].us - samples[from].us > 1'000'000) ++from;
    for (std::size_t k = from; k < i; ++k) {
      const std::int64_t leased = samples[i].leased - samples[k].leased;
      const std::int64_t allowed = 20 + (samples[i].us - samples[k].us) * 100 / 1'000'000 + 1;
      most_beyond = std::max(most_beyond, leased - allowed);
      most_in_a_second = std::max(most_in_a_second, leased);
    }
  }
  CHECK(most_beyond == 0);
  CHECK(most_in_a_second <= 120);
  const std::int64_t us = samples.back().us - samples.front().us;
  const std::int64_t leased = samples.back().leased - samples.front().leased;
  MESSAGE("leased " << leased * 1'000'000 / us << " a second, at most " << most_in_a_second);
  CHECK((kSlow || leased * 1'000'000 / us >= 50));  // most of 100, also on a busy machine
}

TEST_CASE("limits R3: 200 workers in 8 processes, killed and replaced, never hold more messages than the limit") {
  constexpr std::uint64_t kMessages = 2500;
  Queue queue;
  put_limits(queue.admin, std::nullopt, 50);
  queue.producer.send_batch(words(kMessages, "brief"), with(&SendOptions::retries, 50));
  Killed crew(queue, 8, 25, "400");
  Sampler sampler(queue.base);
  const auto is_done = [&] { return queue.inspector.counts().totals.acked >= kMessages; };
  while (crew.kills() < 60 && !eventually(is_done, 250ms)) crew.kill_next();
  CHECK(eventually(is_done, 2 * kPatience));
  crew.stop();
  std::int64_t most = 0, most_places = 0;
  const std::vector<Sampler::Sample>& samples = sampler.stop();
  for (const Sampler::Sample& one : samples) {
    most = std::max(most, one.in_flight);
    most_places = std::max(most_places, one.places);
  }
  MESSAGE(crew.kills() << " kills, " << samples.size() << " samples, at most " << most << " in flight");
  CHECK(crew.kills() >= 3);
  CHECK(most <= 50);
  CHECK((kSlow || most >= 25));  // the limit is used
  CHECK(most_places <= 50);
  // Nothing is lost, and nothing leaks.
  CHECK(queue.inspector.counts().totals.acked == kMessages);
  CHECK(test::redis().cmd({"EXISTS", queue.base + ":retry:cnt", queue.base + ":unack", queue.base + ":running"}) == 0);
}

TEST_CASE("limits R29: on a Cluster the partitions of a queue keep its limits together, and leave nothing behind") {
  test::ClusterOptions few;
  few.replicas = false;
  test::Cluster cluster(few);
  const Client client(cluster.url());
  const std::string name = fresh_queue();
  QueueAdmin admin(client, name);
  static_cast<void>(admin.set_partitions(4));
  put_limits(admin, Rate{200, 1s, 40}, 8);
  std::atomic<int> now{0}, most{0}, handled{0};
  Consumer consumer(
      client, name,
      [&](const Message&) {
        const int running = ++now;
        for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
        }
        std::this_thread::sleep_for(2ms);
        --now;
        ++handled;
        return ack();
      },
      quick(32));
  consumer.start();
  Producer producer(client, name);
  const auto begin = std::chrono::steady_clock::now();
  producer.send_batch(words(200, "x"));
  CHECK(eventually([&] { return handled == 200; }, kPatience));
  CHECK(most <= 8);
  // 40 at once, in all partitions together, and 160 at the rate: of each partition at its own.
  CHECK(std::chrono::steady_clock::now() - begin >= 600ms);
  Inspector inspector(client, name);
  CHECK(eventually([&] { return inspector.counts().in_flight == 0; }, kPatience));
  CHECK(consumer.stop());
  for (unsigned partition = 0; partition < 4; ++partition) {
    const std::string key = store::make_keys(name, with(&store::KeyScheme::hash_tag, true), partition).running;
    CHECK(cluster.owner(key).cmd({"EXISTS", key}) == 0);
  }
}

// Handlers follow leases, so the number of their calls since the start is at most that of the leases.
TEST_CASE("limits R2: over the loss of a master, which may lose its last writes, there is at most one burst more") {
  test::Cluster cluster;
  const Client client(cluster.url());
  const std::string name = fresh_queue();
  QueueAdmin admin(client, name);
  put_limits(admin, Rate{100, 1s, 20}, std::nullopt);
  Producer(client, name).send_batch(words(3000, "x"), with(&SendOptions::retries, 20));
  std::atomic<std::int64_t> calls{0};
  const auto handler = [&](const Message&) {
    ++calls;
    return ack();
  };
  const auto begin = std::chrono::steady_clock::now();
  Consumer first(client, name, handler, quick(8)), second(client, name, handler, quick(8));
  first.start();
  second.start();
  const auto most = [&] {
    const auto time = std::chrono::steady_clock::now() - begin;
    return 20 + std::chrono::duration_cast<std::chrono::milliseconds>(time).count() * 100 / 1000 + 1;
  };
  CHECK(eventually([&] { return calls >= 150; }, kPatience));
  std::int64_t called = calls;
  CHECK(called <= most());
  const std::string key = "{dp:" + name + "}:ready";
  test::Node& master = cluster.owner(key);
  cluster.wait_calm(master);
  master.kill();
  const std::int64_t before = calls;
  CHECK(eventually([&] { return calls >= before + 150; }, 2 * kPatience));
  called = calls;
  CHECK(called <= most() + 20);
  CHECK(first.stop());
  CHECK(second.stop());
}

}  // namespace
}  // namespace delayqueue
