// A producer that keeps sending through faults.
#pragma once

#include "support/standard.h"

namespace test {

// Sends one message after the other in its own thread until stop(). After a ConnectionError it sends the same id again.
class Sender {
 public:
  Sender(const std::string& url, const std::string& queue, delayqueue::Durability durability = {})
      : producer_(url, queue, options(durability)), thread_([this] { run(); }) {}
  ~Sender() {
    abandoned_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::size_t stop() {
    stopped_ = true;
    thread_.join();
    return sent_;
  }

  std::size_t sent() const { return sent_; }

 private:
  static delayqueue::ProducerOptions options(delayqueue::Durability durability) {
    delayqueue::ProducerOptions options;
    options.durability = durability;
    options.send_timeout = std::chrono::milliseconds(0);  // it repeats its sends
    return options;
  }

  void run() {
    delayqueue::SendOptions again;
    while (!abandoned_ && (!stopped_ || !again.id.empty())) {
      try {
        producer_.send(std::to_string(sent_), again);
        ++sent_;
        again.id.clear();
      } catch (const delayqueue::ConnectionError& e) {
        if (!e.ids().empty()) again.id = e.ids().front();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }

  delayqueue::Producer producer_;
  std::atomic<std::size_t> sent_{0};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> abandoned_{false};  // the test has failed
  std::thread thread_;
};

}  // namespace test
