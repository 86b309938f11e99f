// The commands that a worker of the Go library HDT3213/delayqueue sends to a queue, including that library's defects.
// Each function does what the library does in one round trip. It uses Redis' clock where the library uses its own.
#pragma once

#include "store/keys.h"
#include "support/standard.h"

namespace test {

class GoWorker {
 public:
  using Ids = std::vector<std::string>;

  explicit GoWorker(delayqueue::store::Keys keys) : keys_(std::move(keys)) {}

  // Sends three commands: stores the body with a TTL of the delay plus one hour, stores the retry count, adds the id.
  void send(const std::string& id, const std::string& payload, long long delay_s, int retries);

  void pending2ready();

  // Takes the next id from ready or retry. Does not check that the message still exists.
  std::optional<std::string> take(bool from_retry, long long lease_s);
  std::optional<std::string> body(const std::string& id);

  // Settles the message without checking who holds it.
  void ack(const std::string& id);
  void nack(const std::string& id, long long delay_s);  // adds the id to unack if it is not there

  // Returns {retried, given up}. The Go library has no dead letters.
  std::pair<Ids, Ids> unack2retry();

  // Reads the garbage ids now and deletes them later, without checking them again.
  Ids read_garbage();
  void delete_garbage(const Ids& ids);

  void intercept(const std::string& id);

 private:
  long long now() const;

  const delayqueue::store::Keys keys_;
};

}  // namespace test
