// Repeats of sends, cancels and reschedules while a server is away: ProducerOptions::send_timeout.
#include "support/test.h"

#include <signal.h>

#include "producer/repeat.h"
#include "support/forked.h"
#include "support/limits.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using std::chrono::steady_clock;
using test::FaultProxy;
using test::named;
using test::threads_of_this_process;
using FailureKind = redis::Failure::Kind;

ProducerOptions for_time(milliseconds send_timeout) {
  ProducerOptions options;
  options.send_timeout = send_timeout;
  options.logger = no_log();
  return options;
}

milliseconds since(steady_clock::time_point begun) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begun);
}

struct Failed {
  std::string text{};
  std::vector<std::string> ids{};
  bool not_sent = false;
  milliseconds took{0};
};

// The ConnectionError of a call; unset: it succeeded.
std::optional<Failed> connection_error_of(const std::function<void()>& call) {
  const auto begun = steady_clock::now();
  try {
    call();
  } catch (const ConnectionError& e) {
    return Failed{e.what(), e.ids(), e.not_sent(), since(begun)};
  }
  return std::nullopt;
}

class StoppedProcess {
 public:
  explicit StoppedProcess(int pid) : pid_(pid) { ::kill(pid_, SIGSTOP); }
  ~StoppedProcess() { go_on(); }
  void go_on() { ::kill(pid_, SIGCONT); }

 private:
  const int pid_;
};

// ---- What to do after an attempt ------------------------------------------------------------------------------------

TEST_CASE("repeat: what a call does with a message after an attempt") {
  using Outcome = SendOutcome;
  struct Row {
    Outcome outcome;
    FailureKind failure;
    NextStep new_id, own_id;
  };
  const FailureKind outages[] = {FailureKind::connection, FailureKind::slot_unavailable};
  const FailureKind others[] = {
      FailureKind::not_durable,     FailureKind::reply, FailureKind::queue_full,       FailureKind::access_denied,
      FailureKind::scripts_missing, FailureKind::setup, FailureKind::invalid_argument, FailureKind::other};
  std::vector<Row> rows;
  for (const FailureKind kind : outages) {
    rows.push_back({Outcome::not_written, kind, NextStep::move, NextStep::repeat});
    rows.push_back({Outcome::in_doubt, kind, NextStep::repeat, NextStep::repeat});
  }
  for (const FailureKind kind : others) {
    rows.push_back({Outcome::not_written, kind, NextStep::fail, NextStep::fail});
    rows.push_back({Outcome::in_doubt, kind, NextStep::fail, NextStep::fail});
  }
  for (const auto& kinds : {std::vector<FailureKind>(std::begin(outages), std::end(outages)),
                            std::vector<FailureKind>(std::begin(others), std::end(others))}) {
    for (const FailureKind kind : kinds) {
      for (const Outcome outcome : {Outcome::refused, Outcome::not_durable}) {
        rows.push_back({outcome, kind, NextStep::fail, NextStep::fail});
      }
      for (const Outcome outcome :
           {Outcome::created, Outcome::existed, Outcome::cancelled, Outcome::kept, Outcome::replaced}) {
        rows.push_back({outcome, kind, NextStep::none, NextStep::none});
      }
    }
  }
  CHECK(rows.size() == 9 * 10);
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.outcome));
    CAPTURE(static_cast<int>(row.failure));
    CHECK(next_step(row.outcome, {row.failure}, true) == row.new_id);
    CHECK(next_step(row.outcome, {row.failure}, false) == row.own_id);
  }
}

TEST_CASE("repeat: a message that is found after a lost answer counts as created, and one in doubt stays in doubt") {
  using Outcome = SendOutcome;
  for (const Outcome last :
       {Outcome::not_written, Outcome::in_doubt, Outcome::refused, Outcome::not_durable, Outcome::created,
        Outcome::existed, Outcome::cancelled, Outcome::kept, Outcome::replaced}) {
    CHECK(merged(last, false) == last);
    const Outcome after = last == Outcome::existed       ? Outcome::created
                          : last == Outcome::not_written ? Outcome::in_doubt
                          : last == Outcome::refused     ? Outcome::in_doubt
                                                         : last;
    CHECK(merged(last, true) == after);
  }
}

