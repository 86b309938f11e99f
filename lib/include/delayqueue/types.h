// Values that several classes share: the state of a message, the results of sends and of changes by id, and what is
// stored about a message. Counts in results are std::uint64_t; deliveries and retries of one message are int.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/headers.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace delayqueue {

using std::chrono::milliseconds;

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

// What a send, or QueueAdmin::restore(), has done.
enum class SendResult {
  created,  // the message is stored
  existed,  // nothing was stored: a message with this id exists
  // Nothing was stored: the message with this id was cancelled while a consumer holds it. Send again after that
  // delivery has ended, or with another id.
  cancelled,
  replaced,  // only with RestoreOptions::replace: the message existed, and is the given one now
  held,      // only with RestoreOptions::replace: it was not replaced, because a consumer holds it
};
DELAYQUEUE_EXPORT const char* to_string(SendResult result);

// The result of one send.
struct Sent {
  std::string id{};
  SendResult result = SendResult::existed;
  bool created() const { return result == SendResult::created; }
};

// The result of a change of one message by its id. Each call says which of them it returns.
enum class Outcome {
  done,         // changed as the call says
  already,      // it was so before
  held,         // a consumer holds it: unchanged
  wrong_state,  // it is in a state that the call does not change
  no_payload,   // its payload is missing, so it cannot be delivered: it was removed
  unknown,      // no such message
};
DELAYQUEUE_EXPORT const char* to_string(Outcome outcome);

// What is stored about one message: see Inspector::find and Inspector::list.
struct MessageInfo {
  std::string id{};
  State state = State::unknown;
  // pending: when it is due. unack: when its lease or backoff ends. dead: when it became a dead letter. Unset in ready
  // and retry.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<std::chrono::system_clock::time_point> sent{};  // from the id, if it is a UUIDv7
  bool held = false;                                            // unack only. true: in flight; false: in a backoff
  int deliveries = 0;                                           // so far; 0 in ready and retry may also mean 1
  std::optional<int> retries{};         // left; unset: none recorded (cancelled while held, or a dead letter)
  std::string reason{};                 // why the last delivery failed
  std::optional<std::uint64_t> size{};  // bytes of the payload; unset: it is missing (expired, evicted, deleted)
  // From list() its first ListOptions::payload bytes. From find() all of it; from find() of many ids the first
  // `payload` bytes.
  std::string payload{};
  std::optional<milliseconds> ttl{};  // time until the payload expires; unset: never
  unsigned partition = 0;             // where the message is: see partitions.h
  Headers headers{};
  bool headers_damaged = false;  // true: the stored headers cannot be read, and `headers` is empty, as for the handler
  // retry: since when it waits for another delivery: its lease or backoff ended then. Unset in the other states, and if
  // a Go worker has moved it to retry.
  std::optional<std::chrono::system_clock::time_point> waits_since{};
};

}  // namespace delayqueue
