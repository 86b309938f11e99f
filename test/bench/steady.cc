// Measures single sends beside their limits, the same receive in four forms, and sending and handling at the same time.

#include "bench/bare.h"
#include "bench/drain.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/placement.h"
#include "bench/round_trips.h"
#include "bench/wire.h"
#include "store/keys.h"
#include "store/record.h"
#include "store/script_calls.h"

namespace bench {
namespace {

using namespace delayqueue;

constexpr std::size_t kSteadyBatch = 1'000;  // payloads in each call of send_batch
constexpr std::chrono::minutes kPatience{3};

// The rate of messages sent by threads that share a Producer.
double send_all(Bench& bench, std::size_t threads) {
  bench.server.flush();
  Producer producer(bench.server.url(), kQueue);
  SendOptions later;
  later.delay = kLater;
  const std::string body = payload();
  producer.send(body, later);  // opens the connection
  const std::size_t messages = bench.scale.compared;
  const auto send_share = [&](std::size_t thread) {
    for (std::size_t i = thread; i < messages; i += threads) producer.send(body, later);
  };
  const auto start = Clock::now();
  if (threads == 1) {
    send_share(0);  // in this thread, which may be pinned
  } else {
    std::vector<std::future<void>> senders;
    for (std::size_t i = 0; i < threads; ++i) senders.push_back(std::async(std::launch::async, send_share, i));
    for (std::future<void>& sender : senders) sender.get();
  }
  return static_cast<double>(messages) / since(start);
}

// A lone sender: its rate, and how often it sleeps in a send. A sender that waits busily rarely sleeps.
void lone_sends(Bench& bench, const std::string& placement) {
  const long before = sleeps();
  bench.figures.add("send.one_thread." + placement, send_all(bench, 1));
  const auto slept = static_cast<double>(sleeps() - before);
  bench.figures.add("sleeps_per_send." + placement, slept / static_cast<double>(bench.scale.compared));
}

// The script of a single send without the library, and its commands without a script. On one core also Redis' own time
// for the script, for the commands in it, and for a script with the same keys and arguments that has none.
void send_script_alone(Bench& bench, Cores cores) {
  const std::size_t calls = bench.scale.compared;
  const std::string name = Placement::name(cores);
  const auto stats = [&] { return bench.server.command({"INFO", "commandstats"}); };
  bench.figures.add("limit.send_commands." + name, send_commands_rate(bench, calls));
  const std::string start = stats();
  const std::string send_one(delayqueue::store::scripts::send_one.body);
  bench.figures.add("limit.send_script." + name, send_script_rate(bench, calls, send_one));
  if (cores == Cores::two) return;
  const std::string middle = stats();
  static_cast<void>(send_script_rate(bench, calls, "return 1"));
  const std::string end = stats();

  double commands = 0;
  for (const char* command : {"time", "zrange", "hset", "zadd", "mset", "hincrby"})
    commands += own_us(start, middle, command);
  const auto each = static_cast<double>(calls + 1);
  bench.figures.add("send_script_us.script", own_us(start, middle, "evalsha") / each);
  bench.figures.add("send_script_us.commands", commands / each);
  bench.figures.add("send_script_us.empty", own_us(middle, end, "evalsha") / each);
}

// A lone sender and its limits, alternating, with Redis and the sender on known cores.
void placed_sends(Bench& bench, Cores cores) {
  const std::string name = Placement::name(cores);
  bench.progress.step(name);
  const Placement placement(bench.server, cores);
  bench.figures.add("limit.round_trip." + name, ping_rate(bench, bench.scale.round_trips));
  bench.figures.add("limit.script." + name, script_rate(bench, bench.scale.round_trips));
  send_script_alone(bench, cores);
  lone_sends(bench, name);
}

// Eight threads that share a Producer: their rate, how often they sleep, how many messages share a script call, and
// what a message costs both ends: if all cores did nothing else, that would be the limit.
void shared_sends(Bench& bench) {
  bench.progress.step("eight threads");
  const auto stats = [&] { return bench.server.command({"INFO", "commandstats"}); };
  const std::string before = stats();
  const double client_start = cpu_time();
  const double redis_start = bench.server.cpu_us();
  const long slept_before = process_sleeps();
  bench.figures.add("send.eight_threads", send_all(bench, 8));
  const auto messages = static_cast<double>(bench.scale.compared);
  const auto slept = static_cast<double>(process_sleeps() - slept_before);
  bench.figures.add("sleeps_per_send.eight_threads", slept / messages);
  const double client_us = 1e6 * (cpu_time() - client_start) / messages;
  const double redis_us = (bench.server.cpu_us() - redis_start) / messages;
  bench.figures.add("eight_threads.client_us", client_us);
  bench.figures.add("eight_threads.redis_us", redis_us);
  bench.figures.add("limit.eight_threads", std::thread::hardware_concurrency() * 1e6 / (client_us + redis_us));
  bench.figures.add("messages_per_call.eight_threads", messages / calls_of(before, stats(), "evalsha"));
}

void receive(Bench& bench, Due due, const std::string& name) {
  const Target target(bench.server);
  const std::size_t messages = bench.scale.compared;
  for (const std::size_t workers : {1, 8}) {
    const std::string figure = name + (workers == 1 ? ".one_worker" : ".eight_workers");
    bench.progress.step(figure);
    bench.server.flush();
    const double sent = send_backlog(target, messages, payload(), due);
    if (due == Due::scheduled && workers == 8) bench.figures.add("send.batch_compared", sent);
    if (due == Due::scheduled) make_due(bench.server);
    const double received = drain_backlog(bench, target, messages, workers);
    bench.figures.add("receive." + figure, received);
    if (due == Due::at_once && workers == 1) bench.figures.add("receive.one_worker", received);
  }
}

void await(Bench& bench, Drain& drain, std::size_t messages) {
  if (!drain.reaches(messages, Clock::now() + kPatience, bench.progress))
    throw std::runtime_error("steady: not all messages were delivered in time");
}

// Runs a job, which returns its seconds. Adds its rate, and the CPU time of Redis for each message.
template <class Job>
void add_rate(Bench& bench, const std::string& rate, const std::string& redis_us, const Job& job) {
  const auto messages = static_cast<double>(bench.scale.compared);
  const double start = bench.server.cpu_us();
  bench.figures.add(rate, messages / job());
  bench.figures.add(redis_us, (bench.server.cpu_us() - start) / messages);
}

// The same job as end_to_end by bare commands, or with each move in a script.
void bare_end_to_end(Bench& bench, Moves moves) {
  const std::string name = moves == Moves::scripts ? "end_to_end_moves" : "end_to_end";
  bench.progress.step("limit." + name);
  bench.server.flush();
  const store::Keys keys = store::make_keys(kBareQueue, {});
  const std::vector<std::string> ids = store::new_ids(bench.scale.compared);
  const std::vector<Batch> sends = bare_due_sends(keys, ids, moves), receives = bare_due_receives(keys, ids, moves);
  Wire wire(bench.server.socket());
  run(wire, bare_residents(keys), 1);
  add_rate(bench, "limit." + name, "redis_us.limit_" + name,
           [&] { return run_end_to_end(bench.server.socket(), sends, receives); });
}

}  // namespace

void sends(Bench& bench) {
  const bool two = Placement::usable_cores().size() > 1;
  if (!two) {
    bench.progress.left_out(
        "limit.round_trip.two_cores limit.script.two_cores limit.send_script.two_cores limit.send_commands.two_cores "
        "send.one_thread.two_cores ratio.one_thread.two_cores sleeps_per_send.two_cores",
        "this process may use one core only");
  }
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    placed_sends(bench, Cores::one);
    if (two) placed_sends(bench, Cores::two);
    bench.progress.step("unpinned");
    lone_sends(bench, "unpinned");
    shared_sends(bench);
  }
  bench.figures.ratio("ratio.one_thread.one_core", "send.one_thread.one_core", "limit.script.one_core");
  if (two) bench.figures.ratio("ratio.one_thread.two_cores", "send.one_thread.two_cores", "limit.script.two_cores");
}

void receives(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    receive(bench, Due::scheduled, "scheduled");
    receive(bench, Due::at_once, "due");
  }
}

void end_to_end(Bench& bench) {
  const std::size_t messages = bench.scale.compared;
  const std::vector<std::string> payloads(kSteadyBatch, payload());
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const Moves moves : {Moves::commands, Moves::scripts}) bare_end_to_end(bench, moves);
    bench.progress.step("library");
    bench.server.flush();
    Producer producer(bench.server.url(), kQueue);
    Drain drain(bench.server.url(), {kQueue}, 8);
    add_rate(bench, "end_to_end", "redis_us.end_to_end", [&] {
      const auto start = Clock::now();
      for (std::size_t sent = 0; sent < messages; sent += payloads.size()) producer.send_batch(payloads);
      await(bench, drain, messages);
      return since(start);
    });
    drain.stop();
  }
}

}  // namespace bench
