// Uses of the public headers that must not compile. refused_test.sh expects an error for each line that ends in a
// comment "refused", with the text of the comment if it has one, and no other error.
#include <delayqueue/batch.h>
#include <delayqueue/delayqueue.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dq = delayqueue;

namespace {

const std::string kUrl = "redis://127.0.0.1:6379";
const auto kHandler = [](const dq::Message&) { return dq::ack(); };

void braces(dq::Producer& producer, dq::Inspector& inspector, dq::QueueAdmin& admin, const dq::Consumer& consumer,
            const dq::ConsumerOptions& options) {
  // Two texts in braces where one is expected.
  const char* const queues[] = {"orders", "mails"};
  char first[8] = "a", second[8] = "b";
  dq::Consumer consumer_1(kUrl, {"orders", "mails"});                                // refused: deleted
  dq::Consumer consumer_2(kUrl, {"orders", "mails", "sms"});                         // refused: deleted
  dq::Consumer consumer_3(kUrl, {"orders", "mails"}, options);                       // refused: deleted
  dq::Consumer consumer_4(kUrl, {"orders", kHandler});                               // refused
  dq::Consumer consumer_9(kUrl, {}, options);                                        // refused: deleted
  dq::Consumer consumer_5({"redis://a", "redis://b"}, "orders", kHandler);           // refused
  dq::Consumer consumer_6({"redis://a", "redis://b"}, {{"orders", kHandler}});       // refused
  dq::Consumer consumer_7(kUrl, queues, kHandler);                                   // refused
  dq::Consumer consumer_8(kUrl, 0, kHandler);                                        // refused: deleted
  dq::Consumer consumer_10(kUrl, {{{"orders", "mails"}, kHandler}});                 // refused
  dq::Producer producer_1(kUrl, {"orders", "mails"});                                // refused
  dq::Producer producer_3(kUrl, {first, second});                                    // refused
  dq::Producer producer_4(kUrl, {{"orders", "mails"}});                              // refused
  dq::Producer producer_5(kUrl, nullptr);                                            // refused: deleted
  dq::Producer producer_6(kUrl, "orders", "password");                               // refused
  dq::Producer producer_7("orders");                                                 // refused
  dq::Producer producer_2({"redis://a", "redis://b"}, "orders");                     // refused
  dq::Inspector inspector_1(kUrl, {"orders", "mails"});                              // refused
  dq::Inspector inspector_2({"redis://a", "redis://b"}, "orders");                   // refused
  dq::QueueAdmin admin_1(kUrl, {"orders", "mails"});                                 // refused
  dq::QueueAdmin admin_2({"redis://a", "redis://b"}, "orders");                      // refused
  const dq::Subscription subscription_1{{"orders", "mails"}, kHandler};              // refused
  const std::vector<dq::Subscription> several{{{"orders", "mails"}, kHandler, {}}};  // refused
  producer.send({"a", "b"});                                                         // refused: deleted
  producer.send({"a", "b"}, dq::SendOptions());                                      // refused: deleted
  producer.send_batch({{"a", "b"}});                                                 // refused
  producer.send_batch({{"a", "b"}, {"c", "d"}});                                     // refused
  (void)producer.send_async({"a", "b"});                                             // refused: deleted
  producer.send_async({"a", "b"}, {}, [](const dq::AsyncSent&) {});                  // refused: deleted
  dq::Sender& sender = producer;
  dq::Producer sliced(std::move(sender));                          // refused
  dq::Producer copied(producer);                                   // refused
  (void)producer.cancel({"a", "b"});                               // refused
  (void)producer.cancel({{"a", "b"}});                             // refused
  (void)producer.cancel(nullptr);                                  // refused: deleted
  (void)admin.cancel(nullptr);                                     // refused: deleted
  (void)producer.reschedule({"a", "b"}, dq::RescheduleOptions());  // refused
  (void)inspector.find({"a", "b"});                                // refused
  (void)inspector.find_everywhere({"a", "b"});                     // refused
  producer.send_batch(std::string("abc"));                         // refused
  dq::Headers headers;
  headers.set({"a", "b"}, "c");  // refused
  headers.set("a", {"b", "c"});  // refused
}

void options(dq::Producer& producer, dq::Consumer& consumer, const dq::Client& client,
             const dq::ConsumerOptions& consumer_options) {
  using namespace std::chrono_literals;
  dq::SendOptions later;
  later.delay = 5;                                           // refused
  later.delay = 1.5s;                                        // refused
  later.delay = 1500us;                                      // refused
  producer.send("a", 5s);                                    // refused
  consumer.run(15);                                          // refused
  (void)consumer.stop(15);                                   // refused
  dq::Inspector inspector("orders", client);                 // refused
  dq::Consumer without(client, "orders", consumer_options);  // refused: a function of the form
}

void clients() {
  const dq::Client client_1(nullptr);                          // refused: deleted
  const dq::Client client_2(0);                                // refused
  const dq::Client client_3({"redis://a", "redis://b"});       // refused: deleted
  dq::Producer producer_1(nullptr, "orders");                  // refused: deleted
  dq::Producer producer_2(0, "orders");                        // refused
  dq::Producer producer_3({{"redis://a", "redis://b"}}, "q");  // refused: deleted
  const dq::Client client_4 = {"redis://a", "redis://b"};      // refused
  (void)dq::server_info({"redis://a", "redis://b"});           // refused
}

struct Address {};
struct Owner {  // movable only
  dq::Verdict operator()(const dq::Message&) const { return dq::ack(); }
  std::unique_ptr<int> owned{};
};

void handlers() {
  const auto nothing = [](const dq::Message&) {};
  const auto number = [](const dq::Message&) { return 1; };
  const auto lost = [](dq::Delivery) { return dq::nack(); };
  const auto borrowed = [](const dq::Delivery&) {};
  const auto other = [](const Address&) { return dq::ack(); };
  const auto also_lost = [](dq::Delivery) { return dq::nack(); };
  const Owner owner{};
  const auto changed = [](dq::Message&) { return dq::ack(); };
  const auto two = [](const dq::Message&, int) { return dq::ack(); };
  const auto bound = [](const dq::Delivery&) { return dq::ack(); };
  const auto batch = [](const dq::MessageBatch&) {};
  dq::Consumer consumer_1(kUrl, "orders", nothing);        // refused: it must return a Verdict
  dq::Consumer consumer_2(kUrl, "orders", number);         // refused: it must return a Verdict
  dq::Consumer consumer_3(kUrl, "orders", lost);           // refused: with a Delivery it must return nothing
  dq::Consumer consumer_4(kUrl, "orders", borrowed);       // refused: it must take the Delivery by value
  dq::Consumer consumer_5(kUrl, "orders", other);          // refused: a function of the form
  dq::Consumer consumer_6(kUrl, "orders", 5);              // refused: a function of the form
  dq::Consumer consumer_7(kUrl, "orders", owner);          // refused: it cannot be copied; pass it by std::move
  dq::Consumer consumer_8(kUrl, {{"orders", also_lost}});  // refused: it must return nothing
  dq::Consumer consumer_9(kUrl, "orders", nullptr);        // refused: a function of the form
  dq::Consumer consumer_10(kUrl, "orders", changed);       // refused: a function of the form
  dq::Consumer consumer_11(kUrl, "orders", two);           // refused: a function of the form
  dq::Consumer consumer_12(kUrl, "orders", "mails");       // refused: a function of the form
  dq::Consumer consumer_13(kUrl, "orders", std::bind(bound, std::placeholders::_1));  // refused: take the Delivery
  dq::Consumer consumer_14(kUrl, "orders", {});                                       // refused
  const dq::Handler none;                                                             // refused
  const auto generic = [](const auto&) {};
  const auto future = [](const dq::Message&) { return std::future<dq::Verdict>(); };
  const auto payload = [](const std::string&) { return dq::ack(); };
  const auto without = [] { return dq::ack(); };
  dq::Consumer consumer_15(kUrl, "orders", generic);  // refused: it must return a Verdict
  dq::Consumer consumer_16(kUrl, "orders", future);   // refused: it must return a Verdict
  dq::Consumer consumer_17(kUrl, "orders", payload);  // refused: a function of the form
  dq::Consumer consumer_18(kUrl, "orders", without);  // refused: a function of the form
  dq::in_batches(batch);                              // refused: that returns a std::vector<Verdict>
}

}  // namespace
