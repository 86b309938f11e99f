// Threads that share a Producer: they share round trips and script calls, but neither results nor errors.
#include "support/test.h"

#include "producer/group_commit.h"
#include "support/proxy.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kThreads = 40;

// The result of one thread; `error` is "" if it succeeded.
struct TriedSend {
  Sent sent;
  std::string error;  // "ReplyError", "ConnectionError"
  std::vector<std::string> ids;
};

// Holds the reply to the first send back, so that the sends of the other threads wait and go together.
std::vector<TriedSend> send_together(Producer& producer, FaultProxy& proxy, std::size_t threads,
                                     const std::function<SendOptions(std::size_t)>& options,
                                     const std::function<void()>& release) {
  std::vector<TriedSend> outcomes(threads);
  std::atomic<std::size_t> begun{0};
  std::vector<std::thread> senders;
  CHECK(producer.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd") == State::unknown);  // connects
  proxy.hold_replies(true);
  for (std::size_t i = 0; i < threads; ++i) {
    senders.emplace_back([&, i] {
      ++begun;
      TriedSend& outcome = outcomes[i];
      try {
        outcome.sent = producer.send(std::to_string(i), options(i));
      } catch (const ConnectionError& e) {
        outcome.error = "ConnectionError";
        outcome.ids = e.ids();
      } catch (const ReplyError&) {
        outcome.error = "ReplyError";
      }
    });
  }
  CHECK(test::eventually([&] { return begun == threads; }));
  std::this_thread::sleep_for(100ms);  // the last thread waits too; the checks hold without it
  release();
  for (std::thread& thread : senders) thread.join();
  return outcomes;
}

SendOptions due_now(std::size_t /*thread*/) { return {}; }

TEST_CASE("Producer: threads that send at the same time share script calls, and each gets its own result") {
  PrivateServer own;
  Redis client(own.socket());
  FaultProxy proxy(own.socket());
  Queue queue(proxy.url(), one_attempt());
  queue.send("warm");
  const std::size_t before = test::calls_of("evalsha", client);
  const auto outcomes = send_together(queue.producer, proxy, kThreads, due_now, [&] { proxy.hold_replies(false); });
  CHECK(test::calls_of("evalsha", client) - before < kThreads / 2);  // the cancel is one; usually three in all
  for (std::size_t i = 0; i < kThreads; ++i) {
    CAPTURE(outcomes[i].error);
    CHECK(outcomes[i].sent.created());
    CHECK(client.cmd({"GET", queue.base + ":msg:" + outcomes[i].sent.id}).text == std::to_string(i));
  }
  CHECK(queue.inspector.counts().ready == kThreads + 1);
}

// Each thread sends 300 messages, one after the other. Returns the number of connections to the server before the end.
std::size_t connections_of_senders(std::size_t threads) {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  queue.send("warm");
  std::vector<std::thread> senders;
  for (std::size_t i = 0; i < threads; ++i) {
    senders.emplace_back([&] {
      for (int one = 0; one < 300; ++one) queue.producer.send("x");
    });
  }
  for (std::thread& thread : senders) thread.join();
  CHECK(queue.inspector.counts().ready == 300 * threads + 1);
  return std::stoul(test::info("clients", "connected_clients", client)) - 1;
}

TEST_CASE("Producer: four threads that send at the same time share one connection, and many threads two") {
  CHECK(connections_of_senders(4) == 1);
  CHECK(connections_of_senders(16) == 2);
}

TEST_CASE("Producer: when threads send the same id at the same time, one of them creates the message") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(proxy.url(), one_attempt());
  const auto id_of = [](std::size_t i) { return "0197f3a4-5b6c-7d8e-9f01-0123456789" + std::to_string(10 + i); };
  const auto options_of = [&](std::size_t i) { return with(&SendOptions::id, id_of(i % 2 == 0 ? 0 : i)); };
  const auto outcomes = send_together(queue.producer, proxy, kThreads, options_of, [&] { proxy.hold_replies(false); });
  std::size_t created = 0;
  for (std::size_t i = 0; i < kThreads; ++i) {
    const TriedSend& outcome = outcomes[i];
    CHECK(outcome.error.empty());
    CHECK(outcome.sent.id == options_of(i).id);
    if (i % 2 == 1) CHECK(outcome.sent.created());
    if (outcome.sent.created()) CHECK(queue.inspector.find(outcome.sent.id)->payload == std::to_string(i));
    if (outcome.sent.created()) ++created;
  }
  CHECK(created == kThreads / 2 + 1);
  CHECK(queue.inspector.counts().ready == created);
}

