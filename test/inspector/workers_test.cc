// The registry of consumers: what consumers write into it, and what Inspector::workers() reads.
#include "support/test.h"

#include <signal.h>
#include <unistd.h>

#include "store/keys.h"
#include "support/answers.h"
#include "support/process.h"

namespace delayqueue {
namespace {

using test::redis;

constexpr char kClient[] = "registry-test";

const ClientOptions kVisible = with(&ClientOptions::client_name, kClient);

test::MessageHandler behind(Gate& gate) {
  return [&gate](const Message&) {
    gate.pass();
    return ack();
  };
}

// After a reconnect a consumer writes its entry at once.
void write_again() {
  CHECK(eventually([] { return test::cut_connections(kClient) > 0; }, kPatience));
}

// The only consumer of the queue, once the condition holds for it; unset: it never does.
template <class Condition>
std::optional<Worker> only_worker(Queue& queue, Condition condition) {
  std::optional<Worker> worker;
  eventually(
      [&] {
        std::vector<Worker> all = queue.inspector.workers();
        if (all.size() != 1 || !condition(all.front())) return false;
        worker = std::move(all.front());
        return true;
      },
      kPatience);
  return worker;
}
std::optional<Worker> only_worker(Queue& queue) {
  return only_worker(queue, [](const Worker&) { return true; });
}

// Sets the times of an entry back to those of one that has just ended.
void end_entry(const Queue& queue, const std::string& consumer) {
  const std::string key = queue.base + ":consumers";
  const std::string value = redis().cmd({"HGET", key, consumer}).text;
  const std::string ended = std::to_string(test::redis_time_us() - 1);
  redis().cmd({"HSET", key, consumer, ended + " 1" + value.substr(value.find('\n'))});
}

std::chrono::system_clock::time_point redis_now() {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(test::redis_time_us()));
}

TEST_CASE("workers: a consumer is listed with its host, process, version, queues and places") {
  Queue queue;
  CHECK(queue.inspector.workers().empty());
  Ledger ledger;
  ConsumerOptions options = quick(3);
  options.name = "orders\nservice";
  const auto before = redis_now();
  const auto consumer = queue.consumer(ledger.watch(), options, kVisible);
  consumer->start();
  const auto worker = only_worker(queue);
  REQUIRE(worker);
  std::array<char, 256> host{};
  REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
  CHECK(worker->consumer.size() == 36);
  CHECK(worker->name == "orders\nservice");
  CHECK(worker->host == host.data());
  CHECK(worker->pid == static_cast<std::uint64_t>(::getpid()));
  CHECK(worker->version == version());
  CHECK(worker->queues == std::vector<std::string>{queue.name});
  CHECK(worker->queue_count == 1);
  CHECK(worker->busy == 0);
  CHECK(worker->concurrency == 3);
  CHECK(worker->in_flight == 0);
  CHECK(worker->longest.empty());
  CHECK_FALSE(worker->damaged);
  CHECK(worker->seen >= before);
  CHECK(worker->seen <= redis_now());
  CHECK(consumer->metrics().stats.errors == 0);
}

TEST_CASE("workers: a consumer names the messages that its handlers have been working on for longest") {
  Queue queue;
  Ledger ledger;
  Gate gate;
  const auto consumer = queue.consumer(ledger.watch(behind(gate)), quick(7), kVisible);
  consumer->start();
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < 7; ++i) {
    ids.push_back(queue.send("x"));
    REQUIRE(ledger.reaches(i + 1));
  }
  const auto began = redis_now();
  write_again();
  const auto worker = only_worker(queue, [](const Worker& one) { return one.busy == 7; });
  REQUIRE(worker);
  CHECK(worker->in_flight == 7);
  REQUIRE(worker->longest.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(worker->longest[i].id == ids[i]);
    CHECK(worker->longest[i].since < began + kPatience);
    CHECK(worker->longest[i].since > began - kPatience);
  }
  gate.open();
  REQUIRE(ledger.settles(7));
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 7; }, kPatience));
  write_again();
  CHECK(only_worker(queue, [](const Worker& one) { return one.busy + one.in_flight + one.longest.size() == 0; }));
}

TEST_CASE("workers: a Delivery that is not settled counts as running, after its handler has returned, too") {
  Queue queue;
  std::mutex mutex;
  std::vector<Delivery> kept;
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(delivery));
      },
      quick(2), kVisible);
  consumer->start();
  const std::string id = queue.send("x");
  const auto size = [&] {
    const std::lock_guard lock(mutex);
    return kept.size();
  };
  REQUIRE(eventually([&] { return size() == 1; }, kPatience));
  write_again();
  const auto worker = only_worker(queue, [](const Worker& one) { return one.busy == 1; });
  REQUIRE(worker);
  REQUIRE(worker->longest.size() == 1);
  CHECK(worker->longest[0].id == id);
  CHECK(std::move(kept.front()).ack());
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
}

