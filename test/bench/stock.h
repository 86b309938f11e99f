// Very many messages of one queue, and fast scripts that move all of them from one state to another. The keys are as
// the library's own moves leave them.
#pragma once

#include "bench/server.h"
#include "store/keys.h"

namespace bench {

class Stock {
 public:
  // Makes `count` pending messages that have long been due.
  Stock(Server& server, const delayqueue::store::Keys& keys, std::size_t count);

  const std::vector<std::string>& ids() const { return ids_; }

  void keep_pending();  // copies the pending messages
  void pending_to_ready();
  void pending_to_unack();  // with leases that ended at their due times
  void unack_to_pending();  // also the ids in retry
  void restore_pending();   // from the copy; empties ready and unack

  std::size_t size(const std::string& state);

 private:
  std::string copy() const { return keys_.base + ":copy"; }
  void call(const char* script, const std::string& from, const std::string& to);

  Server& server_;
  const delayqueue::store::Keys keys_;
  const std::vector<std::string> ids_;
};

}  // namespace bench
