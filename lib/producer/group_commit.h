// Messages of many threads on their way over one connection: what waits together goes together.
//
// A thread that finds nobody sending sends: its own messages and those of all who wait. Those who come meanwhile wait,
// and one of them is the next. So a lone send is one round trip in its own thread, many threads share round trips and
// script calls, and no timer is needed for that.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

namespace delayqueue {

struct Outgoing {
  std::string_view payload;
  const store::SendTerms* terms = nullptr;
};

// The messages of one send, and what became of them. It is cut into steps, each all or nothing: alike in terms, at most
// 200 messages or 256 KiB (but for a larger single one). Steps of several parcels may share a script call.
struct Parcel {
  std::vector<Outgoing> messages;
  std::vector<Sent> sent;      // one of each message; their ids are to be given
  std::exception_ptr error{};  // what the first step that failed met with; those behind it may not have been sent

  // Throws what the sender is to see of `error`, if there is one: a ConnectionError has the ids.
  void check() const;

  // Of the Outbox.
  struct Call* call = nullptr;
  std::size_t loaded = 0;  // messages that are in flights, or were
  std::size_t on_way = 0;  // steps that are not answered yet
};

class Outbox {
 public:
  explicit Outbox(Session& session) : session_(session) {}
  ~Outbox();

  // Any thread. Returns when all have been sent or have failed. Whoever waits has its turn, so that a large parcel does
  // not keep others waiting; parcels of one call keep their order if they are of one step each.
  void send(std::vector<Parcel>& parcels);

 private:
  struct Flight;

  void lead(Call& call);
  void wake_done();
  static void wake(Call* done);
  void fly(Call& call, redis::Connection& connection, std::deque<Flight>& flights);
  bool load(Flight& flight, const Call& call);
  bool add_step(Flight& flight, Parcel& parcel);
  void launch(Flight& flight, redis::Connection& connection) const;
  void land(Flight& flight, redis::Connection& connection);
  void fail(const std::deque<Flight>& flights);
  void fail_all_who_wait();
  void announce_first(redis::Connection& connection);
  void finish_step(Parcel& parcel, const std::exception_ptr& error);
  void finish(Parcel& parcel);

  Session& session_;
  std::mutex mutex_;             // guards all below, and the Outbox' part of parcels
  bool led_ = false;             // a thread is sending
  std::deque<Parcel*> waiting_;  // those with messages to load
  std::uint64_t flights_ = 0;    // so far
  bool first_ = false;           // something was sent to a queue that may not be known
  Call* done_ = nullptr;         // those to be woken
};

}  // namespace delayqueue