TEST_CASE("workers: a consumer that was stopped is gone at once, and leaves no key") {
  Queue queue;
  const auto consumer = queue.consumer(test::ack_all, quick(), kVisible);
  consumer->start();
  REQUIRE(only_worker(queue));
  CHECK(consumer->stop(kPatience));
  CHECK(eventually([&] { return queue.inspector.workers().empty(); }, kPatience));
  CHECK(redis().cmd({"EXISTS", queue.base + ":consumers"}) == 0);
}

TEST_CASE("workers: a consumer that could not finish its messages stays listed after its stop") {
  Queue queue;
  Ledger ledger;
  Gate gate;
  const auto consumer = queue.consumer(ledger.watch(behind(gate)), quick(), kVisible);
  consumer->start();
  queue.send("x");
  REQUIRE(ledger.reaches(1));
  REQUIRE(only_worker(queue));
  CHECK_FALSE(consumer->stop(10ms));
  CHECK(queue.inspector.workers().size() == 1);
}

TEST_CASE("workers: a process that was killed or is frozen is listed until its entry ends; others then remove that") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    Queue queue;
    test::Process process(test::worker(queue, 1));
    const auto worker = only_worker(queue);
    REQUIRE(worker);
    CHECK(worker->pid != static_cast<std::uint64_t>(::getpid()));
    process.kill(signal);
    if (signal == SIGKILL) process.wait();
    CHECK(queue.inspector.workers().size() == 1);
    CHECK(redis().cmd({"PTTL", queue.base + ":consumers"}).integer <= 60'000);
    end_entry(queue, worker->consumer);
    CHECK(queue.inspector.workers().empty());
    const auto other = queue.consumer(test::ack_all, quick(), kVisible);
    other->start();
    const auto found = only_worker(queue);
    REQUIRE(found);
    CHECK(found->pid == static_cast<std::uint64_t>(::getpid()));
    CHECK(redis().cmd({"HLEN", queue.base + ":consumers"}) == 1);
  }
}

TEST_CASE("workers: a consumer of two queues is listed in both, each with the messages of that queue") {
  Queue one, two;
  Ledger ledger;
  Gate gate;
  ConsumerOptions options = quick(4);
  const test::ConsumerPtr consumer(new Consumer(
      {one.url, kVisible}, {{one.name, ledger.watch(behind(gate))}, {two.name, ledger.watch(behind(gate))}}, options));
  consumer->start();
  const std::string id = one.send("x");
  two.send("y");
  two.send("z");
  REQUIRE(ledger.reaches(3));
  write_again();
  const auto in_one = only_worker(one, [](const Worker& worker) { return worker.in_flight == 1; });
  const auto in_two = only_worker(two, [](const Worker& worker) { return worker.in_flight == 2; });
  REQUIRE(in_one);
  REQUIRE(in_two);
  CHECK(in_one->consumer == in_two->consumer);
  CHECK(in_one->queues == std::vector<std::string>{one.name, two.name});
  CHECK(in_one->queue_count == 2);
  CHECK(in_one->busy == 3);
  CHECK(in_one->concurrency == 4);
  REQUIRE(in_one->longest.size() == 1);
  CHECK(in_one->longest[0].id == id);
  CHECK(in_two->longest.size() == 2);
}

TEST_CASE("workers: of a queue with partitions there is one entry, with the messages of all of them") {
  Queue queue;
  queue.admin.set_partitions(4);
  Ledger ledger;
  Gate gate;
  const auto consumer = queue.consumer(ledger.watch(behind(gate)), quick(8), kVisible);
  consumer->start();
  for (int i = 0; i < 8; ++i) queue.send("x");
  REQUIRE(ledger.reaches(8));
  write_again();
  CHECK(only_worker(queue, [](const Worker& worker) { return worker.in_flight == 8 && worker.longest.size() == 5; }));
  for (const unsigned partition : {1U, 2U, 3U}) {
    CHECK(redis().cmd({"EXISTS", store::make_keys(queue.name, {}, partition).consumers}) == 0);
  }
}

TEST_CASE("workers: with register_consumer off a consumer writes nothing") {
  Queue queue;
  Ledger ledger;
  ConsumerOptions options = quick();
  options.tuning.register_consumer = false;
  const auto consumer = queue.consumer(ledger.watch(), options, kVisible);
  consumer->start();
  queue.send("x");
  REQUIRE(ledger.settles(1));
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(redis().cmd({"EXISTS", queue.base + ":consumers"}) == 0);
}