TEST_CASE("Producer: threads with different options share round trips, and each message gets its own options") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(proxy.url(), one_attempt());
  const auto options_of = [](std::size_t i) {
    SendOptions options;
    if (i % 3 > 0) options.delay = i % 3 * 1h;
    options.retries = static_cast<int>(i % 2);
    if (i % 5 == 0) options.ttl = 24h;
    if (i % 7 == 0) options.id = "0197f3a4-5b6c-7d8e-9f01-0123456789" + std::to_string(10 + i);
    return options;
  };
  const auto outcomes = send_together(queue.producer, proxy, kThreads, options_of, [&] { proxy.hold_replies(false); });
  for (std::size_t i = 0; i < kThreads; ++i) {
    CAPTURE(i);
    REQUIRE(outcomes[i].error.empty());
    CHECK(outcomes[i].sent.created());
    const auto found = queue.inspector.find(outcomes[i].sent.id);
    REQUIRE(found);
    const SendOptions options = options_of(i);
    CHECK(found->payload == std::to_string(i));
    CHECK(found->retries == *options.retries);
    CHECK(found->state == (options.delay == 0ms ? State::ready : State::pending));
    if (!options.id.empty()) CHECK(found->id == options.id);
    const bool expires = Redis(own.socket()).cmd({"PTTL", queue.base + ":msg:" + found->id}).integer > 0;
    CHECK(expires == options.ttl.has_value());
  }
}

TEST_CASE("Producer: an error reply fails only the threads whose messages were in that script call") {
  PrivateServerOptions arguments;
  arguments.arguments = {"--user", "ann", "on", ">pw", "~*", "&*", "+@all", "-lpush"};
  PrivateServer own(arguments);
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  ClientOptions as_ann;
  as_ann.user = "ann";
  as_ann.password = "pw";
  Producer producer({proxy.url(), as_ann}, queue.name, one_attempt());
  const auto options_of = [](std::size_t i) {
    SendOptions options;
    if (i % 2 == 1) options.delay = 1h;  // needs no LPUSH
    return options;
  };
  const auto outcomes = send_together(producer, proxy, kThreads, options_of, [&] { proxy.hold_replies(false); });
  for (std::size_t i = 0; i < kThreads; ++i) CHECK(outcomes[i].error == (i % 2 == 1 ? "" : "ReplyError"));
  CHECK(queue.inspector.counts().pending == kThreads / 2);
}

TEST_CASE("Producer: when the connection is lost, each thread gets the id of its message and can send it again") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(proxy.url(), one_attempt());
  auto outcomes = send_together(queue.producer, proxy, kThreads, due_now, [&] {
    proxy.hold_replies(false);
    proxy.cut();
  });
  std::set<std::string> ids;
  for (std::size_t i = 0; i < kThreads; ++i) {
    SendOptions again;
    if (!outcomes[i].error.empty()) {
      CHECK(outcomes[i].error == "ConnectionError");
      REQUIRE(outcomes[i].ids.size() == 1);
      again.id = outcomes[i].ids.front();
      outcomes[i].sent = queue.producer.send(std::to_string(i), again);
    }
    const std::string id = outcomes[i].sent.id;
    CHECK(queue.inspector.find(id)->payload == std::to_string(i));
    ids.insert(id);
  }
  CHECK(ids.size() == kThreads);
  CHECK(queue.inspector.counts().ready == kThreads);
}

