// What a call does with a message after an attempt to send it.
#pragma once

#include "producer/group_commit.h"
#include "redis/failure.h"

namespace delayqueue {

enum class NextStep {
  none,    // the message is done
  repeat,  // it is sent again with its id, to the partition of that
  move,    // it is sent again with a new id, to any partition: nothing of it was written
  fail,    // the call fails
};

// Whether a call is repeated after this failure, as far as it may be.
inline bool is_outage(const redis::Failure& failure) {
  return failure.kind == redis::Failure::Kind::connection || failure.kind == redis::Failure::Kind::slot_unavailable;
}

// `failure`: of the call; `id_is_new`: the library has made the id.
inline NextStep next_step(SendOutcome outcome, const redis::Failure& failure, bool id_is_new) {
  switch (outcome) {
    case SendOutcome::created:
    case SendOutcome::existed:
    case SendOutcome::cancelled:
    case SendOutcome::kept:
    case SendOutcome::replaced:
      return NextStep::none;
    case SendOutcome::refused:
    case SendOutcome::not_durable:  // to wait once more would double the timeout that the caller has set
      return NextStep::fail;
    case SendOutcome::in_doubt:
      return is_outage(failure) ? NextStep::repeat : NextStep::fail;
    case SendOutcome::not_written:
      return !is_outage(failure) ? NextStep::fail : id_is_new ? NextStep::move : NextStep::repeat;
  }
  return NextStep::fail;
}

// The outcome of a message after several attempts: `last` is that of the last one. After a lost answer it is unknown
// which attempt has stored it; a message with an id of the library was stored by this call in any case. What the last
// attempt could not write, or Redis has refused, an earlier one may have stored.
inline SendOutcome merged(SendOutcome last, bool was_in_doubt) {
  if (!was_in_doubt) return last;
  if (last == SendOutcome::existed) return SendOutcome::created;
  const bool says_nothing = last == SendOutcome::not_written || last == SendOutcome::refused;
  return says_nothing ? SendOutcome::in_doubt : last;
}

}  // namespace delayqueue
