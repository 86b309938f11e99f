// What a worker of the Go library HDT3213/delayqueue does to a queue, its defects included. Each call is what that
// library does in one go; its clock is Redis'.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/keys.h"

namespace test {

class GoWorker {
 public:
  using Ids = std::vector<std::string>;

  explicit GoWorker(delayqueue::store::Keys keys) : keys_(std::move(keys)) {}

  // Three commands: body with a TTL of the delay and an hour, count, place.
  void send(const std::string& id, const std::string& payload, long long delay_s, int retries);

  void pending2ready();

  // The next of ready, or of retry: no look at whether the id still counts.
  std::optional<std::string> take(bool from_retry, long long lease_s);
  std::optional<std::string> body(const std::string& id);

  // Whoever has the message by now.
  void ack(const std::string& id);
  void nack(const std::string& id, long long delay_s);  // adds the id to unack when it is not there

  // {retried, given up}. Knows no dead letters.
  std::pair<Ids, Ids> unack2retry();

  // Garbage is read first and deleted later, whatever it has become.
  Ids read_garbage();
  void delete_garbage(const Ids& ids);

  void intercept(const std::string& id);

 private:
  long long now() const;

  const delayqueue::store::Keys keys_;
};

}  // namespace test