TEST_CASE("Producer: threads that wait for the same connect share its error") {
  test::Listener silent([](int fd) { test::swallow(fd); });
  ClientOptions options;
  options.connect_timeout = 500ms;
  Producer producer({"redis://" + silent.address().text(), options}, "orders");
  const auto begin = Clock::now();
  std::atomic<std::size_t> failed{0};
  std::vector<std::thread> senders;
  for (std::size_t i = 0; i < kThreads; ++i) {
    senders.emplace_back([&] {
      try {
        producer.send("x");
      } catch (const ConnectionError& e) {
        if (e.ids().size() == 1) ++failed;
      }
    });
  }
  for (std::thread& thread : senders) thread.join();
  CHECK(failed == kThreads);
  CHECK(Clock::now() - begin < kThreads * 500ms / 2);
}

TEST_CASE("Producer: missing durability fails all threads that shared the round trip") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  Producer producer(proxy.url(), queue.name, with(&ProducerOptions::durability, Durability::replicas(1, 20ms)));
  CHECK(test::thrown([&] { producer.send("warm"); }).find("only 0 of 1") != std::string::npos);
  std::atomic<std::size_t> failed{0};
  std::vector<std::thread> senders;
  for (std::size_t i = 0; i < 8; ++i) {
    senders.emplace_back([&] {
      try {
        producer.send("x");
      } catch (const ConnectionError& e) {
        if (e.ids().size() == 1 && std::string(e.what()).find("only 0 of 1 replicas") != std::string::npos) ++failed;
      }
    });
  }
  for (std::thread& thread : senders) thread.join();
  CHECK(failed == 8);
  CHECK(queue.inspector.counts().ready == 9);
}

// Counts how often each of these calls returned while a large batch was being sent.
std::map<std::string, std::size_t> during_batch(const std::vector<std::string>& calls) {
  Queue queue;
  queue.send("warm");
  constexpr std::size_t kBatch = 100'000;
  const std::vector<std::string> payloads = numbers(kBatch);
  std::atomic<bool> begun{false}, over{false};
  std::vector<std::thread> threads;
  std::vector<std::size_t> counts(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      while (!over) {
        const bool is_counted = begun;
        if (calls[i] == "send") queue.producer.send("lone");
        if (calls[i] == "cancel") static_cast<void>(queue.producer.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd"));
        if (calls[i] == "send_batch") queue.producer.send_batch({"a", "b", "c"});
        if (is_counted && !over) ++counts[i];
      }
    });
  }
  threads.emplace_back([&] {
    Redis client;
    while (!over && !begun) begun = client.cmd({"ZCARD", queue.base + ":pending"}).integer > 0;
  });
  const std::vector<Sent> sent = queue.producer.send_batch(payloads, delayed(1h));
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(sent.size() == kBatch);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    if (sent[i - 1].id >= sent[i].id || !sent[i].created()) FAIL(i);
  }
  std::map<std::string, std::size_t> result;
  for (std::size_t i = 0; i < calls.size(); ++i) result[calls[i]] = counts[i];
  return result;
}

TEST_CASE("Producer: other sends, cancels and batches proceed while a large batch is sent") {
  using Calls = std::vector<std::string>;
  for (const Calls& calls :
       {Calls{"send"}, Calls{"cancel"}, Calls{"send_batch"}, Calls{"send", "cancel", "send_batch"}}) {
    for (const auto& call : during_batch(calls)) {
      CAPTURE(calls.size());
      CAPTURE(call.first);
      CHECK(call.second >= 10);  // the batch takes 125 turns
    }
  }
}

// Messages that were sent together, and what became of them.
struct Committed {
  bool failed() const { return slice.failure.has_value(); }

  Slice slice;
  std::vector<SendOutcome> outcomes;
};

// A group commit whose slices may be sent elsewhere, over a proxy.
class Movable {
 public:
  Movable() { terms_.new_ids = true; }

  Committed send(std::size_t messages = 1) { return send(commit_, messages); }
  Committed send_by_second() { return send(second_, 1); }

  PrivateServer own;
  FaultProxy proxy{own.socket()};
  FaultProxy second_proxy{own.socket()};