// ---- Outages that are bridged ---------------------------------------------------------------------------------------

TEST_CASE("repeat: while a server restarts no send fails, and each message is stored once") {
  PrivateServer own;
  Queue queue(own.url(), for_time(60s));
  Producer second(queue.client, queue.name, for_time(60s));
  std::atomic<bool> stopped{false};
  std::atomic<std::size_t> sent{0}, not_created{0}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, &producer = i % 2 == 0 ? queue.producer : second, i] {
      while (!stopped) {
        const auto failure = connection_error_of([&] {
          if (i < 4) {
            if (!producer.send("x").created()) ++not_created;
            ++sent;
          } else if (i < 6) {
            for (const Sent& one : producer.send_batch(numbers(300))) {
              if (!one.created()) ++not_created;
              ++sent;
            }
          } else {
            if (!producer.send_async("x").get().created()) ++not_created;
            ++sent;
          }
        });
        if (failure) ++failed;
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = sent;
    CHECK(eventually([&] { return sent >= before + 1000; }, kPatience));
    own.stop();
    std::this_thread::sleep_for(100ms);
    own.restart();
  }
  const std::size_t before = sent;
  CHECK(eventually([&] { return sent >= before + 1000; }, kPatience));
  stopped = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(not_created == 0);
  CHECK(queue.inspector.counts().ready == sent);
  CHECK(queue.inspector.counts().totals.sent == sent);
}

