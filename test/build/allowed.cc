// Uses of the public headers that must compile: braces that are read as they are meant, and handlers of every kind.
#include <delayqueue/batch.h>
#include <delayqueue/delayqueue.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dq = delayqueue;

namespace {

const std::string kUrl = "redis://127.0.0.1:6379";
const auto kHandler = [](const dq::Message&) { return dq::ack(); };

dq::Verdict function(const dq::Message&) { return dq::ack(); }
void later(dq::Delivery delivery) { std::move(delivery).ack(); }

struct Counts {
  int calls = 0;
  dq::Verdict operator()(const dq::Message&) { return ++calls > 1 ? dq::ack() : dq::nack(); }
};

void constructors(const std::string& name, const char* data, std::string_view view, const dq::ConsumerOptions& options,
                  const std::vector<dq::Subscription>& subscriptions) {
  dq::Producer producer_1(kUrl, {"orders"}), producer_2({"redis://a"}, name), producer_3(kUrl, {name});
  dq::Producer producer_4(kUrl, {data}), producer_5(kUrl, std::string(view), {}), producer_6("redis://a", "b", {});
  dq::Inspector inspector_1(kUrl, {"orders"}), inspector_2(kUrl, name, {});
  dq::QueueAdmin admin_1(kUrl, {"orders"}), admin_2(kUrl, name, {});
  dq::Consumer consumer_1(kUrl, {"orders"}, kHandler, {}), consumer_2(kUrl, {name}, function, options);
  dq::Consumer consumer_3(kUrl, {{"orders", kHandler}, {name, later}, {{"mails"}, function, {}}}, options);
  dq::Consumer consumer_4(kUrl, {{"orders", kHandler}}), consumer_5(kUrl, subscriptions);
  dq::Consumer consumer_7(kUrl, {dq::Subscription{"orders", kHandler}, subscriptions.front()});
  dq::Subscription subscription{name, kHandler, {}};
  subscription.queue = "orders";
  subscription.queue = name;
  const std::string& queue = subscription.queue.str();
  const std::vector<std::string> names{name, "mails"};
  dq::Consumer consumer_10(kUrl, {"orders", "mails"}, kHandler), consumer_11(kUrl, names, later, options);
  dq::Consumer consumer_12(kUrl, {{"orders", "mails"}}, kHandler), consumer_13(kUrl, {name, "mails", view}, function);
  dq::Inspector inspector_3(kUrl, dq::QueueName::of_existing(name));
#if __cplusplus >= 202002L
  dq::Consumer consumer_8(kUrl, "orders", kHandler, {.concurrency = 4});
  dq::Consumer consumer_9(kUrl, {{.queue = "orders", .handler = kHandler, .options = {.weight = 3}}, {name, later}});
  dq::Producer producer_7(kUrl, "orders", {.retries = 0});
#endif
}

void clients(const char* text, const std::string& url, const dq::ClientOptions& options) {
  dq::Client client_1(text), client_2(url), client_3 = "redis://a", client_4 = url, client_5(url, options);
  client_1 = client_2.with_keys({});
  client_1 = "redis://b";
  dq::Producer producer_1(client_1, "orders"), producer_2({url, options}, "orders"), producer_3({text}, "orders");
  dq::Inspector inspector_1(client_1, "orders"), inspector_2({text, options}, "orders", {});
  dq::QueueAdmin admin_1(client_1.with_keys(client_1.keys()), "orders");
  dq::Consumer consumer_1({url, options}, "orders", kHandler), consumer_2({url, options}, {{"orders", kHandler}});
  (void)dq::server_info("redis://a");
  (void)dq::load_scripts({url, options});
#if __cplusplus >= 202002L
  dq::Client client_6(url, {.user = "ann", .keys = {.prefix = "shop"}});
  dq::Producer producer_4({url, {.password = "pw"}}, "orders", {.retries = 0});
  client_1 = client_6.with_keys({.prefix = "tenant7"});
#endif
}

struct Owner {  // movable only
  dq::Verdict operator()(const dq::Message&) const { return dq::ack(); }
  std::unique_ptr<int> owned{};
};

struct OfBoth {
  dq::Verdict operator()(const dq::Message&) const { return dq::ack(); }
  void operator()(dq::Delivery) const {}
};

// Constructible from a null pointer, but not comparable to one: it is never empty.
struct WithPointer {
  explicit WithPointer(int* number) : number_(number) {}
  void operator()(dq::Delivery&&) const& noexcept {}
  int* number_;
};

void handlers(const dq::Handler& handler, const std::function<void(dq::Delivery)>& settles_later, Counts& counts) {
  dq::Consumer consumer_1(kUrl, "orders", function), consumer_2(kUrl, "orders", later);
  dq::Consumer consumer_3(kUrl, "orders", handler), consumer_4(kUrl, "orders", settles_later);
  dq::Consumer consumer_5(kUrl, "orders", std::ref(counts)), consumer_6(kUrl, "orders", Counts());
  dq::Consumer consumer_7(kUrl, "orders", [](const auto&) { return dq::ack(); });
  dq::Consumer consumer_8(kUrl, "orders", [](auto) { return dq::ack(); });
  dq::Consumer consumer_9(kUrl, "orders", [](dq::Delivery&& delivery) { std::move(delivery).nack(); });
  dq::Consumer consumer_10(kUrl, "orders", [](const dq::Message&) mutable { return dq::ack(); });
  dq::Consumer consumer_11(kUrl, "orders", Owner()), consumer_12(kUrl, "orders", OfBoth());
  dq::Consumer consumer_13(kUrl, {{"orders", [](const auto&) { return dq::ack(); }}, {"mails", handler}});
  dq::Consumer consumer_14(kUrl, "orders", dq::in_batches([](const dq::MessageBatch& batch) {
                             return std::vector<dq::Verdict>(batch.size(), dq::ack());
                           }));
  const auto both = [](const auto&) { return dq::reject(); };
  dq::Consumer consumer_15(kUrl, "orders", both), consumer_16(kUrl, {{"orders", both}});
  auto pointer = std::make_unique<dq::Consumer>(kUrl, "orders", kHandler);
  dq::Consumer consumer_17(kUrl, "orders", [own = std::make_unique<int>(1)](dq::Delivery delivery) {
    std::move(delivery).nack(std::to_string(*own));
  });
  dq::Consumer consumer_18(kUrl, {{"orders", Owner()}, {"mails", &later}, {"sms", std::ref(counts)}});
  dq::Consumer consumer_19(kUrl, "orders", std::bind(function, std::placeholders::_1));
  dq::Consumer consumer_20(kUrl, "orders", std::bind(later, std::placeholders::_1));
  dq::Consumer consumer_21(kUrl, "orders", WithPointer(nullptr));
  dq::Consumer consumer_22(kUrl, "orders",
                           [](dq::Message) mutable noexcept { return dq::snooze(dq::milliseconds(1)); });
  const dq::Handler first = later, copied = first, of_both = OfBoth();
  dq::Handler assigned = function;
  assigned = copied;
  assigned = function;
}

void messages(dq::Producer& producer, dq::Inspector& inspector, dq::QueueAdmin& admin, const std::string& id,
              const char* data, std::size_t size, std::string_view view, const std::vector<std::string>& ids) {
  producer.send({"a"});
  producer.send({data, size});
  producer.send({"a"}, {});
  producer.send_batch({"a", "b"});
  producer.send_batch({{"a"}, {"b"}});
  producer.send_batch({{"a", {}}, {"b", {}}});
  producer.send_batch({{data, size}, {data, 3}});
  producer.send_batch({id, "b", view}, {});
  producer.send_batch({{id, dq::SendOptions()}});
  producer.send_batch(ids);
  (void)producer.send_async({"a"});
  (void)producer.send_async({data, size}, {});
  producer.send_async("a", {}, [](const dq::AsyncSent& result) { (void)result.get(); });
  (void)producer.try_send_async("a", {}, [](const dq::AsyncSent&) {});
  (void)producer.cancel({id});
  (void)producer.cancel(view);
  (void)producer.cancel(data);
  (void)inspector.find("a");
  (void)inspector.find(id);
  (void)inspector.find_all({"a", "b"});
  (void)inspector.find_all({id, "b"}, 10);
  (void)inspector.find_all(ids);
  (void)admin.cancel("a");
  (void)admin.cancel(id);
  (void)admin.cancel(dq::MessageRef(id));
  (void)admin.cancel({"a"});
  (void)admin.cancel({"a", "b"});
  (void)admin.cancel({{"a", "b"}});
  (void)admin.cancel({id, id});
  (void)admin.cancel({});
  (void)admin.redrive(ids);
  (void)admin.purge_ids(dq::State::dead, {id});
  dq::Headers headers{{"a", "b"}, {"c", id}, {"d", {data, size}}};
  const dq::Headers one{{"a", "b"}}, two({{"a", "b"}, {"c", "d"}}), copy = {{"a", "b"}}, none{}, nothing = {};
  headers.set("a", {data, size});
  dq::SendOptions options;
  options.headers = {{"a", "b"}};
}

// What programs look like: see also the files in examples, and the README.
struct Mails {  // a member function, a member that is movable only
  std::unique_ptr<int> connection = std::make_unique<int>(1);
  dq::Verdict operator()(const dq::Message& message) { return message.attempt() > 3 ? dq::reject("late") : dq::ack(); }
};

void service(const dq::Client& redis, dq::Sender& sender, const std::exception_ptr& away) {
  using namespace std::chrono_literals;
  dq::ClientOptions rotating;
  rotating.credentials = [] {
    dq::Credentials now;
    now.user = "app";
    now.expires = std::chrono::system_clock::now() + 15min;
    return now;
  };
  rotating.keys.go.bodies_under_dp = true;
  const dq::Client iam("rediss://cache:6379", rotating), tenant = iam.with_keys(redis.keys());
  iam.check();
  dq::Producer in_place({"redis://x", rotating}, "orders"), from_env(std::getenv("REDIS_URL"), "orders");
  dq::Producer moved = std::move(in_place);
  in_place = std::move(moved);
  static dq::Producer forever(tenant, "orders");

  const std::array<std::string_view, 2> views{"a", "b"};
  sender.send_batch(views);
  sender.send_batch(std::list<std::string_view>{"a"});
  sender.send_batch(std::deque<const char*>{"a"});
  sender.send_batch(std::vector<dq::OutgoingMessage>{{"a", {}}});
  std::string body = "x";
  if (!sender.try_send_async(std::move(body), {}, [](const auto& sent) { (void)sent.id(); })) body.clear();
  sender.send_async("x", {}, [](const dq::AsyncSent& sent) {
    if (!sent) std::abort();
  });
  (void)sender.flush(5s);
  switch (sender.cancel("0197")) {
    case dq::State::pending:
    default:
      break;
  }
  if (sender.reschedule("0197", {5min, {}}) != dq::Outcome::done) std::abort();
  try {
    if (away) std::rethrow_exception(away);
  } catch (const dq::ConnectionError& error) {
    if (!error.not_sent()) (void)error.ids().front();
  }

  dq::ConsumerOptions options;
  options.backoff = [](int attempt) { return dq::milliseconds(1000 * attempt); };
  options.middleware = [](const dq::Message&, const dq::NextHandler& next) { return next(); };
  options.tuning.prefetch = 0;
  dq::SubscriptionOptions six;
  six.weight = 6;
  dq::Consumer several(redis, {{"orders", function, six}, {"mails", Mails()}, {"chat", later}}, options);
  const int status = several.run(dq::StopSignals().timeout(10s)) ? 0 : 1;
  (void)status;
  several.run(dq::StopSignals({2, 15}));
  dq::Consumer pooled(redis, "orders", [](dq::Delivery delivery) {
    const std::function<void()> task = [own = std::move(delivery).share()] { std::move(*own).ack(); };
    task();
  });
#if __cplusplus >= 202002L
  dq::Consumer weights(redis, {{"orders", function, {.weight = 6}}, {"mails", Mails(), {.concurrency = 4}}},
                       {.concurrency = 32, .backoff = dq::Backoff::fixed(5s), .strict_priority = true});
  dq::Consumer tuned(redis, "orders", function, {.tuning = {.threads = 2, .poll_interval = 500ms}});
  dq::Producer durable(redis, "orders", {.durability = dq::Durability::replicas(1), .send_timeout = 500ms});
  sender.send("x", {.at = std::chrono::system_clock::now() + 1h, .headers = {{"content-type", "text/plain"}}});
  sender.send_batch({"a", "b"}, {.delay = 1s});
  sender.send_batch({{"a", {.delay = 1s}}, {"b", {}}});
#endif
}

void operators(const dq::Client& redis) {
  using namespace std::chrono_literals;
  dq::Inspector look(redis, "orders");
  dq::ListOptions options;
  do {
    const dq::MessagePage page = look.list(dq::State::dead, options);
    for (const dq::MessageInfo& message : page) (void)message.reason;
    options.cursor = page.next;
  } while (!options.cursor.empty());
  dq::QueueAdmin admin(redis, "orders");
  for (const dq::Outcome outcome : admin.redrive({"a", "b"})) (void)dq::to_string(outcome);
  (void)admin.check();
#if __cplusplus >= 202002L
  (void)admin.redrive({"a", "b"}, {.retries = 5});
  (void)admin.bury({"a"}, {.reason = "x", .held = dq::HeldMessages::force});
  admin.pause({.duration = 1h, .reason = "deploy"});
  (void)admin.check({.repair = true});
#endif
}

}  // namespace
