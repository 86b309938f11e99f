// The tests of order_deadline.h.   order_deadline_test
//
// Each plays 45 minutes or more, and all together take about a second. They use no test framework: in one, `check` is
// its assertion, and each function a test case.

#include "order_deadline.h"

#include <delayqueue/testing.h>

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using delayqueue::Message;
using delayqueue::testing::RecordingSender;
using delayqueue::testing::Sandbox;
using Order = OrderDeadline::Order;

int failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  std::cerr << "  failed: " << what << '\n';
}

// The service with a private Redis. Its two queues are played together, as a Consumer serves both.
struct Shop {
  Sandbox box;
  delayqueue::Producer deadlines{box.client(), "deadlines"};
  delayqueue::Producer mails{box.client(), "mails"};
  bool bank_is_open = true;
  OrderDeadline service{deadlines, mails, [this] {
                          if (!bank_is_open) throw std::runtime_error("the bank does not answer");
                        }};
  delayqueue::testing::Handlers handlers{
      {"deadlines", [this](const Message& message) { return service.expire(message); }},
      {"mails", [this](const Message& message) { return service.remind(message); }}};
  delayqueue::ConsumerOptions options{.backoff = delayqueue::Backoff::fixed(2min)};

  std::vector<delayqueue::testing::Handled> play(std::chrono::milliseconds time) {
    return box.play(time, handlers, options);
  }
};

void unpaid_order_is_reminded_and_expires() {
  Shop shop;
  const auto began = shop.box.now();
  shop.service.placed("42");
  const auto handled = shop.play(45min);
  check(handled.size() == 2, "one mail and one deadline");
  check(handled[0].queue == "mails" && handled[0].at - began >= 30min, "the mail is sent after 30 minutes");
  check(handled[1].queue == "deadlines" && handled[1].at - began >= 45min, "the order expires after 45 minutes");
  check(shop.service.reminded() == std::vector<std::string>{"42"}, "the customer gets the mail");
  check(shop.service.state("42") == Order::expired, "the order has expired");
  check(!shop.service.paid("42"), "a payment comes too late");
}

void paid_order_does_not_expire() {
  Shop shop;
  shop.service.placed("42");
  check(shop.play(31min).size() == 1, "the mail");
  check(shop.service.paid("42"), "it is in time");
  check(shop.play(24h).empty(), "nothing follows");
  check(shop.service.state("42") == Order::paid, "the order is paid");
}

void order_expires_when_the_bank_answers_again() {
  Shop shop;
  shop.bank_is_open = false;
  shop.service.placed("42");
  check(shop.play(48min).size() == 3, "the mail, and two attempts");
  check(shop.service.state("42") == Order::open, "the order is open while the bank is closed");
  shop.bank_is_open = true;
  const auto handled = shop.play(2min);
  check(handled.size() == 1 && handled[0].attempt == 3, "the third attempt");
  check(shop.service.state("42") == Order::expired, "the order has expired");
}

void a_hundred_orders() {
  Shop shop;
  for (int i = 0; i < 100; ++i) {
    shop.service.placed(std::to_string(i));
    if (i % 2 == 0) check(shop.service.paid(std::to_string(i)), "it is in time");
    shop.box.advance(15s);
  }
  shop.play(45min);
  for (int i = 0; i < 100; ++i) {
    const Order expected = i % 2 == 0 ? Order::paid : Order::expired;
    check(shop.service.state(std::to_string(i)) == expected, "order " + std::to_string(i));
  }
}

// Needs no Redis.
void order_is_placed_once_if_the_call_is_repeated() {
  RecordingSender deadlines, mails;
  OrderDeadline service(deadlines, mails, [] {});
  mails.fail_next(delayqueue::ConnectionError("Redis is away"));
  try {
    service.placed("42");
    check(false, "the error reaches the caller");
  } catch (const delayqueue::ConnectionError&) {
  }
  service.placed("42");
  check(deadlines.sent().size() == 1 && mails.sent().size() == 1, "nothing is sent twice");
  check(deadlines.sent()[0].options.delay == 45min, "the deadline is 45 minutes");
}

}  // namespace

int main() {
  const std::pair<const char*, void (*)()> tests[] = {
      {"an unpaid order is reminded and expires", unpaid_order_is_reminded_and_expires},
      {"a paid order does not expire", paid_order_does_not_expire},
      {"an order expires when the bank answers again", order_expires_when_the_bank_answers_again},
      {"a hundred orders in half an hour", a_hundred_orders},
      {"an order is placed once if the call is repeated", order_is_placed_once_if_the_call_is_repeated},
  };
  for (const auto& [name, test] : tests) {
    const auto began = std::chrono::steady_clock::now();
    try {
      test();
    } catch (const std::exception& e) {
      check(false, std::string("threw: ") + e.what());
    }
    const auto took = std::chrono::steady_clock::now() - began;
    std::cout << name << ": " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms\n";
  }
  if (failures == 0) std::cout << "all passed\n";
  return failures == 0 ? 0 : 1;
}