 private:
  Committed send(GroupCommit& commit, std::size_t count) {
    std::vector<PendingMessage> messages;
    for (std::string& id : store::new_ids(count)) messages.push_back({std::move(id), "x", &terms_});
    Committed committed;
    for (PendingMessage& message : messages) committed.slice.messages.push_back(&message);
    CHECK(commit.send({&committed.slice}, GroupCommit::Elsewhere::yes).empty());
    for (const PendingMessage& message : messages) committed.outcomes.push_back(message.outcome);
    return committed;
  }

  const std::string queue_ = test::fresh_queue();
  GroupCommit::Answered answered_;
  SharedConnection connection_{proxy.url(), queue_};
  SharedConnection second_connection_{second_proxy.url(), queue_};
  GroupCommit commit_{connection_, 0us, answered_};
  GroupCommit second_{second_connection_, 0us, answered_};
  store::SendTerms terms_;
};

TEST_CASE("group commit: a request that may be sent elsewhere does not wait for a server that answers nothing") {
  Movable all;
  Redis client(all.own.socket());
  CHECK_FALSE(all.send().failed());
  const std::size_t calls = test::calls_of("evalsha", client);
  all.proxy.hold_replies(true);
  Committed first;
  std::thread leader([&] { first = all.send(); });
  CHECK(test::eventually([&] { return test::calls_of("evalsha", client) > calls; }));
  const Committed waiting = all.send();
  all.proxy.hold_replies(false);
  leader.join();
  CHECK(waiting.slice.withdrawn);
  CHECK(waiting.outcomes == std::vector<SendOutcome>{SendOutcome::not_written});
  REQUIRE(waiting.failed());
  CHECK(waiting.slice.failure->is_connection());
  CHECK(test::has(waiting.slice.failure->text, "has not answered other sends for"));
  CHECK_FALSE(first.failed());
  CHECK(first.outcomes == std::vector<SendOutcome>{SendOutcome::created});
}

TEST_CASE("group commit: a request waits for a server that answers, however many requests are before it") {
  Movable all;
  CHECK_FALSE(all.send().failed());
  all.proxy.delay(250ms);
  CHECK_FALSE(all.send().failed());  // measures the round trip: 500 ms, so that a busy machine is no silent server
  std::atomic<std::size_t> created{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 24; ++i) {
    threads.emplace_back([&] {
      const Committed request = all.send(store::kBatch);  // a round trip has four such requests
      if (!request.failed() && request.outcomes.back() == SendOutcome::created) ++created;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(created == 24);
}

TEST_CASE("group commit: a request waits for its connection while the server answers on the other one") {
  Movable all;
  all.second_proxy.delay(100ms);
  CHECK_FALSE(all.send().failed());
  CHECK_FALSE(all.send_by_second().failed());  // measures the round trip: 200 ms
  Redis client(all.own.socket());
  const std::size_t calls = test::calls_of("evalsha", client);
  all.proxy.hold_replies(true);
  Committed first, waiting;
  std::thread leader([&] { first = all.send(); });
  CHECK(test::eventually([&] { return test::calls_of("evalsha", client) > calls; }));
  std::atomic<bool> ends{false};
  std::thread others([&] {
    while (!ends) CHECK_FALSE(all.send_by_second().failed());
  });
  std::thread waiter([&] { waiting = all.send(); });
  std::this_thread::sleep_for(1500ms);  // about three times as long as a request waits for a server without answers
  all.proxy.hold_replies(false);
  waiter.join();
  leader.join();
  ends = true;
  others.join();
  CHECK_FALSE(waiting.slice.withdrawn);
  CHECK_FALSE(waiting.failed());
  CHECK_FALSE(first.failed());
}

TEST_CASE("send_batch: keeps the order on a server that has no scripts yet") {
  PrivateServer own;
  Queue queue(own.url());
  const std::vector<Sent> sent = queue.producer.send_batch(numbers(5000));
  const auto ready = Redis(own.socket()).cmd({"LRANGE", queue.base + ":ready", "0", "-1"}).strings();
  REQUIRE(ready.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (ready[ready.size() - 1 - i] != sent[i].id) FAIL(i);
  }
}

}  // namespace
}  // namespace delayqueue
