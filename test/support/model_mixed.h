// Random moves of this library and of a Go worker on one queue. The checks are weaker than those of Play: Go may
// deliver early or twice, and settle what it does not hold. But no message may be lost unless Go gave it up.
#pragma once

#include "support/go_moves.h"
#include "support/model_moves.h"

namespace test::model {

class Mixed {
 public:
  // search_lists: see Moves::Options.
  Mixed(std::uint64_t seed, delayqueue::redis::Connection& connection, std::size_t search_lists);

  // step: one random move. drain: brings all messages to their end with this library's moves alone. Throw Mismatch.
  void step();
  void drain();

  const std::vector<std::string>& log() const { return log_; }

 private:
  using Ids = std::vector<std::string>;

  struct Message {
    bool alive = false;
    std::string end;  // how it ended
    std::string payload;
  };

  void we_send();
  void we_take();
  void we_settle();
  void we_reclaim();
  void we_collect_garbage();
  void we_manage();
  void go_send();
  void go_take();
  void go_settle();
  void go_reclaim();
  void go_collects_garbage();
  void go_intercepts();
  void check_repairs();
  void pending2ready();
  void pending2unack();
  void rewind();

  void take(const delayqueue::store::TakeLimits& limits);
  void hold(const delayqueue::store::Taken& taken);
  void remove(const std::vector<Hold>& holds);
  void gc(const Ids& ids);
  void delete_orphaned_metadata();
  void cancel(const std::string& id);
  void check_promise(const std::string& id, bool will_be_delivered);
  void purge(bool list, bool first);
  void place_orphans();
  void finish_round();

  template <class Add>
  auto ask(Add add);
  void read_state();
  void check(const std::string& id, const Message& message) const;
  void over(const std::string& id, const std::string& how);
  std::string any_id();

  const std::string queue_;
  delayqueue::QueueAdmin admin_;
  Random random_;
  delayqueue::redis::Connection& connection_;
  const delayqueue::store::Moves moves_;
  GoWorker go_;
  std::map<std::string, Message> messages_;
  Ids ids_;
  std::vector<Hold> holds_;  // leases of our consumers, ended ones too
  Ids go_holds_;             // ids that Go workers took
  Ids go_garbage_;           // ids that a Go worker will delete
  Dump dump_;
  std::vector<std::string> log_;
};

}  // namespace test::model
