// What Redis may answer instead of doing its work: provoked on a real server, seen by all who use a queue, undone.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/ledger.h"

namespace test {

bool has(const std::string& text, const std::string& part);

// What a consumer tells its logger.
class Lines {
 public:
  delayqueue::Logger logger();

  // The first line that is at least so severe and holds the part; empty: none.
  std::string find(const std::string& part, delayqueue::Severity least = delayqueue::Severity::warning) const;
  std::size_t count(delayqueue::Severity least = delayqueue::Severity::warning) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<delayqueue::Severity, std::string>> lines_;
};

// A server that may be spoilt; its user "worker" (password "pw") may do everything, until a test takes it away.
struct World {
  explicit World(std::vector<std::string> arguments = {});

  std::string url() const;  // as that user
  void end_connections();   // but admin's

  delayqueue::PrivateServer server;
  Redis admin;
};

struct Trouble {
  std::string name;
  std::string error;   // what a call throws: "ConnectionError" or "ReplyError"
  std::string says;    // in its text, and in the consumer's warning
  std::string advice;  // likewise
  std::function<void(World&)> provoke;
  std::function<void(World&)> undo;
  bool refuses_reads = true;              // and not only writes
  bool ran = false;                       // what was asked meanwhile may be done afterwards
  std::chrono::milliseconds pause{1000};  // longest between attempts
};

// While a consumer has messages in hand and others wait, the trouble comes and goes. Producer and Inspector get the
// error, and what was asked was not done; the consumer warns, tries again at leisure, and when the trouble is gone
// settles what was handled meanwhile and goes on, with nothing lost and nothing delivered twice.
void see_through(const Trouble& trouble, World& world, const std::string& url);
inline void see_through(const Trouble& trouble, World& world) { see_through(trouble, world, world.url()); }

}  // namespace test
