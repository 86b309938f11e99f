// Tests of a user of the installed library.
#include <delayqueue/testing.h>

#include <iostream>

int main() {
  delayqueue::testing::RecordingSender recorder;
  recorder.send("hello");

  delayqueue::testing::Sandbox box;
  delayqueue::Producer orders(box.client(), "orders");
  delayqueue::SendOptions options;
  options.delay = std::chrono::minutes(15);
  const delayqueue::Sent sent = orders.send("hello", options);
  box.advance(options.delay);
  const auto handled = box.drain("orders", [](const delayqueue::Message&) { return delayqueue::ack(); });
  std::cout << "sent " << sent.id << '\n';
  return handled.size() == 1 && recorder.sent().size() == 1 ? 0 : 1;
}
