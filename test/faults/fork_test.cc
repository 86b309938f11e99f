// Objects of the library in a forked process.
#include "support/test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/forked.h"
#include "support/limits.h"

namespace delayqueue {
namespace {

using test::in_child;
using test::kForksMakeThreads;
using test::server;
using test::threads_of_this_process;

template <class Call>
bool refused(const std::string& name, Call call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    const std::string text = e.what();
    return text.find(name + ": used in process") == 0 && text.find("a fork of process") != text.npos;
  }
  return false;
}

TEST_CASE("fork: in a child, calls to the parent's Producer throw, and destroying it does not wait") {
  const std::string queue = test::fresh_queue();
  auto producer = std::make_optional<Producer>(server().url(), queue);
  producer->send("a");
  producer->send_async("b").get();
  CHECK(in_child([&] {
          const bool all =
              refused("Producer", [&] { producer->send("x"); }) &&
              refused("Producer", [&] { producer->send_batch({"x"}); }) &&
              refused("Producer", [&] { return producer->send_async("x"); }) &&
              refused("Producer", [&] { producer->send_async("x", {}, [](const AsyncSent&) {}); }) &&
              refused("Producer", [&] { return producer->flush(1s); }) &&
              refused("Producer", [&] { return producer->cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd"); });
          producer.reset();
          return all;
        }) == 0);
  producer->send("c");
  producer->send_async("d").get();
  CHECK(Inspector(server().url(), queue).counts().ready == 4);
}

TEST_CASE("fork: parent and child send through their own Producers with different ids" *
          doctest::skip(!kForksMakeThreads)) {
  const std::string queue = test::fresh_queue();
  Producer producer(server().url(), queue);
  producer.send_async("before").get();
  constexpr int kSends = 200;
  const auto send_many = [&](Producer& by) {
    for (int i = 0; i < kSends; ++i) static_cast<void>(by.send_async("x"));
    return true;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    {
      Producer own(server().url(), queue);
      send_many(own);
    }
    ::_exit(0);
  }
  std::vector<std::future<Sent>> sent;
  for (int i = 0; i < kSends; ++i) sent.push_back(producer.send_async("x"));
  for (auto& one : sent) CHECK(one.get().created());
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  // Two sends with the same id would make one message.
  CHECK(Inspector(server().url(), queue).counts().ready == 2 * kSends + 1);
}

TEST_CASE("fork: in a child, calls to the parent's Consumer throw, and destroying it does not stop the parent's") {
  const std::string queue = test::fresh_queue();
  std::atomic<int> handled{0};
  const auto handler = [&](const Message&) {
    ++handled;
    return ack();
  };
  auto consumer = std::make_unique<Consumer>(server().url(), queue, handler);
  consumer->start();
  Producer(server().url(), queue).send("a");
  CHECK(test::eventually([&] { return handled == 1; }));
  CHECK(in_child([&] {
          const bool all = refused("Consumer", [&] { return consumer->stop(1s); }) &&
                           refused("Consumer", [&] { consumer->start(); }) &&
                           refused("Consumer", [&] { consumer->run(); }) &&
                           refused("Consumer", [&] { return consumer->metrics().stats; });
          consumer.reset();
          return all;
        }) == 0);
  Producer(server().url(), queue).send("b");
  CHECK(test::eventually([&] { return handled == 2; }));
  CHECK(consumer->stop(10s));
}

TEST_CASE("fork: a child of a handler or callback destroys the Consumer at once, and the parent's continues") {
  for (const bool by_handler : {true, false}) {
    CAPTURE(by_handler);
    const std::string queue = test::fresh_queue();
    std::atomic<int> handled{0};
    std::atomic<int> code{-1};
    std::unique_ptr<Consumer> consumer;
    const auto destroy_in_child = [&] {
      code = in_child([&] {
        consumer.reset();
        // A thread made by the destructor would wait for threads that the child does not have.
        return threads_of_this_process() == 1;
      });
    };
    const auto handler = [&](const Message&) {
      if (++handled == 1 && by_handler) destroy_in_child();
      return ack();
    };
    ConsumerOptions options;
    options.on_event = [&](const Event& event) {
      if (!by_handler && event.kind == EventKind::acked && code == -1) destroy_in_child();
    };
    consumer = std::make_unique<Consumer>(server().url(), queue, handler, options);
    consumer->start();
    Producer(server().url(), queue).send("a");
    CHECK(test::eventually([&] { return code != -1; }));
    CHECK(code == 0);
    Producer(server().url(), queue).send("b");
    CHECK(test::eventually([&] { return handled == 2; }));
    CHECK(consumer->stop(10s));
  }
}

TEST_CASE("fork: a child can make its own Consumer" * doctest::skip(!kForksMakeThreads)) {
  const std::string queue = test::fresh_queue();
  Consumer consumer(server().url(), queue, [](const Message&) { return ack(); });
  consumer.start();
  CHECK(consumer.stop(10s));
  Producer(server().url(), queue).send("a");
  CHECK(in_child([&] {
          std::atomic<bool> handled{false};
          const auto handler = [&](const Message&) {
            handled = true;
            return ack();
          };
          Consumer own(server().url(), queue, handler);
          own.start();
          return test::eventually([&] { return handled.load(); }) && own.stop(10s);
        }) == 0);
}

TEST_CASE("fork: in a child, calls to the parent's Inspector and QueueAdmin throw, and destroying them does not wait") {
  auto inspector = std::make_optional<Inspector>(server().url(), test::fresh_queue());
  CHECK(inspector->counts().ready == 0);
  CHECK(!inspector->next_event(1ms));
  auto admin = std::make_optional<QueueAdmin>(server().url(), test::fresh_queue());
  admin->resume();
  CHECK(in_child([&] {
          const bool all = refused("Inspector", [&] { return inspector->counts(); }) &&
                           refused("Inspector", [&] { return inspector->next_event(1ms); }) &&
                           refused("Inspector", [&] { return inspector->queues(); }) &&
                           refused("QueueAdmin", [&] { return admin->check(); });
          inspector.reset();
          admin.reset();
          return all;
        }) == 0);
  CHECK_NOTHROW(static_cast<void>(inspector->counts()));
  CHECK_NOTHROW(admin->resume());
}

TEST_CASE("fork: a child can neither stop nor restart the parent's PrivateServer") {
  auto own = std::make_optional<PrivateServer>();
  Producer(own->url(), "q").send("a");
  CHECK(in_child([&] {
          const std::string url = own->url();
          own->stop();
          own->kill();
          const bool no_restart = refused("PrivateServer", [&] { own->restart(); });
          own.reset();
          return no_restart && Inspector(url, "q").counts().ready == 1;
        }) == 0);
  CHECK(Inspector(own->url(), "q").counts().ready == 1);
}

TEST_CASE("fork: a child has its own embedded: server" * doctest::skip(!kForksMakeThreads)) {
  Producer producer("embedded:", "q");
  producer.send("a");
  CHECK(in_child([] {
          Producer own("embedded:", "q");
          own.send("b");
          return Inspector("embedded:", "q").counts().ready == 1;
        }) == 0);
  CHECK(Inspector("embedded:", "q").counts().ready == 1);
}

}  // namespace
}  // namespace delayqueue
