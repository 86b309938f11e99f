// Takes due messages out of one queue and calls a handler for each.
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

// Counts since the consumer was constructed. For metrics and health checks.
struct ConsumerStats {
  std::uint64_t delivered = 0;  // passed to the worker threads; stop() may give some back before their handler begins
  std::uint64_t acked = 0;      // settled as done
  std::uint64_t nacked = 0;     // settled as not done: nacks, exceptions and rejects
  std::uint64_t snoozed = 0;
  std::uint64_t stale = 0;        // verdicts that came too late: another consumer has the message, or it is gone
  std::uint64_t expired = 0;      // taken, but the payload was gone (TTL, eviction); not delivered
  std::uint64_t foreign = 0;      // taken, but the id was no UUID (another program wrote it); removed, not delivered
  std::uint64_t unconfirmed = 0;  // settled, but not as durable as `durability` asks within its timeout
  std::uint64_t connects = 0;     // connections made
  std::uint64_t errors = 0;       // connections lost or refused, and error answers
  bool connected = false;         // started, and Redis answered the last request without an error
  std::string last_error{};       // text of the last of `errors`, with advice; stays after recovery
};

// Delivers at least once: a message is delivered again after a nack, an exception of the handler, the death of the
// process or the end of the lease, until its retries are spent. So a handler must tolerate a second call with the same
// id.
//
// While the process lives, the consumer renews the leases of all messages it holds. It calls the handler in
// `concurrency` threads, and does all else in a thread of its own. When Redis is away, the consumer warns the logger
// (once, then each minute) and connects again after pauses of up to a second (5 s while Redis refuses the password or a
// right). Meanwhile handlers go on; their verdicts are settled when Redis is back.
//
// After a fork() the child process must make its own Consumers: those of its parent are unusable there, see Producer.
class DELAYQUEUE_EXPORT Consumer {
 public:
  // url as in producer.h. Does not connect before start() or run(). Throws std::invalid_argument.
  Consumer(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options = {});

  // Calls stop() with a deadline of 30 s, then waits for all running handlers, however long they take: their code must
  // not outlive the consumer. Call stop() first to choose the deadline. Called in the consumer's own handler or
  // callback, the destructor returns at once, and another thread does all this.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Connects and begins to deliver. Waits at most 500 ms for the server, then returns and goes on connecting in the
  // background, so it throws no ConnectionError. Throws an error that a retry cannot cure, if it shows within 500 ms:
  // ReplyError if the server refuses (password, version, keys of a wrong type), std::invalid_argument if an option
  // cannot be used (a TLS file), SetupError if an embedded server cannot be started. Later refusals go to the logger
  // and are retried. So is what can be cured on the server while this process runs: a certificate that is not valid, or
  // a port with another protocol (without TLS for a rediss URL, with TLS for a redis URL, or no Redis at all). After
  // an exception start() may be called again. A second start(), or one after stop(), throws std::logic_error.
  void start();

  // Calls start(), and returns after another thread, or a handler, has called stop() and the consumer has stopped.
  void run();

  // Takes no more messages, gives those back whose handler has not begun (spends no retry), waits for running handlers
  // until the deadline, settles their verdicts, and returns true. Returns false if a handler was still running or a
  // verdict did not reach Redis: these messages are delivered again when their lease ends. Returns by the deadline even
  // if the server, a Sentinel or a name look-up never answers. May be called from any thread, and repeatedly; in a
  // handler or callback it only requests the stop, and returns false. Do not call it in a signal handler: wait for
  // signals in a thread (sigwait), as examples/work.cc does.
  bool stop(milliseconds deadline = std::chrono::seconds(30));

  ConsumerStats stats() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