TEST_CASE("workers: a refused entry disturbs no delivery, is logged once, and is written when it can be") {
  Queue queue;
  redis().cmd({"SET", queue.base + ":consumers", "of another program"});
  Ledger ledger;
  test::Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.consumer(ledger.watch(), options, kVisible);
  consumer->start();
  const std::string warning = "cannot write what this consumer does into " + queue.base + ":consumers";
  REQUIRE(eventually([&] { return lines.count(Severity::warning, warning) == 1; }, kPatience));
  for (std::size_t i = 1; i <= 2; ++i) {
    queue.send("x");
    REQUIRE(ledger.settles(i));
    REQUIRE(eventually([&] { return consumer->metrics().stats.acked == i; }, kPatience));
    if (i == 1) CHECK(consumer->metrics().stats.errors == 0);
    if (i == 1) write_again();
  }
  CHECK(has(lines.find(warning), "WRONGTYPE"));
  CHECK(lines.entry(warning).server == "unix:" + test::server().socket());
  redis().cmd({"DEL", queue.base + ":consumers"});
  write_again();
  CHECK(only_worker(queue));
  CHECK(lines.count(Severity::warning, warning) == 1);
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("workers: an entry that cannot be read is shown as damaged, after the others") {
  Queue queue;
  const std::string key = queue.base + ":consumers";
  const std::string consumer = "0197f3a4-5b6c-7d8e-9f01-000000000001";
  const std::string end = std::to_string(test::redis_time_us() + 3'600'000'000) + " 1\n";
  redis().cmd({"HSET", key, consumer, end + "host=web\npid=1\n"});
  redis().cmd({"HSET", key, "no id", end + "host=web\npid=1\n"});
  redis().cmd({"HSET", key, "0197f3a4-5b6c-7d8e-9f01-000000000000", end + "host=web\npid=x\n"});
  const std::vector<Worker> workers = queue.inspector.workers();
  REQUIRE(workers.size() == 3);
  CHECK(workers[0].consumer == consumer);
  CHECK_FALSE(workers[0].damaged);
  for (const std::size_t i : {1U, 2U}) {
    CHECK(workers[i].damaged);
    CHECK(workers[i].host.empty());
  }
  redis().cmd({"SET", key, "of another program"});
  CHECK(has(test::thrown([&] { return queue.inspector.workers(); }), "WRONGTYPE"));
}

TEST_CASE("workers: entries that are longer than any consumer writes are shown as damaged, and are not read") {
  Queue queue;
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, quick(), kVisible);
  consumer->start();
  REQUIRE(only_worker(queue));
  REQUIRE(consumer->stop());
  const std::string key = queue.base + ":consumers";
  const std::string huge = std::to_string(test::redis_time_us() + 3'600'000'000) + " 1\n" + std::string(8'388'608, 'x');
  for (int i = 10; i < 30; ++i) {
    redis().cmd({"HSET", key, "0197f3a4-5b6c-7d8e-9f01-0000000000" + std::to_string(i), huge});
  }
  redis().cmd({"HSET", key, std::string(1'000, 'n'), huge});
  const auto sent = [] { return std::stoull(test::info("stats", "total_net_output_bytes")); };
  const auto before = sent();
  const std::vector<Worker> all = queue.inspector.workers();
  CHECK(sent() - before < 1'000'000);
  REQUIRE(all.size() == 21);
  for (const Worker& worker : all) {
    CHECK(worker.damaged);
    CHECK(worker.consumer.size() <= 100);
  }
  redis().cmd({"DEL", key});
}

TEST_CASE("workers: a registry of a thousand consumers is read as a whole, sorted by host and process") {
  Queue queue;
  const std::string fill = R"lua(
    for i = 1, 1000 do
      redis.call('HSET', KEYS[1], string.format('0197f3a4-5b6c-7d8e-9f01-%012d', i),
        ARGV[1] .. ' 1\nversion=0.1.0\nqueues=1\nqueue=orders\nhost=web-' .. i % 3 .. '\npid=' .. 2000 - i .. '\n')
    end
    return 'OK')lua";
  const std::string end = std::to_string(test::redis_time_us() + 3'600'000'000);
  REQUIRE(redis().cmd({"EVAL", fill, "1", queue.base + ":consumers", end}) == "OK");
  const std::vector<Worker> workers = queue.inspector.workers();
  REQUIRE(workers.size() == 1000);
  CHECK(std::is_sorted(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
    return a.host != b.host ? a.host < b.host : a.pid < b.pid;
  }));
}

}  // namespace
}  // namespace delayqueue
