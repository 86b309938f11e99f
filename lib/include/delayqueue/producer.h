// Producer: sends messages to one queue, and cancels and reschedules them by id.
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
  pending,  // not due yet
  ready,    // due; no consumer has it yet
  unack,    // in flight (leased to a consumer), or in the backoff after a nack
  retry,    // a delivery failed; due again, and no consumer has it yet
  dead,     // a dead letter: out of retries, rejected, or made one by an operator; kept with the reason
};

// The name of the state: "pending", "ready" ...
DELAYQUEUE_EXPORT const char* to_string(State state);

// The result of one send.
struct Sent {
  std::string id{};
  bool created = false;  // false: nothing was stored; a message with this id exists, or see `cancelled`
  // True (then `created` is false): nothing was stored, because the message with this id was cancelled while a consumer
  // holds it. Send again after that delivery has ended, or with another id.
  bool cancelled = false;
};

// One message of a batch in which every message has its own options.
struct OutgoingMessage {
  std::string payload{};
  SendOptions options{};
};

// The result of a reschedule.
enum class Moved {
  moved,    // the message has the new due time: it is pending, or ready if the time has come
  refused,  // a consumer holds the message, or it is a dead letter (see Inspector::redrive)
  unknown,  // no such message
};

// Any number of threads may use one Producer. All calls share one connection, and concurrent sends share round trips.
// The first call connects, so a Producer can be constructed while the server cannot be reached. After a broken
// connection the next call reconnects.
//
// After a fork() the child process must create its own Producers, Consumers and Inspectors. In the child every call to
// an object of the parent throws std::logic_error. The destructor of such an object returns at once, sends nothing and
// does not touch the parent's connections. A call to an object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT Producer {
 public:
  // url: redis://[user:password@]host[:port][/db], unix:///path/to/socket[?db=n],
  // redis+sentinel://[user:password@]host[:port],host.../master[/db] or
  // redis+cluster://[user:password@]host[:port],host... (the TCP ones also with rediss, for TLS), embedded: or
  // embedded:/folder (see private_server.h). Throws std::invalid_argument that names the wrong part: of the URL, the
  // queue or the option.
  Producer(const std::string& url, const std::string& queue, ProducerOptions options = {});
  ~Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Stores the message: any bytes, at most ProducerOptions::max_payload of them. On return Redis has stored the whole
  // message; it is delivered at least once, not before its due time.
  //
  // Throws std::invalid_argument, SetupError (an embedded server cannot be started), ReplyError (nothing was stored),
  // or ConnectionError (unknown whether it was stored: send again with SendOptions::id set to ids().front(); this
  // creates no second message while the first one is in the queue).
  Sent send(std::string_view payload, const SendOptions& options = {});

  // Sends many messages, in atomic steps of at most 200 messages or 256 KiB. The results are in the order of the
  // messages. The first two overloads send all messages with the same options; SendOptions::id must be empty there,
  // because every message needs a different id. Throws as send(). After a ReplyError or ConnectionError some steps may
  // be stored, each completely; the ids() of a ConnectionError are those of all messages, in order.
  std::vector<Sent> send_batch(const std::vector<std::string>& payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(std::initializer_list<std::string_view> payloads, const SendOptions& options = {});
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages);

  // Like send(), but does not wait for Redis: the future receives the result or the error of the send. Invalid
  // arguments throw std::invalid_argument at once. The messages of one calling thread are sent in the order of its
  // calls. Blocks while 10,000 messages, or 16 MiB of payloads, have no reply yet.
  //
  // The first call starts a thread that sends these messages and calls on_event for them. The callback may call
  // send_async, which does not block in that thread. The destructor of the Producer waits until all futures are ready.
  std::future<Sent> send_async(std::string payload, const SendOptions& options = {});

  // Cancels the message and returns the state it was in:
  //   pending, ready, retry, dead  it is removed and will not be delivered; in a backoff the state is retry
  //   unack                        a consumer holds it; this delivery may still succeed, but it is the last one
  //   unknown                      no such message, or an earlier call has cancelled it (its reply was lost, or it was
  //                                not durable in time)
  State cancel(std::string_view id);

  // Sets a new due time of a message that no consumer holds: it is pending then, or ready if the time has come. Its
  // retries stay as they are.
  // The end of its TTL moves by as much as the due time.
  Moved reschedule(std::string_view id, const RescheduleOptions& when);

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
