// Takes due messages out of one queue and hands them to a handler.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/message.h>
#include <delayqueue/options.h>
#include <delayqueue/owned.h>

#include <cstdint>
#include <memory>
#include <string>

namespace delayqueue {

// How a consumer fares since it was made. For metrics.
struct ConsumerStats {
  std::uint64_t delivered = 0;  // handed to the handler
  std::uint64_t acked = 0;      // settled as done
  std::uint64_t nacked = 0;     // settled as not done: nacks and rejects
  std::uint64_t snoozed = 0;
  std::uint64_t stale = 0;        // settled too late: another has it, or it is gone
  std::uint64_t expired = 0;      // taken, but the body was gone
  std::uint64_t foreign = 0;      // taken, but the id was no UUID: written by another program, and removed unseen
  std::uint64_t unconfirmed = 0;  // settled, but not as durable as asked for within the time
  std::uint64_t connects = 0;     // connections made
  std::uint64_t errors = 0;       // connections lost, or refused, and answers that were errors
  bool connected = false;         // started, and what was last asked of Redis was answered without an error
  std::string last_error{};       // what the last of `errors` said, with advice; stays when it is over
};

// At least once: a message is delivered again whenever its delivery was not settled: the handler said nack or threw,
// the process died, the lease ended. So a handler must bear being called twice with the same id.
//
// While the process lives, leases of all messages in hand are renewed. The handler runs in `concurrency` threads at a
// time; everything else in one thread of the consumer's own. A Redis that goes away is reported to the logger and
// waited for, with pauses of up to a second (5 s while it refuses the password or a right); handlers go on, and what
// they said is settled when Redis is back. While it lasts the logger gets a warning each minute.
class DELAYQUEUE_EXPORT Consumer {
 public:
  // url as in producer.h. Nothing is sent before start() or run(). Throws std::invalid_argument.
  Consumer(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options = {});

  // Stops (see stop) with a deadline of 30 s, and then waits for handlers still running, however long: their code must
  // not outlive the consumer. Call stop() first to choose the deadline. Destroyed by its own handler or callback it
  // returns at once, and all this is done by another thread.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Connects and begins to deliver. Waits at most 500 ms for the server; one that is not there yet, or does not answer
  // by then, is waited for in the background. Throws what no other try can cure, if that shows within these 500 ms:
  // ReplyError or std::invalid_argument if the server refuses (password, version, keys of a wrong type) or an option
  // cannot be used (a file of TLS), SetupError if an embedded server cannot be started here. What is refused later goes
  // to the logger, and is tried again. A consumer starts once.
  void start();

  // start(), and waits until stop() was called by another thread (or a handler) and has done its work.
  void run();

  // Takes nothing new, gives back at once what was not started, lets running handlers finish until the deadline,
  // settles them, and returns. False if a handler did not end or Redis could not be told: those messages keep their
  // lease until it runs out and are then delivered again. Returns by the deadline even if the server, a Sentinel or a
  // look-up of a name never answers. May be called from any thread and again; from a handler or
  // a callback it only asks, and returns false. Not from a signal handler: wait for signals in a thread of your own.
  bool stop(milliseconds deadline = std::chrono::seconds(30));

  ConsumerStats stats() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
