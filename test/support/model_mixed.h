// Random moves of ours and of a Go worker on one queue. Looser than Play: what Go does early, twice or to what it does
// not hold is its own affair; but nothing may be lost, unless Go gave it up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <delayqueue/inspector.h>

#include "support/go_moves.h"
#include "support/model_moves.h"

namespace test::model {

class Mixed {
 public:
  // search_lists: see Store.
  Mixed(std::uint64_t seed, delayqueue::redis::Connection& connection, std::size_t search_lists);

  // One random move, or everything to its end, by us alone. Throws Mismatch.
  void step();
  void drain();

  const std::vector<std::string>& log() const { return log_; }

 private:
  using Ids = std::vector<std::string>;

  struct Message {
    bool alive = false;
    std::string end;  // how it came to be over
    std::string payload;
  };

  void we_send();
  void we_take();
  void we_settle();
  void we_reclaim();
  void we_tidy();
  void we_manage();
  void go_send();
  void go_take();
  void go_settle();
  void go_reclaim();
  void go_collects_garbage();
  void go_intercepts();
  void check_repairs();
  void pending2ready();
  void rewind();

  void take(const delayqueue::store::TakeLimits& places);
  void remove(const std::vector<Hold>& holds);
  void gc(const Ids& ids);
  void sweep();
  void cancel(const std::string& id);
  void check_promise(const std::string& id, bool will_be_delivered);
  void purge(bool list, bool first);
  void place_orphans();
  void finish_round();

  template <class Add>
  auto ask(Add add);
  void look();
  void check(const std::string& id, const Message& message) const;
  void over(const std::string& id, const std::string& how);
  std::string any_id();

  const std::string queue_;
  delayqueue::Inspector inspector_;
  Random random_;
  delayqueue::redis::Connection& connection_;
  const delayqueue::store::Store store_;
  GoWorker go_;
  std::map<std::string, Message> messages_;
  Ids ids_;
  std::vector<Hold> holds_;  // what our consumers hold, or believe to hold
  Ids go_holds_;             // what Go workers hold, or believe to hold
  Ids go_garbage_;           // what they are about to delete
  Dump dump_;
  std::vector<std::string> log_;
};

}  // namespace test::model