TEST_CASE("repeat: after a lost answer the send is repeated with its id, so that there is one message") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Producer producer(proxy.url(), queue.name, for_time(60s));
  producer.send("connects");
  std::uint64_t all = 1;
  const auto sends = [&](const std::function<void()>& send, std::uint64_t messages) {
    proxy.drop_replies(1);
    send();
    CHECK(proxy.counts().dropped > 0);
    all += messages;
    CHECK(queue.inspector.counts().ready == all);
    CHECK(queue.inspector.counts().totals.sent == all);
  };
  sends([&] { CHECK(producer.send("x").result == SendResult::created); }, 1);
  sends([&] { CHECK(producer.send("x", named(kId)).result == SendResult::created); }, 1);
  sends([&] { CHECK(producer.send("x", named(kId)).result == SendResult::created); }, 0);  // it cannot be known
  CHECK(producer.send("x", named(kId)).result == SendResult::existed);
  sends([&] { CHECK(producer.send_async("x").get().created()); }, 1);
  sends(
      [&] {
        for (const Sent& one : producer.send_batch(numbers(1000))) CHECK(one.created());
      },
      1000);
  sends([&] { CHECK(producer.send(std::string(300'000, 'x')).created()); }, 1);
}

TEST_CASE("repeat: a batch keeps its order in a queue of one partition, also after a lost connection") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Producer producer(proxy.url(), queue.name, for_time(60s));
  producer.send("connects");
  static_cast<void>(queue.producer.cancel(queue.inspector.list(State::ready).messages.front().id));
  queue.admin.purge(State::ready);
  proxy.cut_commands_after(100'000);  // some of the steps
  const auto sent = producer.send_batch(numbers(3000));
  REQUIRE(proxy.counts().truncated > 0);
  std::size_t next = 0;
  ListOptions page;
  page.limit = 1000;
  for (const MessageInfo& one : queue.inspector.list(State::ready, page).messages) {
    REQUIRE(one.id == sent.at(next).id);
    ++next;
  }
  CHECK(next == 1000);
  CHECK(queue.inspector.counts().ready == 3000);
  for (const Sent& one : sent) CHECK(one.created());
}

TEST_CASE("repeat: a batch may take longer than send_timeout, which counts from the last step that was answered") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Producer producer(proxy.url(), queue.name, for_time(2s));
  producer.send("connects");
  proxy.delay(40ms);
  const auto begun = steady_clock::now();
  auto batch = std::async(std::launch::async, [&] { return producer.send_batch(numbers(60'000)); });
  for (int cuts = 0; batch.wait_for(700ms) != std::future_status::ready && cuts < 3; ++cuts) proxy.cut();
  const std::vector<Sent> sent = batch.get();
  CHECK(since(begun) > 2s);
  CHECK(std::all_of(sent.begin(), sent.end(), [](const Sent& one) { return one.created(); }));
  CHECK(queue.inspector.counts().ready == 60'001);
}

// ---- Outages that are longer ----------------------------------------------------------------------------------------

// The time of the first call, and then of a hundred later ones.
struct LongOutage {
  Failed first{};
  milliseconds later{0};
};

LongOutage use_during_outage(Producer& producer, Producer& other) {
  LongOutage outage;
  const auto first = connection_error_of([&] { producer.send("first"); });
  REQUIRE(first);
  outage.first = *first;
  const auto begun = steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    for (Producer* const one : {&producer, &other}) {
      const auto later = connection_error_of([&] { one->send("later"); });
      REQUIRE(later);
      CHECK(later->not_sent);
      CHECK(later->ids.size() == 1);
      CHECK(has(later->text, "(away for "));
    }
  }
  outage.later = since(begun);
  return outage;
}

TEST_CASE("repeat: with a closed port the first call ends after send_timeout, and later ones of the Client at once") {
  PrivateServer own;
  Queue queue(own.url(), for_time(1s));
  Producer other(queue.client, queue.name, for_time(1s));
  queue.send("before");
  const std::size_t threads = threads_of_this_process();
  own.stop();
  const LongOutage outage = use_during_outage(queue.producer, other);
  CHECK(outage.first.took >= 900ms);
  CHECK(outage.first.took < 30s);
  CHECK(outage.first.not_sent);
  CHECK(has(outage.first.text, own.socket()));
  CHECK(has(outage.first.text, " attempts)"));
  CHECK(outage.later < 50 * 1s);                    // far less: none of them waits
  CHECK(threads_of_this_process() <= threads + 1);  // one thread tries to connect
  own.restart();
  CHECK(eventually([&] { return !connection_error_of([&] { other.send("after"); }); }, kPatience));
  CHECK(!connection_error_of([&] { queue.send("after"); }));
  CHECK(queue.inspector.counts().ready == 3);
}

TEST_CASE("repeat: with a frozen server the first call ends after send_timeout, and later ones of the Client at once") {
  PrivateServer own;
  Queue queue(own.url(), for_time(500ms));  // less than the command_timeout
  Producer other(queue.client, queue.name, for_time(500ms));
  queue.send("before");
  StoppedProcess frozen(own.pid());
  const LongOutage outage = use_during_outage(queue.producer, other);
  CHECK(outage.first.took >= 450ms);
  CHECK(!outage.first.not_sent);
  CHECK(outage.first.ids.size() == 1);
  CHECK(outage.later < 50 * 500ms);
  frozen.go_on();
  CHECK(eventually([&] { return !connection_error_of([&] { other.send("after", named(outage.first.ids.front())); }); },
                   kPatience));
  CHECK(eventually([&] { return queue.inspector.counts().ready == 2; }, kPatience));  // the first one was stored
}

TEST_CASE("repeat: a connection that has died silently fails its own call, and no later one while Redis is there") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  const std::string name = "orders";
  // A busy machine may be late: then the server counts as away, rightly.
  const auto later_succeeds = [&] {
    const Client client(proxy.url());
    Producer producer(client, name, for_time(500ms));
    Producer other(client, name, for_time(5s));
    producer.send("connects");
    proxy.black_hole(true);
    const auto failure = connection_error_of([&] { producer.send("x"); });
    CHECK(failure);
    std::thread back([&] {
      std::this_thread::sleep_for(20ms);
      proxy.black_hole(false);
    });
    const auto later = connection_error_of([&] { producer.send("x"); });
    back.join();
    CHECK(!connection_error_of([&] { other.send("x"); }));
    return !later;
  };
  bool succeeded = false;
  for (int i = 0; i < 20 && !succeeded; ++i) succeeded = later_succeeds();
  CHECK(succeeded);
}

TEST_CASE("repeat: an attempt that was given up does not arrive after its repeat") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  proxy.hold_little();
  const Client client(proxy.url());
  Producer producer(client, "orders", for_time(300ms));
  const std::string payload(32 * 1024, 'x');  // most of it waits in the sender's system, which would send it later
  producer.send(payload);                     // loads the script
  proxy.black_hole(true);
  const auto failure = connection_error_of([&] { producer.send(payload); });
  REQUIRE(failure);
  REQUIRE(failure->ids.size() == 1);
  Producer(own.url(), "orders").send("y", named(failure->ids.front()));
  std::atomic<int> handled{0};
  Consumer consumer(own.url(), "orders", [&](const Message&) {
    ++handled;
    return ack();
  });
  consumer.start();
  CHECK(eventually([&] { return handled == 2; }, kPatience));
  CHECK(consumer.stop(kPatience));
  proxy.hold_replies(true);  // a reply to its first part would end it
  proxy.black_hole(false);
  std::this_thread::sleep_for(300ms);  // time to arrive
  proxy.hold_replies(false);
  CHECK(eventually([&] { return !connection_error_of([&] { producer.send("after"); }); }, kPatience));
  CHECK(Inspector(own.url(), "orders").counts().ready == 1);
}

TEST_CASE("repeat: where Redis accepts no more connections, calls share those that the Client has") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  const Client shared(own.url());
  Producer first(shared, queue.name, for_time(10s));
  first.send("connects");
  CHECK(queue.inspector.counts().ready == 1);
  const std::string info = client.cmd({"INFO", "clients"}).text;
  const std::string field = "connected_clients:";
  const int connected = std::stoi(info.substr(info.find(field) + field.size()));
  client.cmd({"CONFIG", "SET", "maxclients", std::to_string(connected)});
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Producer producer(shared, queue.name, for_time(10s));
      for (int n = 0; n < 100; ++n) {
        if (connection_error_of([&] { producer.send("x"); })) ++failed;
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  client.cmd({"CONFIG", "SET", "maxclients", "10000"});
  CHECK(queue.inspector.counts().ready == 401U - static_cast<unsigned>(failed));
}

TEST_CASE("repeat: a call that begins during an outage waits until send_timeout after the begin of the outage") {
  PrivateServer own;
  Queue queue(own.url(), for_time(3s));
  Producer other(queue.client, queue.name, for_time(3s));
  queue.send("before");
  own.stop();
  const auto begun = steady_clock::now();
  std::thread first([&] { CHECK(connection_error_of([&] { queue.producer.send("x"); })); });
  std::this_thread::sleep_for(2s);
  const auto second = connection_error_of([&] { other.send("x"); });
  REQUIRE(second);
  CHECK(second->not_sent);
  CHECK(since(begun) >= 2900ms);
  CHECK(second->took < 2900ms);
  first.join();
}

TEST_CASE("repeat: with a send_timeout of 0 each call makes one attempt, also while others wait") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  Producer waits(queue.client, queue.name, for_time(60s));
  queue.send("before");
  own.stop();
  std::thread other([&] { CHECK(waits.send("x").created()); });
  const auto failure = connection_error_of([&] { queue.producer.send("x"); });
  REQUIRE(failure);
  CHECK(failure->not_sent);
  CHECK(!has(failure->text, "away for"));
  own.restart();
  CHECK(!connection_error_of([&] { queue.producer.send("x"); }));  // at once
  other.join();
}

TEST_CASE("repeat: what Redis refuses fails at once; that it still loads its data does not") {
  PrivateServer own;
  Queue queue(own.url(), for_time(60s));
  Redis client(own.socket());
  queue.send("before");
  client.cmd({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(has(thrown([&] { queue.send("x"); }), "ReplyError: "));
  client.cmd({"CONFIG", "SET", "maxmemory", "0"});
  client.cmd({"REPLICAOF", "127.0.0.1", "1"});  // READONLY, as after a failover
  std::thread back([&] {
    std::this_thread::sleep_for(500ms);
    client.cmd({"REPLICAOF", "NO", "ONE"});
  });
  CHECK(queue.producer.send("x").created());
  back.join();
  CHECK(queue.inspector.counts().ready == 2);
}

TEST_CASE("repeat: what a server refuses because it cannot serve now is not in doubt") {
  PrivateServer own;
  Queue queue(own.url(), for_time(60s));
  Producer impatient(queue.client, queue.name, for_time(300ms));
  Redis client(own.socket());
  queue.send("before", named(kId));
  impatient.send("connects");
  client.cmd({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  client.cmd({"REPLICAOF", "127.0.0.1", "1"});  // MASTERDOWN
  const auto failure = connection_error_of([&] { impatient.send("x"); });
  REQUIRE(failure);
  CHECK(has(failure->text, "MASTERDOWN"));
  CHECK(failure->not_sent);
  CHECK(failure->ids.size() == 1);
  client.cmd({"REPLICAOF", "NO", "ONE"});
  CHECK(eventually([&] { return !connection_error_of([&] { queue.send("works"); }); }, kPatience));
  client.cmd({"REPLICAOF", "127.0.0.1", "1"});
  std::thread back([&] {
    std::this_thread::sleep_for(300ms);
    client.cmd({"REPLICAOF", "NO", "ONE"});
  });
  CHECK(queue.producer.send("again", named(kId)).result == SendResult::existed);
  back.join();
  CHECK(queue.inspector.counts().ready == 3);
}

TEST_CASE("repeat: what is refused after a lost answer stays in doubt") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Redis client(own.socket());
  Producer producer(proxy.url(), queue.name, for_time(60s));
  const std::string id = producer.send("x", delayed(1h)).id;
  RescheduleOptions later;
  later.delay = 2h;
  CHECK(producer.reschedule(id, later) == Outcome::done);
  // The first attempt gets no answer, and the next one a refusal.
  const auto refused = [&](const auto& lose, const char* name, const char* value, const std::function<void()>& call) {
    producer.send("connects");
    lose();
    const std::size_t dropped = proxy.counts().dropped;
    proxy.refuse(true);
    auto failure = std::async(std::launch::async, [&] { return connection_error_of(call); });
    CHECK(eventually([&] { return proxy.counts().dropped > dropped; }, kPatience));
    client.cmd({"CONFIG", "SET", name, value});
    proxy.refuse(false);
    const auto result = failure.get();
    client.cmd({"CONFIG", "SET", name, std::string(name) == "maxmemory" ? "0" : ""});
    REQUIRE(result);
    CHECK(!result->not_sent);
    CHECK(result->took < 60s);
    return *result;
  };
  const auto lose_command = [&] { proxy.drop_commands(1); };
  const auto lose_reply = [&] { proxy.drop_replies(1); };
  const Failed full = refused(lose_command, "maxmemory", "1", [&] { producer.send("x"); });
  CHECK(full.ids.size() == 1);
  CHECK(has(full.text, "OOM"));
  const Failed denied = refused(lose_reply, "requirepass", "secret", [&] { producer.send("x"); });
  REQUIRE(denied.ids.size() == 1);
  CHECK(has(denied.text, "NOAUTH"));
  CHECK(queue.state(denied.ids.front()) == State::ready);
  const Failed all = refused(lose_reply, "requirepass", "secret", [&] { producer.send_batch(numbers(3)); });
  CHECK(all.ids.size() == 3);
  CHECK(
      has(refused(lose_reply, "requirepass", "secret", [&] { static_cast<void>(producer.reschedule(id, later)); }).text,
          "NOAUTH"));
}

// ---- send_async -----------------------------------------------------------------------------------------------------

TEST_CASE("repeat: sends of send_async that wait fail together after send_timeout, in the order of the calls") {
  PrivateServer own;
  Queue queue(own.url(), for_time(1s));
  queue.send("before");
  own.stop();
  std::mutex mutex;
  std::vector<int> failed;
  const auto begun = steady_clock::now();
  for (int i = 0; i < 5000; ++i) {
    queue.producer.send_async("x", {}, [&, i](const AsyncSent& result) {
      CHECK(!result);
      CHECK(result.id().size() == 36);
      const std::lock_guard lock(mutex);
      failed.push_back(i);
    });
  }
  CHECK(queue.producer.flush(kPatience));
  CHECK(since(begun) >= 900ms);
  REQUIRE(failed.size() == 5000);
  CHECK(std::is_sorted(failed.begin(), failed.end()));
}

TEST_CASE("repeat: ~Producer waits for the sends of send_async no longer than send_timeout") {
  PrivateServer own;
  own.stop();
  std::vector<std::shared_future<Sent>> futures;
  const auto begun = steady_clock::now();
  {
    Producer producer(own.url(), "orders", for_time(1s));
    for (const std::string& payload : numbers(5000)) futures.push_back(producer.send_async(payload).share());
  }
  CHECK(since(begun) < 60s);
  for (const auto& future : futures) {
    REQUIRE(future.wait_for(0s) == std::future_status::ready);
    CHECK(connection_error_of([&] { future.get(); }));
  }
}

// ---- Calls by id ----------------------------------------------------------------------------------------------------

TEST_CASE("repeat: cancel is repeated only while nothing was written, reschedule also after a lost answer") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Producer producer(proxy.url(), queue.name, for_time(60s));
  const std::string id = producer.send("x", delayed(1h)).id;
  RescheduleOptions later;
  later.delay = 2h;
  proxy.drop_replies(1);
  CHECK(producer.reschedule(id, later) == Outcome::done);
  const auto found = queue.inspector.find(id);
  REQUIRE(found);
  CHECK(found->state == State::pending);

  CHECK(producer.cancel(kId) == State::unknown);  // loads the script
  proxy.drop_replies(1);
  const auto lost = connection_error_of([&] { static_cast<void>(producer.cancel(id)); });
  REQUIRE(lost);
  CHECK(!lost->not_sent);
  CHECK(lost->took < 60s);
  CHECK(queue.state(id) == State::unknown);

  const std::string other = queue.send("x");
  proxy.refuse(true);
  proxy.cut();
  std::thread back([&] {
    std::this_thread::sleep_for(300ms);
    proxy.refuse(false);
  });
  CHECK(producer.cancel(other) == State::ready);
  back.join();
}

// ---- Durability, forks, options -------------------------------------------------------------------------------------

TEST_CASE("repeat: a send that replicas have not confirmed in time is not repeated") {
  PrivateServer own;
  Queue queue(own.url());
  Redis client(own.socket());
  ProducerOptions options = for_time(60s);
  options.durability = Durability::replicas(1, 10ms);
  Producer durable(own.url(), queue.name, options);
  CHECK(connection_error_of([&] { durable.send("connects"); }));
  const std::size_t before = test::calls_of("wait", client);
  const auto failure = connection_error_of([&] { durable.send("x"); });
  REQUIRE(failure);
  CHECK(!failure->not_sent);
  CHECK(has(failure->text, "only 0 of 1 replicas have it within 10 ms"));
  CHECK(test::calls_of("wait", client) <= before + 2);  // a new connection asks once whether the server can confirm
  CHECK(!connection_error_of([&] { queue.producer.send("x"); }));
  CHECK(queue.inspector.counts().ready == 3);
}

TEST_CASE("repeat: durability.timeout must not be longer than send_timeout") {
  ProducerOptions options = for_time(100ms);
  options.durability = Durability::replicas(1, 101ms);
  const auto make = [&] { Producer("redis://localhost", "orders", options); };
  CHECK(has(thrown(make), "invalid_argument: durability.timeout: 101 ms; expected at most send_timeout"));
  options.send_timeout = 0ms;
  CHECK(thrown(make) == "nothing");
  options.send_timeout = -1ms;
  CHECK(has(thrown(make), "invalid_argument: send_timeout: -1 ms"));
}

TEST_CASE("repeat: a fork during an outage has none") {
  if (!test::kForksMakeThreads) return;
  PrivateServer own;
  Queue queue(own.url(), for_time(300ms));
  queue.send("before");
  own.stop();
  CHECK(connection_error_of([&] { queue.send("x"); }));
  const auto sends = [&] {
    Producer producer(queue.client, queue.name, for_time(200ms));
    const auto failure = connection_error_of([&] { producer.send("x"); });
    return failure && failure->took >= 150ms;  // it has waited for an outage of its process
  };
  CHECK(test::in_child(sends) == 0);
  own.restart();
  CHECK(eventually([&] { return !connection_error_of([&] { queue.send("x"); }); }, kPatience));
}

}  // namespace
}  // namespace delayqueue
