#include "queue/write_concern.h"

#include <delayqueue/error.h>

#include <algorithm>

namespace delayqueue {
namespace {

constexpr milliseconds kBriefTimeout{10};

redis::Reply whole_reply(redis::Reply reply) { return reply; }

}  // namespace

void WriteConcern::check(redis::Connection& connection) const {
  if (wanted_.kind() == Durability::Kind::none) return;
  redis::Pipeline pipeline(connection);
  add(pipeline, milliseconds(1));
  pipeline.run();
  try {
    pipeline.reply(0);
  } catch (const AccessDenied&) {
    throw;
  } catch (const ReplyError& e) {
    const std::string text = e.what();
    const bool unknown = text.find("unknown command") != std::string::npos;
    throw ReplyError("durability: " + text + (unknown ? "; disk() needs Redis 7.2 or later, or Valkey" : "") +
                     (text.find("appendonly") != std::string::npos ? "; set appendonly yes" : ""));
  }
}

redis::Answer<redis::Reply> WriteConcern::add(redis::Pipeline& pipeline, milliseconds timeout) const {
  if (wanted_.kind() == Durability::Kind::replicas) {
    pipeline.command("WAIT").arg(wanted_.replica_count());
  } else {
    pipeline.command("WAITAOF").arg("1").arg("0");
  }
  pipeline.arg(timeout.count()).takes(timeout).repeatable();
  return {pipeline, whole_reply};
}

WriteConcern::Asked WriteConcern::ask(redis::Pipeline& pipeline) const {
  if (!waits()) return {};
  return {std::nullopt, add(pipeline, wanted_.timeout())};
}

WriteConcern::Asked WriteConcern::ask_after_write(redis::Pipeline& pipeline, const std::string& stats,
                                                  bool briefly) const {
  if (!waits()) return {};
  pipeline.command("HINCRBY").key(stats).arg("sent").arg(0).repeatable();
  const redis::Answer<redis::Reply> written(pipeline, whole_reply);
  return {written, add(pipeline, briefly ? std::min(wanted_.timeout(), kBriefTimeout) : wanted_.timeout())};
}

std::optional<redis::Failure> WriteConcern::missing(const Asked& asked, bool has_written) const {
  if (!asked.confirmed) return std::nullopt;
  bool is_on_disk = false;
  long long confirmed = 0;
  if (auto failure = redis::attempt([&] {
        if (asked.written && !has_written) asked.written->get();
        const redis::Reply reply = asked.confirmed->get();
        if (wanted_.kind() == Durability::Kind::disk) {
          is_on_disk = reply[0].integer() >= 1;
        } else {
          confirmed = reply.integer();
        }
      })) {
    if (failure->kind != redis::Failure::Kind::connection) failure->kind = redis::Failure::Kind::not_durable;
    return failure;
  }
  const std::string within = " within " + std::to_string(wanted_.timeout().count()) + " ms";
  if (wanted_.kind() == Durability::Kind::disk) {
    if (is_on_disk) return std::nullopt;
    return redis::Failure{redis::Failure::Kind::not_durable, "not on the server's disk" + within};
  }
  if (confirmed >= wanted_.replica_count()) return std::nullopt;
  return redis::Failure{redis::Failure::Kind::not_durable, "only " + std::to_string(confirmed) + " of " +
                                                               std::to_string(wanted_.replica_count()) +
                                                               " replicas have it" + within};
}

}  // namespace delayqueue
