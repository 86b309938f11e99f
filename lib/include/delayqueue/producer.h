// Sends messages to one queue, and takes back or moves what was sent.
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

// Where a message is in its life. See the picture in the README.
enum class State {
  unknown,  // not in the queue: never sent, done, or cancelled
  pending,  // waits for its due time
  ready,    // due; waits for a consumer
  unack,    // held by a consumer, or waiting out the backoff after a nack
  retry,    // a delivery failed; waits for a consumer
  dead,     // given up; kept to be looked at
};

// "pending", "ready" ...
DELAYQUEUE_EXPORT const char* to_string(State state);

struct Sent {
  std::string id{};
  bool created = false;  // false: a message with this id is there already and was left as it is
  // Not created, for the message with this id was cancelled while a consumer has it. It will not be delivered again:
  // nothing was stored. Send it again when that delivery is over, or with another id.
  bool cancelled = false;
};

// One message of a batch whose members differ.
struct Draft {
  std::string payload{};
  SendOptions options{};
};

enum class Moved {
  moved,    // it now waits for the new time
  refused,  // a consumer holds it, or it is dead (see Inspector::redrive)
  unknown,  // no such message
};

// Any number of threads may use one Producer; calls share one connection, and sends that are under way at the same time
// share round trips. Nothing is sent before the first call, so a
// Producer can be made while the server is away. A broken connection is made anew by the next call.
//
// After a fork() the child process makes its own Producers, Consumers and Inspectors. Every call to one of its parent's
// throws std::logic_error; their destructors return at once, send nothing and leave the parent's connections alone. A
// call to one that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT Producer {
 public:
  // url: redis://[user:password@]host[:port][/db], unix:///path/to/socket[?db=n],
  // redis+sentinel://[user:password@]host[:port],host.../master[/db], redis+cluster://[user:password@]host[:port],host...
  // (each with rediss for TLS), embedded: or embedded:/folder (see private_server.h). Throws std::invalid_argument.
  Producer(const std::string& url, const std::string& queue, ProducerOptions options = {});
  ~Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Stores the message. On return Redis has it, whole; it will be delivered at least once, not before its time.
  // Throws std::invalid_argument, ReplyError (nothing was stored), or ConnectionError (unknown; ids() holds the id:
  // send again with it).
  Sent send(std::string_view payload, const SendOptions& options = {});

  // The same for many, all with the same options (an id is refused here: every message needs its own). Sent in atomic
  // steps of at most 200 messages or 256 KiB. Results stand in the order of the payloads. A ReplyError or
  // ConnectionError in the middle leaves whole steps sent; the ids() of a ConnectionError are those of all messages.
  std::vector<Sent> send_batch(const std::vector<std::string>& payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(std::initializer_list<std::string_view> payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(const std::vector<Draft>& messages);

  // The same as send(), but does not wait for Redis: the future has what send() would return or throw. What makes no
  // sense throws std::invalid_argument at once. Messages go in the order of the calls of one thread, as soon as Redis
  // has answered for those before. Blocks while 10,000 messages, or 16 MiB of payloads, are on their way. The first
  // call starts a thread, the only one, and callbacks for these messages run in it (where this does not block). The
  // destructor returns when all futures are ready.
  std::future<Sent> send_async(std::string payload, const SendOptions& options = {});

  // Takes the message back and says where it was. pending, ready, retry, dead: it is gone and will not be delivered.
  // unack: a consumer has it in hand; if that delivery fails there will be no other. unknown: no such message; also
  // when a call whose answer was lost, or that was not durable in time, had taken it back.
  State cancel(std::string_view id);

  // Gives a message that is not held another due time. Its retries stay; a TTL moves with it.
  Moved reschedule(std::string_view id, const RescheduleOptions& when);

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
