// Sends messages to one queue; cancels and reschedules them by id.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/options.h>
#include <delayqueue/owned.h>

#include <future>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {

// The state of a message. See the picture in the README.
enum class State {
  unknown,  // not in the queue: never sent, done, or cancelled
  pending,  // waits for its due time
  ready,    // due; waits for a consumer
  unack,    // in flight (leased to a consumer), or waits for the end of the backoff after a nack
  retry,    // a delivery failed; waits for a consumer
  dead,     // a dead letter: out of retries, rejected or killed; kept with its reason
};

// The name of the state: "pending", "ready" ...
DELAYQUEUE_EXPORT const char* to_string(State state);

struct Sent {
  std::string id{};
  bool created = false;  // false: nothing was stored; a message with this id exists, or see `cancelled`
  // True (and `created` false): the message with this id was cancelled while a consumer holds it. Nothing was stored.
  // Send again after that delivery has ended, or with another id.
  bool cancelled = false;
};

// One message of a batch in which every message has its own options.
struct Draft {
  std::string payload{};
  SendOptions options{};
};

enum class Moved {
  moved,    // it is pending now, with the new due time
  refused,  // a consumer holds it, or it is a dead letter (see Inspector::redrive)
  unknown,  // no such message
};

// Any number of threads may use one Producer. All calls share one connection, and concurrent sends share round trips.
// The first call connects, so a Producer can be constructed while the server is away. After a broken connection the
// next call connects again.
//
// After a fork() the child process must make its own Producers, Consumers and Inspectors. In the child every call to
// one of the parent's throws std::logic_error; its destructor returns at once, sends nothing and leaves the parent's
// connections alone. A call to an object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT Producer {
 public:
  // url: redis://[user:password@]host[:port][/db], unix:///path/to/socket[?db=n],
  // redis+sentinel://[user:password@]host[:port],host.../master[/db] or
  // redis+cluster://[user:password@]host[:port],host... (the TCP ones also with rediss, for TLS), embedded: or
  // embedded:/folder (see private_server.h). Throws std::invalid_argument that names what is wrong: the part of the
  // URL, the queue or the option.
  Producer(const std::string& url, const std::string& queue, ProducerOptions options = {});
  ~Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Stores the message: any bytes, at most ProducerOptions::max_payload of them. On return Redis has all of it; it is
  // delivered at least once, not before its due time. Throws std::invalid_argument, SetupError (an embedded server
  // cannot be started), ReplyError (nothing was stored), or ConnectionError (unknown whether it was stored: send again
  // with SendOptions::id set to ids().front(); that makes no second message).
  Sent send(std::string_view payload, const SendOptions& options = {});

  // Sends many messages. The first two overloads send all with the same options; an id is refused there, because every
  // message needs its own. The messages go in atomic steps of at most 200 messages or 256 KiB. The results are in the
  // order of the messages. After a ReplyError or ConnectionError some steps may be stored, each whole; the ids() of a
  // ConnectionError are those of all messages, in order.
  std::vector<Sent> send_batch(const std::vector<std::string>& payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(std::initializer_list<std::string_view> payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(const std::vector<Draft>& messages);

  // Like send(), but does not wait for Redis: the future has the result or the error of the send. Invalid arguments
  // throw std::invalid_argument at once. The messages of one calling thread are sent in the order of its calls. Blocks
  // while 10,000 messages, or 16 MiB of payloads, wait for their answers. The first call starts the thread that sends
  // them; on_event for these messages is called in it, and may call send_async, which does not block there. The
  // destructor returns when all futures are ready.
  std::future<Sent> send_async(std::string payload, const SendOptions& options = {});

  // Cancels the message and returns the state it was in. pending, ready, retry (also during a backoff), dead: it is
  // removed and will not be delivered. unack: a consumer holds it; this delivery may still succeed, but there will be
  // no other. unknown: no such message; or an earlier call, whose answer was lost or which was not durable in time,
  // has cancelled it.
  State cancel(std::string_view id);

  // Gives a message that no consumer holds another due time; it is pending then. Its retries stay as they are. A TTL
  // is moved by as much as the due time.
  Moved reschedule(std::string_view id, const RescheduleOptions& when);

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
