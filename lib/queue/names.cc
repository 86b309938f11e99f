// The names of the public enumerations. A value that a caller has made from another number is "?".
#include <delayqueue/client.h>
#include <delayqueue/handler.h>
#include <delayqueue/log.h>
#include <delayqueue/message.h>
#include <delayqueue/queue_admin.h>
#include <delayqueue/server.h>

namespace delayqueue {

const char* DELAYQUEUE_ABI::to_string(Settlement settlement) {
  switch (settlement) {
    case Settlement::settled:
      return "settled";
    case Settlement::stale:
      return "stale";
    case Settlement::in_doubt:
      return "in_doubt";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(Severity severity) {
  switch (severity) {
    case Severity::debug:
      return "debug";
    case Severity::info:
      return "info";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(EventKind kind) {
  switch (kind) {
    case EventKind::sent:
      return "sent";
    case EventKind::ready:
      return "ready";
    case EventKind::delivered:
      return "delivered";
    case EventKind::acked:
      return "acked";
    case EventKind::nacked:
      return "nacked";
    case EventKind::retried:
      return "retried";
    case EventKind::dead_lettered:
      return "dead_lettered";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(HashTag hash_tag) {
  switch (hash_tag) {
    case HashTag::automatic:
      return "automatic";
    case HashTag::on:
      return "on";
    case HashTag::off:
      return "off";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(Durability::Kind kind) {
  switch (kind) {
    case Durability::Kind::none:
      return "none";
    case Durability::Kind::replicas:
      return "replicas";
    case Durability::Kind::disk:
      return "disk";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(SendResult result) {
  switch (result) {
    case SendResult::created:
      return "created";
    case SendResult::existed:
      return "existed";
    case SendResult::cancelled:
      return "cancelled";
    case SendResult::kept:
      return "kept";
    case SendResult::replaced:
      return "replaced";
    case SendResult::held:
      return "held";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(HeldMessages held) {
  switch (held) {
    case HeldMessages::skip:
      return "skip";
    case HeldMessages::force:
      return "force";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(RiskKind kind) {
  switch (kind) {
    case RiskKind::eviction:
      return "eviction";
    case RiskKind::memory:
      return "memory";
    case RiskKind::persistence:
      return "persistence";
    case RiskKind::disk:
      return "disk";
    case RiskKind::replica:
      return "replica";
    case RiskKind::clock:
      return "clock";
    case RiskKind::coverage:
      return "coverage";
    case RiskKind::unknown:
      return "unknown";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::already:
      return "already";
    case Outcome::held:
      return "held";
    case Outcome::wrong_state:
      return "wrong_state";
    case Outcome::no_payload:
      return "no_payload";
    case Outcome::key_taken:
      return "key_taken";
    case Outcome::unknown:
      return "unknown";
  }
  return "?";
}

const char* DELAYQUEUE_ABI::to_string(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::ack:
      return "ack";
    case Verdict::Kind::nack:
      return "nack";
    case Verdict::Kind::reject:
      return "reject";
    case Verdict::Kind::snooze:
      return "snooze";
    case Verdict::Kind::pause_queue:
      return "pause_queue";
  }
  return "?";
}

}  // namespace delayqueue
