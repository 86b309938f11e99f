#include "queue/endpoint.h"

#include "queue/option_checks.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <sys/un.h>

#include <stdexcept>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Url;

store::KeyScheme key_options_of(const KeyOptions& options, bool hash_tag) {
  return {options.prefix, hash_tag, options.go.bodies_under_dp};
}

bool wants_hash_tag(const KeyOptions& options, const Url& url) {
  return options.hash_tag == HashTag::on || (options.hash_tag == HashTag::automatic && url.kind == Url::Kind::cluster);
}

[[noreturn]] void reject_unused(const std::string& field, const Url& url, const std::string& why) {
  throw std::invalid_argument(field + ": set, but " + url.text() + ' ' + why);
}

void check_sentinel(const Url& url, const SentinelOptions& sentinel) {
  const bool fits = url.kind == Url::Kind::sentinel;
  const std::string why = "uses no Sentinels; expected redis+sentinel:// or rediss+sentinel://";
  if (!fits && !sentinel.user.empty()) reject_unused("connection.sentinel.user", url, why);
  if (!fits && !sentinel.password.empty()) reject_unused("connection.sentinel.password", url, why);
  if (!fits && sentinel.encrypted) reject_unused("connection.sentinel.encrypted", url, why);
  if (!fits && sentinel.tls) reject_unused("connection.sentinel.tls", url, why);
  if (sentinel.tls && !sentinel.encrypted.value_or(url.addresses.front().tls)) {
    reject_unused("connection.sentinel.tls", url,
                  "has Sentinels without encryption; expected rediss+sentinel:// or sentinel.encrypted");
  }
}

// A connection to a Sentinel that is not encrypted may lead to an attacker. The server that this Sentinel names
// receives the password if its certificate is valid.
std::string risk_of_forged_sentinels(const Url& url, const ClientOptions& options) {
  const bool plain =
      url.kind == Url::Kind::sentinel && url.addresses.front().tls && !options.sentinel.encrypted.value_or(true);
  const bool pinned = !options.tls.ca_file.empty() || !options.tls.server_name.empty();
  if (!plain || pinned) return {};
  return "the connections to the Sentinels of " + url.text() +
         " are not encrypted: a forged Sentinel can name any server with a valid certificate, and that server receives "
         "the password; set connection.tls.ca_file or connection.tls.server_name, or encrypt the connections to the "
         "Sentinels";
}

// Whether EXISTS returned true. A user without permission for the key cannot have created the queue, so false.
bool exists(const redis::Pipeline& pipeline, std::size_t request) {
  try {
    return pipeline.reply(request).integer() != 0;
  } catch (const AccessDenied&) {
    return false;
  }
}

// Parses the URL and checks the options, before the constructor creates anything from them.
Url validated(const std::string& url, const std::string& queue, const ClientOptions& connection,
              const KeyOptions& options, RegisterQueue registers) {
  validate(queue, connection, options);
  if (registers == RegisterQueue::yes) check_new_queue(queue, options.prefix);
  Url parsed = redis::parse_url(url);
  const bool tls = !parsed.addresses.empty() && parsed.addresses.front().tls;
  const TlsOptions& wanted = connection.tls;
  if (!tls && !(wanted.ca_file + wanted.cert_file + wanted.key_file + wanted.server_name).empty()) {
    reject_unused("connection.tls", parsed, "is not encrypted; expected rediss://");
  }
  check_sentinel(parsed, connection.sentinel);
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  for (const redis::Address& address : parsed.addresses) {
    if (!address.host.empty() || address.path.size() <= kLongest) continue;
    throw std::invalid_argument("url: " + parsed.text() + ": the path of a unix socket has at most " +
                                std::to_string(kLongest) + " bytes, this one " + std::to_string(address.path.size()));
  }
  const std::string risk = risk_of_forged_sentinels(parsed, connection);
  if (connection.sentinel.refuse_unpinned && !risk.empty()) {
    throw std::invalid_argument("connection.sentinel.refuse_unpinned: set, but " + risk);
  }
  if (parsed.kind == Url::Kind::cluster) {
    if (options.hash_tag == HashTag::off) {
      throw std::invalid_argument(
          "queue.hash_tag: off, but a Cluster needs all keys of a queue in one slot; leave it automatic");
    }
    KeyOptions tagged = options;
    tagged.hash_tag = HashTag::on;
    validate(queue, connection, tagged);
  }
  return parsed;
}

}  // namespace

Endpoint::Endpoint(const std::string& url, const std::string& queue, const ClientOptions& connection,
                   const KeyOptions& options, RegisterQueue registers, SharePool shares)
    : Endpoint(validated(url, queue, connection, options, registers), queue, connection, options, registers, shares) {}

Endpoint::Endpoint(const Url& url, const std::string& queue, const ClientOptions& connection, const KeyOptions& options,
                   RegisterQueue registers, SharePool shares)
    : queue_(queue),
      key_options_(key_options_of(options, wants_hash_tag(options, url))),
      where_(url.text()),
      warning_(risk_of_forged_sentinels(url, connection)),
      keys_(store::make_keys(queue, key_options_)),
      other_keys_(store::make_keys(queue, key_options_of(options, !wants_hash_tag(options, url)))),
      home_base_(keys_.base),
      registers_(registers),
      is_cluster_(url.kind == Url::Kind::cluster),
      check_hash_tag_conflict_(!is_cluster_),
      slot_(redis::slot_of(keys_.pending)),
      pool_(shares == SharePool::yes ? ConnectionPool::of_process(url, connection)
                                     : std::make_shared<ConnectionPool>(url, connection)) {}

Endpoint::Endpoint(const Endpoint& home, unsigned partition)
    : queue_(home.queue_),
      key_options_(home.key_options_),
      where_(home.where_),
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
  Verification verification{format, store::read_layout(pipeline, keys_), pipeline.size(), 0, 0};
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
    layout_ = verification.layout.get();
  } catch (const Error&) {  // this user may not read it, or it is no layout
  }
  for (std::size_t i = verification.other; i < verification.own; ++i) {
    if (!exists(pipeline, i)) continue;
    throw std::invalid_argument("queue.hash_tag: this queue would be " + keys_.base + ", but " + other_keys_.base +
                                " exists at " + where_ + "; set the same hash_tag in all programs that use the queue");
  }
  there_ = there_ || registers_ == RegisterQueue::yes;
  for (std::size_t i = verification.own; i < verification.end; ++i) there_ = exists(pipeline, i) || there_;
  verified_ = true;
  return there_ && !registered_;
}

store::Layout Endpoint::layout() {
  const std::lock_guard lock(mutex_);
  return layout_;
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
