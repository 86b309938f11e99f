// The names of the public enumerations. A value that a caller has made from another number is "?".
#include <delayqueue/client.h>
#include <delayqueue/delivery.h>
#include <delayqueue/durability.h>
#include <delayqueue/events.h>
#include <delayqueue/message.h>
#include <delayqueue/outcomes.h>
#include <delayqueue/queue_admin_options.h>
#include <delayqueue/server_info.h>
#include <delayqueue/types.h>

namespace delayqueue {

const char* to_string(Settlement settlement) {
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

const char* to_string(Severity severity) {
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

const char* to_string(EventKind kind) {
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

const char* to_string(HashTag hash_tag) {
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

const char* to_string(Durability::Kind kind) {
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

const char* to_string(Moved moved) {
  switch (moved) {
    case Moved::moved:
      return "moved";
    case Moved::refused:
      return "refused";
    case Moved::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(HeldMessages held) {
  switch (held) {
    case HeldMessages::skip:
      return "skip";
    case HeldMessages::force:
      return "force";
  }
  return "?";
}

const char* to_string(RiskKind kind) {
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

const char* to_string(Redriven outcome) {
  switch (outcome) {
    case Redriven::redriven:
      return "redriven";
    case Redriven::no_body:
      return "no_body";
    case Redriven::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(Released outcome) {
  switch (outcome) {
    case Released::released:
      return "released";
    case Released::held:
      return "held";
    case Released::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(Buried outcome) {
  switch (outcome) {
    case Buried::buried:
      return "buried";
    case Buried::already:
      return "already";
    case Buried::held:
      return "held";
    case Buried::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(Extended outcome) {
  switch (outcome) {
    case Extended::extended:
      return "extended";
    case Extended::held:
      return "held";
    case Extended::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::ack:
      return "ack";
    case Verdict::Kind::nack:
      return "nack";
    case Verdict::Kind::reject:
      return "reject";
    case Verdict::Kind::snooze:
      return "snooze";
  }
  return "?";
}

}  // namespace delayqueue
