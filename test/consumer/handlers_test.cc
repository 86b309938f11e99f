// The handlers of a consumer, without Redis.
#include "support/test.h"

#include "consumer/handlers.h"

namespace delayqueue {
namespace {

InFlightPtr to_handle(int attempt) {
  return std::make_shared<InFlightMessage>(
      InFlightMessage::Taken{"0197f3a4-5b6c-7d8e-9f01-23456789abcd", nullptr, attempt, 0, 0}, Lease::Clock::now() + 1h);
}

// A Handlers with one queue and one worker.
class OneWorker {
 public:
  explicit OneWorker(Handler handler) : handlers(nullptr, [] {}, stopping_, false, {}) {
    handlers.add_queue(std::move(handler), counters, {1, 1});
    handlers.start(1, 1);
  }
  ~OneWorker() {
    Gate::open_all();
    handlers.close();
  }

  // So many first deliveries.
  void run_first(std::size_t count) {
    BodyFetcher::Fetched fetched;
    for (std::size_t i = 0; i < count; ++i) fetched.first.push_back(to_handle(1));
    handlers.run(fetched, 0);
  }

  // The number of deliveries that have ended.
  std::size_t ended() { return ended_ += handlers.take_done().deliveries.size(); }

  Counters counters;

 private:
  const std::atomic<bool> stopping_{false};
  std::size_t ended_ = 0;

 public:
  Handlers handlers;  // last: its threads use the members above
};

TEST_CASE("handlers: the one that has been running the longest is found behind any number of waiting messages") {
  Gate first, redelivered;
  OneWorker worker([&](const Message& message) {
    (message.attempt() == 1 ? first : redelivered).pass();
    return ack();
  });
  worker.run_first(1);
  REQUIRE(eventually([&] { return worker.counters.running == 1; }, kPatience));
  worker.run_first(1000);
  const InFlightPtr hangs = to_handle(2);
  BodyFetcher::Fetched fetched;
  fetched.redelivered = {hangs};
  worker.handlers.run(fetched, 0);
  first.open();  // the worker goes on with the redelivered message
  const auto is_since_it_began = [&] {
    worker.ended();
    return hangs->facts().has_begun && worker.counters.running_since == hangs->began().time_since_epoch().count();
  };
  CHECK(eventually(is_since_it_began, kPatience));
  redelivered.open();
  CHECK(eventually([&] { return worker.ended() == 1002; }, kPatience));
  CHECK(worker.counters.running_since == 0);
}

TEST_CASE("handlers: after the one that has been running the longest comes the one that began next") {
  Gate first, second;
  std::vector<InFlightPtr> deliveries{to_handle(1), to_handle(2)};
  const std::atomic<bool> stopping{false};
  Counters counters;
  Handlers handlers(nullptr, [] {}, stopping, false, {});
  handlers.add_queue(Handler([&](const Message& message) {
                       (message.attempt() == 1 ? first : second).pass();
                       return ack();
                     }),
                     counters, {1, 2});
  handlers.start(2, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    BodyFetcher::Fetched fetched;
    fetched.first = {deliveries[i]};
    handlers.run(fetched, 0);
    CHECK(eventually([&] { return counters.running == i + 1; }, kPatience));
  }
  const auto since = [&](const InFlightPtr& one) {
    handlers.take_done();
    return counters.running_since == one->began().time_since_epoch().count();
  };
  CHECK(since(deliveries[0]));
  first.open();
  CHECK(eventually([&] { return since(deliveries[1]); }, kPatience));
  second.open();
  handlers.close();
}

}  // namespace
}  // namespace delayqueue
