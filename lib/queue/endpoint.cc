#include "queue/endpoint.h"

#include "queue/client.h"
#include "queue/option_checks.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <stdexcept>

namespace delayqueue {
namespace {

using redis::Connection;

store::KeyScheme key_scheme_of(const KeyOptions& keys, bool hash_tag) {
  return {keys.prefix, hash_tag, keys.go.bodies_under_dp};
}

// Whether EXISTS returned true. A user without permission for the key cannot have created the queue, so false.
bool exists(const redis::Pipeline& pipeline, std::size_t request) {
  try {
    return pipeline.reply(request).integer() != 0;
  } catch (const AccessDenied&) {
    return false;
  }
}

}  // namespace

Endpoint::Endpoint(const Client& client, const std::string& queue, RegisterQueue registers, SharePool shares)
    : queue_(checked_name(client, queue, registers)),
      key_options_(key_scheme_of(client.keys(), has_hash_tag(client.keys(), client.impl_->is_cluster()))),
      where_(client.impl_->where()),
      warning_(client.impl_->warning()),
      command_timeout_(client.impl_->options().command_timeout),
      keys_(store::make_keys(queue, key_options_)),
      other_keys_(store::make_keys(queue, key_scheme_of(client.keys(), !key_options_.hash_tag))),
      home_base_(keys_.base),
      registers_(registers),
      is_cluster_(client.impl_->is_cluster()),
      check_hash_tag_conflict_(!is_cluster_),
      slot_(redis::slot_of(keys_.pending)),
      pool_(shares == SharePool::yes ? client.impl_->shared_pool() : client.impl_->new_pool()) {}

const std::string& Endpoint::checked_name(const Client& client, const std::string& queue, RegisterQueue registers) {
  check_queue(queue, has_hash_tag(client.keys(), client.impl_->is_cluster()));
  if (registers == RegisterQueue::yes) check_new_queue(queue, client.keys().prefix);
  return queue;
}

Endpoint::Endpoint(const Endpoint& home, unsigned partition)
    : queue_(home.queue_),
      key_options_(home.key_options_),
      where_(home.where_),
      command_timeout_(home.command_timeout_),
      keys_(store::make_keys(queue_, key_options_, partition)),
      home_base_(home.home_base_),
      registers_(RegisterQueue::no),
      is_cluster_(home.is_cluster_),
      check_hash_tag_conflict_(false),
      slot_(redis::slot_of(keys_.pending)),
      pool_(home.pool_) {}

std::unique_ptr<Connection> Endpoint::connect() {
  std::unique_ptr<Connection> connection = pool_->topology().connect(slot_);
  verify(*connection);
  return connection;
}

void Endpoint::verify(Connection& connection) {
  redis::Pipeline pipeline(connection);
  const Verification verification = add_verification(pipeline);
  pipeline.run();
  if (read_verification(pipeline, verification)) register_once(connection);
}

// The format is checked at each connection: a newer version may have changed it meanwhile. The rest is checked once.
Endpoint::Verification Endpoint::add_verification(redis::Pipeline& pipeline) {
  const std::lock_guard lock(mutex_);
  const std::size_t format = pipeline.size();
  pipeline.command("HMGET").key(keys_.settings).arg("format");
  Verification verification{format, store::read_sender_settings(pipeline, keys_), pipeline.size(), 0, 0};
  const auto add_exists = [&](const store::Keys& keys) {
    for (const std::string* key : {&keys.pending, &keys.ready, &keys.unack, &keys.retry, &keys.dead}) {
      pipeline.command("EXISTS").key(*key);
    }
  };
  if (check_hash_tag_conflict_ && !verified_) add_exists(other_keys_);
  verification.own = pipeline.size();
  if (registers_ == RegisterQueue::if_exists && !verified_) add_exists(keys_);
  verification.end = pipeline.size();
  return verification;
}

bool Endpoint::read_verification(const redis::Pipeline& pipeline, const Verification& verification) {
  check_format(pipeline, verification.format);
  const std::lock_guard lock(mutex_);
  try {
    settings_ = verification.settings.get();
  } catch (const Error&) {  // this user may not read it, or it is no layout
  }
  for (std::size_t i = verification.other; i < verification.own; ++i) {
    if (!exists(pipeline, i)) continue;
    throw std::invalid_argument("keys.hash_tag: this queue would be " + keys_.base + ", but " + other_keys_.base +
                                " exists at " + where_ + "; set the same hash_tag in all programs that use the queue");
  }
  there_ = there_ || registers_ == RegisterQueue::yes;
  for (std::size_t i = verification.own; i < verification.end; ++i) there_ = exists(pipeline, i) || there_;
  verified_ = true;
  return there_ && !registered_;
}

store::SenderSettings Endpoint::settings() {
  const std::lock_guard lock(mutex_);
  return settings_;
}

// A queue without the field has format 1: those of the Go library, and all of earlier versions. A user without
// permission for the field uses the queue unchecked, as before there was a field.
void Endpoint::check_format(const redis::Pipeline& pipeline, std::size_t request) const {
  try {
    const redis::Reply format = pipeline.reply(request)[0];
    if (format.is_nil() || format.text() == "1") return;
    throw ReplyError("the queue " + keys_.base + " at " + where_ + " is stored in format \"" +
                     redis::escaped(format.text().substr(0, 20)) + "\", and version " + version() +
                     " of this library reads format 1; use a version that reads it (" + keys_.settings +
                     " has the format)");
  } catch (const AccessDenied&) {
  } catch (const ReplyError& error) {
    if (std::string_view(error.what()).find("WRONGTYPE") == std::string_view::npos) throw;
    throw ReplyError("cannot use the queue " + keys_.base + " at " + where_ + ": the key " + keys_.settings +
                     " is no hash, so another program uses it; rename or delete that key");
  }
}

void Endpoint::add_registration(redis::Pipeline& pipeline) {
  pipeline.command("SADD").key(keys_.queues).arg(home_base_);
}

void Endpoint::register_once(Connection& connection) {
  {
    const std::lock_guard lock(mutex_);
    if (registered_) return;
  }
  register_queue(connection);
  const std::lock_guard lock(mutex_);
  registered_ = true;
}

// The set of known queues is for Inspector::queues. In a Cluster another node may hold it. An error is ignored, unless
// the connection broke.
void Endpoint::register_queue(Connection& connection) {
  redis::Pipeline pipeline(connection);
  add_registration(pipeline);
  try {
    pipeline.run();
  } catch (const Error&) {
    if (connection.is_stale()) throw;
  }
  connection.leave_redirection();  // to the node of the set
}

}  // namespace delayqueue
