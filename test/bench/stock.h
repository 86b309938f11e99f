// Very many messages of one queue, and raw moves of all of them from one state to the next: as the library's own would
// leave them, but quick.
#pragma once

#include <string>
#include <vector>

#include "bench/server.h"
#include "store/keys.h"

namespace bench {

class Stock {
 public:
  // pending, and due long ago.
  Stock(Server& server, const delayqueue::store::Keys& keys, std::size_t count);

  const std::vector<std::string>& ids() const { return ids_; }

  void keep_pending();  // a copy of it
  void pending_to_ready();
  void pending_to_unack();  // as if their leases had ended when they were due
  void unack_to_pending();  // and what is in retry
  void restore_pending();   // from the copy; all other states are empty then

  std::size_t size(const std::string& state);

 private:
  std::string copy() const { return keys_.base + ":copy"; }
  void call(const char* script, const std::string& from, const std::string& to);

  Server& server_;
  const delayqueue::store::Keys keys_;
  const std::vector<std::string> ids_;
};

}  // namespace bench
