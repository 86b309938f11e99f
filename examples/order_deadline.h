// A service that expires orders that are not paid in time: the code that order_deadline_test.cc tests.
#pragma once

#include <delayqueue/delayqueue.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

// An order has to be paid within 45 minutes. After 30 minutes the customer gets a mail. All it needs of the library is
// a Sender for each queue, so a test may give it any.
class OrderDeadline {
 public:
  enum class Order { open, paid, expired };

  static constexpr std::chrono::minutes kReminder{30}, kDeadline{45};

  // `refund`: tells the bank that it must not take the money any more; throws while the bank cannot be reached.
  OrderDeadline(delayqueue::Sender& deadlines, delayqueue::Sender& mails, std::function<void()> refund)
      : deadlines_(deadlines), mails_(mails), refund_(std::move(refund)) {}

  // The ids are made of the order, so that a call that is repeated after an error sends nothing twice.
  void placed(const std::string& order) {
    deadlines_.send(order, {.delay = kDeadline, .id = delayqueue::id_from_name("deadline of " + order)});
    mails_.send(order, {.delay = kReminder, .id = delayqueue::id_from_name("reminder of " + order)});
    orders_.emplace(order, Order::open);
  }

  // False: too late.
  bool paid(const std::string& order) {
    if (orders_.at(order) == Order::expired) return false;
    orders_[order] = Order::paid;  // a handler that runs at this moment finds it paid
    static_cast<void>(deadlines_.cancel(delayqueue::id_from_name("deadline of " + order)));
    static_cast<void>(mails_.cancel(delayqueue::id_from_name("reminder of " + order)));
    return true;
  }

  // The handlers of the two queues.
  delayqueue::Verdict expire(const delayqueue::Message& message) {
    if (orders_.at(message.payload()) != Order::open) return delayqueue::ack();
    refund_();  // an exception is a nack: it is tried again after a backoff
    orders_[message.payload()] = Order::expired;
    return delayqueue::ack();
  }
  delayqueue::Verdict remind(const delayqueue::Message& message) {
    if (orders_.at(message.payload()) == Order::open) reminded_.push_back(message.payload());
    return delayqueue::ack();
  }

  Order state(const std::string& order) const { return orders_.at(order); }
  const std::vector<std::string>& reminded() const { return reminded_; }

 private:
  delayqueue::Sender& deadlines_;
  delayqueue::Sender& mails_;
  const std::function<void()> refund_;
  std::map<std::string, Order> orders_;  // stands for a database
  std::vector<std::string> reminded_;
};
